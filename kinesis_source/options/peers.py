"""The options of the other Kinesis sources for Spark, each declared once with our answer to it.

| answer | |
|---|---|
| `Alias` | means what one of our options means: accepted in its place |
| `Always` | asks for one of several behaviours: accepted if it is the one we have, else an error |
| `Refused` | has no counterpart: an error that says what to use, or why there is nothing |

Errors and the tables of docs/migrating.md come from `PEERS`; names are resolved in `naming`.
Sources: for awslabs and roncemer their code on GitHub, `KinesisOptions.scala` and
`KinesisSource*.scala`; for Databricks and Glue their documentation. Options of theirs that have
our name are listed too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alias:
    """`ours`: the name of our option. `convert`: from the peer's text to ours where they differ;
    raises ValueError with what it expects. `note`: for the table, where values differ."""

    ours: str
    note: str = ""
    convert: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Always:
    """`value`: what we always do, in the peer's words. `otherwise`: ends the error for any other
    value and stands in the table."""

    value: str
    otherwise: str


@dataclass(frozen=True, slots=True)
class Refused:
    """`why`: one or two sentences, for the error and for the table."""

    why: str


@dataclass(frozen=True, slots=True)
class PeerOption:
    """`name`: as the peer writes it, prefix included; letter case does not count."""

    name: str
    answer: Alias | Always | Refused


@dataclass(frozen=True, slots=True)
class Peer:
    """`title`: a heading. `whose`: ends "option x of …"."""

    title: str
    whose: str
    options: tuple[PeerOption, ...]


def _bare_is_milliseconds(text: str) -> str:
    """Spark's `timeStringAsMs` takes a number without a unit for milliseconds."""
    bare = text.strip()
    return f"{bare}ms" if bare.isascii() and bare.isdecimal() else text


def _time_only(text: str) -> str:
    return f"AT_TIMESTAMP {text.strip()}"


_START = "an offset of its checkpoint too"
_NO_FAN_OUT = "This source polls and registers no consumers: enhanced fan-out is not there yet"
_FAN_OUT_ONLY = Refused(f"{_NO_FAN_OUT}. Leave it out.")
_BATCH_LIMIT = (
    "Limit a batch by maxBytesPerShardPerTrigger (bytes of one shard) or maxRecordsPerTrigger "
    "(records of all shards together)."
)
_NO_TIME_LIMIT = Refused(
    "The end of a batch is fixed before it is read, so no time cuts it short. Limit its size with "
    "maxBytesPerShardPerTrigger (by default about a minute of reading)."
)
_RETRIES = Refused(
    "A call that fails and may succeed later is tried again, with growing waits; there is nothing "
    "to set. Leave it out."
)
_PACE = Refused(
    "Tasks keep to the service's limits by themselves. To leave room for other readers, set "
    "maxFetchRate (bytes a second and shard) for tasks and minFetchPeriod for the planner."
)
_NO_STORE = Refused(
    "Spark's checkpoint is the only record of progress; there is no store beside it. Leave it out."
)
_NO_SINK = Refused("This is a source only; there is no sink.")
_DATA_AS_PUT = Refused(
    "The column data is bytes as they were put: parse it in the job, for instance with "
    "from_json(CAST(data AS STRING), schema)."
)
_PAGE = Always("10000", "Each GetRecords call asks for the most there is, 10,000 records.")
_NO_EMPTY_BATCHES = Always(
    "true",
    "Idle triggers make no batch, but for a rare one that writes down a reshard or a time. Leave "
    "it out.",
)
_NO_IDLE = Always("false", _PACE.why)
_DRIVER_CALLS = Refused("How many calls the driver makes at once is fixed. Leave it out.")
_NO_QUEUE = Refused(
    "A task reads to the end of its shard range, however long the shard is quiet; it has no queue. "
    "Leave it out."
)

_NO_BLOCKS = Refused(
    "No blocks are fetched ahead that could be put together. Leave it out; shardsPerTask says how "
    "many shards one task reads."
)
_LISTING = Refused(
    "How many shards one call lists is fixed. Leave it out; shardFetchInterval says how often "
    "they are listed."
)
_NO_CATALOG = Refused(
    "The names of Unity Catalog are unknown outside Databricks. Give its role as roleArn, with "
    "roleExternalId, or leave it to the AWS SDK's default chain."
)
_NO_PROVIDER_CLASS = Refused(
    "No class of your own is loaded. Give credentials by the AWS SDK's default chain, by profile "
    "(which may name a credential_process) or by roleArn."
)

