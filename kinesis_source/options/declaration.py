"""The options of `format("kinesis")`, each declared once.

Parsing, error messages and the README's table come from `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kinesis_source.core.starting_position import parse_starting_position, parse_time_ms
from kinesis_source.options.values import (
    at_least,
    parse_count,
    parse_duration_ms,
    parse_endpoint_url,
    parse_fetch_rate,
    parse_flag,
    parse_lease_table,
    parse_secret,
    parse_size,
    parse_stream_arn,
    parse_stream_name,
    text_like,
)


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """`default`: as the user would write it, None for none. `description`: for the README, with
    what the default costs where that is a matter of calls."""

    name: str
    field: str
    parse: Callable[[str], Any]
    default: str | None
    description: str


_ROLE_ARN = r"arn:aws[a-z-]*:iam::\d{12}:role/[!-~]+"
_ROLE_ARN_EXPECTED = "arn:aws:iam::<account>:role/<name>"

OPTIONS = (
    OptionSpec(
        "streamName",
        "stream_name",
        parse_stream_name,
        None,
        "The stream. This or `streamARN` is required.",
    ),
    OptionSpec(
        "streamARN",
        "stream_arn",
        parse_stream_arn,
        None,
        "The stream by its ARN. The ARN is then sent to AWS with each call, which changes the "
        "host that is called to `<account>.data-kinesis.<region>…`.",
    ),
    OptionSpec(
        "region",
        "region",
        text_like(r"[a-z0-9-]+", "the name of a region, such as eu-west-1"),
        None,
        "The stream's region. Without it: the ARN's or that of an AWS `endpointUrl`, else the "
        "driver's own (environment, profile).",
    ),
    OptionSpec(
        "endpointUrl",
        "endpoint_url",
        parse_endpoint_url,
        None,
        "Another address for Kinesis, such as a VPC endpoint or a local stream.",
    ),
    OptionSpec(
        "startingPosition",
        "starting_position",
        parse_starting_position,
        "LATEST",
        "Where a query without a checkpoint starts: `LATEST`, `TRIM_HORIZON` (or `EARLIEST`), "
        "`AT_TIMESTAMP <ISO-8601 time with offset, or epoch milliseconds>`, or JSON for single "
        'shards: `{"default": "LATEST", "shardId-000000000001": "AFTER_SEQUENCE_NUMBER 4957…"}`; '
        "there also `SHARD_END`.",
    ),
    OptionSpec(
        "startFromLeaseTable",
        "start_from_lease_table",
        parse_lease_table,
        None,
        "A KCL application's lease table in DynamoDB: a query without a checkpoint starts where "
        "its leases say. `startingPosition` then is for leases that carry no time, which must be "
        "given as `AT_TIMESTAMP …`, and for shards related to no lease; its default is "
        "`TRIM_HORIZON`.",
    ),
    OptionSpec(
        "writeLeaseTable",
        "write_lease_table",
        parse_lease_table,
        None,
        "A lease table into which committed progress is written, so that a KCL application can "
        "take over. A view of Spark's checkpoint, up to a batch and a minute behind. Costs one "
        "write every 10 s for each shard with news.",
    ),
    OptionSpec(
        "leaseTableRegion",
        "lease_table_region",
        text_like(r"[a-z0-9-]+", "the name of a region, such as eu-west-1"),
        None,
        "The region of the lease tables. Without it: the stream's.",
    ),
    OptionSpec(
        "leaseTableEndpointUrl",
        "lease_table_endpoint_url",
        parse_endpoint_url,
        None,
        "Another address for DynamoDB.",
    ),
    OptionSpec(
        "leaseTableRoleArn",
        "lease_table_role_arn",
        text_like(_ROLE_ARN, _ROLE_ARN_EXPECTED),
        None,
        "A role to assume for the lease tables. Without it: the stream's `roleArn`, if any.",
    ),
    OptionSpec(
        "failOnDataLoss",
        "fail_on_data_loss",
        parse_flag,
        "true",
        "`true`: stop the query when records that it had still to read are gone. `false`: log what "
        "is gone and go on from the oldest record left.",
    ),
    OptionSpec(
        "acceptDataLossUntil",
        "accept_data_loss_until_ms",
        parse_time_ms,
        None,
        "To leave a stop by `failOnDataLoss` for one restart: losses found before this time "
        "(ISO-8601 with offset, or epoch milliseconds; at most a day ahead) are logged, later ones "
        "stop the query again. The error suggests one; it may stay in the options.",
    ),
    OptionSpec(
        "maxRecordsPerTrigger",
        "max_records_per_trigger",
        parse_count,
        None,
        "About how many records a batch may hold, all shards together. A soft limit: up to a page "
        "a shard more.",
    ),
    OptionSpec(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        parse_size,
        None,
        "The same in bytes of data (`512k`, `64m`, `1g`).",
    ),
    OptionSpec(
        "maxBytesPerShardPerTrigger",
        "max_bytes_per_shard_per_trigger",
        parse_size,
        "128m",
        "About how many bytes a batch may hold of one shard. The default takes about a minute to "
        "read at the service's 2 MB/s a shard.",
    ),
    OptionSpec(
        "shardsPerTask",
        "shards_per_task",
        parse_count,
        "8",
        "How many shards one Spark task reads, concurrently. A task costs Spark 30 to 50 ms, more "
        "than reading a quiet shard; fewer shards a task spread a busy stream over more cores.",
    ),
    OptionSpec(
        "minFetchPeriod",
        "min_fetch_period_ms",
        at_least(200, "ms", parse_duration_ms),
        "1s",
        "The least time between two looks of the planner at one shard, at least `200ms`. The "
        "default costs 1 of the shard's 5 GetRecords calls a second while it is quiet, 2 while it "
        "is busy. A run of `Trigger.AvailableNow` keeps to it between two batches too.",
    ),
    OptionSpec(
        "shardFetchInterval",
        "shard_fetch_interval_ms",
        at_least(200, "ms", parse_duration_ms),
        "10s",
        "How often the shards are listed while nothing tells of a reshard, at least `200ms`. The "
        "default costs 6 ListShards calls a minute for each 1,000 shards.",
    ),
    OptionSpec(
        "maxFetchRate",
        "max_fetch_rate",
        parse_fetch_rate,
        "2m",
        "How many bytes a second tasks read from one shard at most, at least `64k`. The default is "
        "all that the service gives to all readers of a shard together; less leaves room for the "
        "others.",
    ),
    OptionSpec(
        "roleArn",
        "role_arn",
        text_like(_ROLE_ARN, _ROLE_ARN_EXPECTED),
        None,
        "A role to assume, on the driver and on each executor, renewed when half of its session is "
        "over. Costs one AssumeRole call about every 30 minutes for the driver and for each Python "
        "worker of the executors.",
    ),
    OptionSpec(
        "roleExternalId",
        "role_external_id",
        text_like(r"[\w+=,.@:/-]{2,1224}", "2 to 1,224 of the characters a-z A-Z 0-9 +=,.@:/-_"),
        None,
        "The external id that the role's trust policy asks for.",
    ),
    OptionSpec(
        "roleSessionName",
        "role_session_name",
        text_like(r"[\w+=,.@-]{2,64}", "2 to 64 of the characters a-z A-Z 0-9 +=,.@-_"),
        "pyspark-kinesis",
        "The name of the role's session in CloudTrail.",
    ),
    OptionSpec(
        "stsEndpointUrl",
        "sts_endpoint_url",
        parse_endpoint_url,
        None,
        "Another address for STS, where the role is assumed. Without it: that of the region.",
    ),
    OptionSpec(
        "profile",
        "profile",
        text_like(r"[^\x00-\x1f]+", "the name of a profile"),
        None,
        "A profile of the AWS configuration files, which must be on the driver and on each worker.",
    ),
    OptionSpec(
        "awsAccessKeyId",
        "aws_access_key_id",
        parse_secret,
        None,
        "Fixed credentials, with `awsSecretKey`. Without them, `profile` or `roleArn`: the SDK's "
        "default chain (environment, profile, the machine's or pod's role).",
    ),
    OptionSpec(
        "awsSecretKey",
        "aws_secret_key",
        parse_secret,
        None,
        "Fixed credentials, with `awsAccessKeyId`.",
    ),
    OptionSpec(
        "awsSessionToken",
        "aws_session_token",
        parse_secret,
        None,
        "The session token of temporary fixed credentials. The query ends when they expire.",
    ),
)


def options_table() -> str:
    """The README's table, Markdown: name, default, meaning."""
    lines = ["| Option | Default | Meaning |", "|---|---|---|"]
    for spec in OPTIONS:
        default = "" if spec.default is None else f"`{spec.default}`"
        lines.append(f"| `{spec.name}` | {default} | {spec.description} |")
    return "\n".join(lines) + "\n"