AWSLABS = Peer(
    "awslabs (Amazon EMR), `aws-kinesis`",
    "awslabs' connector",
    tuple(
        PeerOption(f"kinesis.{name}", answer)
        for name, answer in (
            ("streamName", Alias("streamName")),
            ("endpointUrl", Alias("endpointUrl", "not required here")),
            (
                "region",
                Alias("region", "there the region of its DynamoDB table, here of the stream"),
            ),
            ("kinesisRegion", Alias("region")),
            ("startingPosition", Alias("startingPosition", _START)),
            ("failOnDataLoss", Alias("failOnDataLoss", "default there `false`, here `true`")),
            (
                "describeShardInterval",
                Alias(
                    "shardFetchInterval",
                    "at least `200ms`; default there `1s`, here `10s`",
                    _bare_is_milliseconds,
                ),
            ),
            ("stsRoleArn", Alias("roleArn")),
            ("stsSessionName", Alias("roleSessionName", "not required here")),
            ("stsEndpointUrl", Alias("stsEndpointUrl")),
            ("awsAccessKeyId", Alias("awsAccessKeyId")),
            ("awsSecretKey", Alias("awsSecretKey")),
            ("sessionToken", Alias("awsSessionToken")),
            ("consumerType", Always("GetRecords", f"{_NO_FAN_OUT}.")),
            ("consumerName", _FAN_OUT_ONLY),
            ("subscribeToShard.timeoutSec", _FAN_OUT_ONLY),
            ("subscribeToShard.maxRetries", _FAN_OUT_ONLY),
            ("maxFetchRecordsPerShard", Refused(_BATCH_LIMIT)),
            ("maxFetchTimePerShardSec", _NO_TIME_LIMIT),
            ("getRecords.numberOfRecordsPerFetch", _PAGE),
            ("getRecords.fetchIntervalMs", _PACE),
            ("minBatchesToRetain", _NO_STORE),
            ("checkNewRecordThreads", _DRIVER_CALLS),
            ("metadataCommitterType", _NO_STORE),
            ("metadataPath", _NO_STORE),
            ("metadataNumRetries", _NO_STORE),
            ("metadataRetryIntervalsMs", _NO_STORE),
            ("metadataMaxRetryIntervalMs", _NO_STORE),
            ("dynamodb.tableName", _NO_STORE),
            ("clientNumRetries", _RETRIES),
            ("clientRetryIntervalsMs", _RETRIES),
            ("clientMaxRetryIntervalMs", _RETRIES),
            ("credentialProviderClass", _NO_PROVIDER_CLASS),
            ("credentialProviderParam", _NO_PROVIDER_CLASS),
            ("internal.avoidEmptyBatches", _NO_EMPTY_BATCHES),
            ("internal.dataQueueCapacity", _NO_QUEUE),
            ("internal.maxDataQueueEmptyCount", _NO_QUEUE),
            ("internal.dataQueueWaitTimeoutSec", _NO_QUEUE),
            ("internal.maintenanceTaskIntervalSec", _NO_STORE),
            ("sink.flushWaitTimeMs", _NO_SINK),
            ("sink.recordMaxBufferedTimeMs", _NO_SINK),
            ("sink.maxConnections", _NO_SINK),
            ("sink.aggregationEnabled", _NO_SINK),
            ("sink.recordTtl", _NO_SINK),
            ("sink.proxyAddress", _NO_SINK),
            ("sink.proxyPort", _NO_SINK),
            ("sink.proxyUsername", _NO_SINK),
            ("sink.proxyPassword", _NO_SINK),
        )
    ),
)

DATABRICKS = Peer(
    "Databricks, `kinesis` and `read_kinesis`",
    "Databricks' source",
    tuple(
        PeerOption(name, answer)
        for name, answer in (
            ("streamName", Alias("streamName", "one stream: `union` joins several")),
            ("streamARN", Alias("streamARN", "one stream: `union` joins several")),
            ("region", Alias("region")),
            ("endpoint", Alias("endpointUrl", "with `https://`")),
            (
                "initialPosition",
                Alias(
                    "startingPosition",
                    '`{"at_timestamp": …}` too; the time needs an offset or a zone that means one',
                ),
            ),
            (
                "maxFetchRate",
                Alias("maxFetchRate", "there MB/s, here bytes/s: `1.0` is written `1m`"),
            ),
            ("minFetchPeriod", Alias("minFetchPeriod", "default there `400ms`, here `1s`")),
            ("shardsPerTask", Alias("shardsPerTask", "default there `5`, here `8`")),
            ("shardFetchInterval", Alias("shardFetchInterval", "default there `1s`, here `10s`")),
            ("roleArn", Alias("roleArn")),
            ("roleExternalId", Alias("roleExternalId")),
            ("roleSessionName", Alias("roleSessionName")),
            ("stsEndpoint", Alias("stsEndpointUrl", "with `https://`")),
            ("awsAccessKey", Alias("awsAccessKeyId")),
            ("awsSecretKey", Alias("awsSecretKey")),
            ("consumerMode", Always("polling", f"{_NO_FAN_OUT}.")),
            ("requireConsumerDeregistration", Always("false", f"{_NO_FAN_OUT}.")),
            ("consumerName", _FAN_OUT_ONLY),
            ("consumerNamePrefix", _FAN_OUT_ONLY),
            ("consumerRefreshInterval", _FAN_OUT_ONLY),
            ("registeredConsumerId", _FAN_OUT_ONLY),
            ("registeredConsumerIdType", _FAN_OUT_ONLY),
            ("maxRecordsPerFetch", _PAGE),
            (
                "maxPartitions",
                Refused(
                    "The number of tasks follows from shardsPerTask: give that instead, the number "
                    "of shards divided by the tasks you want."
                ),
            ),
            (
                "fetchBufferSize",
                Refused(
                    "Nothing is fetched ahead of a batch. Limit the size of a batch with "
                    "maxBytesPerTrigger."
                ),
            ),
            (
                "maxFetchDuration",
                Refused(
                    "Nothing is fetched ahead of a batch. How often there is one says the trigger, "
                    "how large it is maxBytesPerShardPerTrigger."
                ),
            ),
            ("maxShardsPerDescribe", _LISTING),
            ("coalesceThresholdBlockSize", _NO_BLOCKS),
            ("coalesceBinSize", _NO_BLOCKS),
            ("serviceCredential", _NO_CATALOG),
            ("databricks.connection", _NO_CATALOG),
        )
    ),
)

GLUE = Peer(
    "AWS Glue, connection options of `kinesis`",
    "AWS Glue",
    tuple(
        PeerOption(name, answer)
        for name, answer in (
            ("streamARN", Alias("streamARN")),
            ("streamName", Alias("streamName")),
            (
                "endpointUrl",
                Alias("endpointUrl", "not required here; an AWS address says the region too"),
            ),
            ("startingPosition", Alias("startingPosition", "a bare UTC time too")),
            ("startingTimestamp", Alias("startingPosition", "as `AT_TIMESTAMP`", _time_only)),
            ("failOnDataLoss", Alias("failOnDataLoss")),
            ("awsSTSRoleARN", Alias("roleArn")),
            ("awsSTSSessionName", Alias("roleSessionName")),
            ("awsSTSEndpoint", Alias("stsEndpointUrl", "with `https://`")),
            ("roleArn", Alias("roleArn")),
            ("roleSessionName", Alias("roleSessionName")),
            (
                "describeShardInterval",
                Alias(
                    "shardFetchInterval",
                    "with a unit, at least `200ms`; default there `1s`, here `10s`",
                ),
            ),
            ("maxRecordPerRead", _PAGE),
            ("avoidEmptyBatches", _NO_EMPTY_BATCHES),
            ("addIdleTimeBetweenReads", _NO_IDLE),
            ("idleTimeBetweenReadsInMs", _PACE),
            ("maxFetchTimeInMs", _NO_TIME_LIMIT),
            ("maxFetchRecordsPerShard", Refused(_BATCH_LIMIT)),
            ("numRetries", _RETRIES),
            ("retryIntervalMs", _RETRIES),
            ("maxRetryIntervalMs", _RETRIES),
            ("fanoutConsumerARN", _FAN_OUT_ONLY),
            (
                "addRecordTimestamp",
                Always("false", "The time of arrival is the column approximateArrivalTimestamp."),
            ),
            (
                "emitConsumerLagMetrics",
                Always("false", "The lag is in the query's progress, as latestOffset."),
            ),
            ("inferSchema", Always("false", _DATA_AS_PUT.why)),
            ("classification", _DATA_AS_PUT),
            ("delimiter", _DATA_AS_PUT),
            ("schema", _DATA_AS_PUT),
            ("avroSchema", _DATA_AS_PUT),
            ("partitionKey", _NO_SINK),
            ("recordMaxBufferedTime", _NO_SINK),
            ("aggregationEnabled", _NO_SINK),
            ("aggregationMaxSize", _NO_SINK),
            ("aggregationMaxCount", _NO_SINK),
            ("producerRateLimit", _NO_SINK),
            ("collectionMaxCount", _NO_SINK),
            ("collectionMaxSize", _NO_SINK),
        )
    ),
)

#: roncemer's is qubole's carried on; Glue's options are theirs without the prefixes.
QUBOLE = Peer(
    "qubole and roncemer, `kinesis`",
    "qubole's and roncemer's connector",
    tuple(
        PeerOption(name, answer)
        for name, answer in (
            ("streamName", Alias("streamName")),
            (
                "endpointUrl",
                Alias("endpointUrl", "not required here; an AWS address says the region too"),
            ),
            ("regionName", Alias("region")),
            ("startingPosition", Alias("startingPosition", _START)),
            ("failOnDataLoss", Alias("failOnDataLoss")),
            ("awsAccessKeyId", Alias("awsAccessKeyId")),
            ("awsSecretKey", Alias("awsSecretKey")),
            ("sessionToken", Alias("awsSessionToken")),
            ("awsSTSRoleARN", Alias("roleArn")),
            ("awsSTSSessionName", Alias("roleSessionName")),
            (
                "awsUseInstanceProfile",
                Refused(
                    "Without keys, profile or role the AWS SDK's default chain is used; the "
                    "instance's profile is the last in it. Leave it out."
                ),
            ),
            (
                "kinesis.client.describeShardInterval",
                Alias(
                    "shardFetchInterval",
                    "at least `200ms`; default there `1s`, here `10s`",
                    _bare_is_milliseconds,
                ),
            ),
            ("kinesis.client.avoidEmptyBatches", _NO_EMPTY_BATCHES),
            ("kinesis.client.maxParallelThreads", _DRIVER_CALLS),
            ("kinesis.client.numRetries", _RETRIES),
            ("kinesis.client.retryIntervalMs", _RETRIES),
            ("kinesis.client.maxRetryIntervalMs", _RETRIES),
            ("kinesis.executor.maxFetchTimeInMs", _NO_TIME_LIMIT),
            ("kinesis.executor.maxFetchRecordsPerShard", Refused(_BATCH_LIMIT)),
            ("kinesis.executor.maxRecordPerRead", _PAGE),
            ("kinesis.executor.addIdleTimeBetweenReads", _NO_IDLE),
            ("kinesis.executor.idleTimeBetweenReadsInMs", _PACE),
            ("kinesis.executor.metadata.committer", _NO_STORE),
            ("kinesis.executor.metadata.path", _NO_STORE),
            ("kinesis.executor.metadata.hdfs.numRetries", _NO_STORE),
            ("kinesis.executor.metadata.hdfs.retryIntervalMs", _NO_STORE),
            ("kinesis.executor.metadata.hdfs.maxRetryIntervalMs", _NO_STORE),
            ("kinesis.executor.recordMaxBufferedTime", _NO_SINK),
            ("kinesis.executor.maxConnections", _NO_SINK),
            ("kinesis.executor.aggregationEnabled", _NO_SINK),
            ("kniesis.executor.flushWaitTimeMillis", _NO_SINK),  # so spelt in its code
        )
    ),
)

PEERS = (AWSLABS, DATABRICKS, GLUE, QUBOLE)


def peers_tables() -> str:
    """The tables of docs/migrating.md, Markdown: a heading and a table for each peer."""
    return "\n".join(f"### {peer.title}\n\n{_table(peer)}" for peer in PEERS)


def _table(peer: Peer) -> str:
    names: dict[Alias | Always | Refused, list[str]] = {}
    for option in peer.options:
        names.setdefault(option.answer, []).append(f"`{option.name}`")
    lines = ["| There | Here | |", "|---|---|---|"]
    for answer, theirs in names.items():
        match answer:
            case Alias(ours=ours, note=note):
                here = f"`{ours}`"
            case Always(value=value, otherwise=note):
                here = f"only `{value}`, which changes nothing"
            case Refused(why=note):
                here = "–"
        lines.append(f"| {', '.join(theirs)} | {here} | {note} |")
    return "\n".join(lines) + "\n"
