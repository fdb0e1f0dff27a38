"""The classes that Spark holds, without a JVM: pickled, built without I/O, keeping secrets."""

from __future__ import annotations

import logging
import pickle
import socket
import sys
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StringType, StructType

from kinesis_source.aws.session import Connection
from kinesis_source.errors import (
    AccessDeniedError,
    ConfigurationError,
    CredentialsError,
    KinesisSourceError,
    OffsetFormatError,
    OptionError,
)
from kinesis_source.options import Options
from kinesis_source.reading.arrow import SCHEMA as ARROW_SCHEMA
from kinesis_source.spark import stream_reader
from kinesis_source.spark.partition import KinesisInputPartition
from kinesis_source.spark.source import SCHEMA, KinesisDataSource
from kinesis_source.spark.stream_reader import KinesisStreamReader
from kinesis_source.testing import LocalKinesis
from pyspark_kinesis import DefaultSource
from tests.support.connection import connect_in_process
from tests.support.engine import QueryFailed
from tests.unit.planning.local_query import LocalQuery, MakeQuery

KEY_ID, SECRET, TOKEN = "AKIDTOPSECRETID12345", "T0PSECRET/key+x", "T0KEN/of+session=="
SECRETS = {"awsAccessKeyId": KEY_ID, "awsSecretKey": SECRET, "awsSessionToken": TOKEN}


def refuse_to_connect(*args: object, **kwargs: object) -> Connection:
    raise AssertionError("no connection must be made")


def reader_of(query: LocalQuery, **options: str) -> KinesisStreamReader:
    return query.source(**options).streamReader(SCHEMA)


# How Spark finds and builds it


def test_the_package_that_spark_looks_for_gives_the_source() -> None:
    assert DefaultSource.name() == KinesisDataSource.name() == "kinesis"
    source = DefaultSource({"streamName": "orders"})
    assert type(source) is KinesisDataSource


def test_the_schema_is_the_one_of_the_record_batches() -> None:
    source = KinesisDataSource({"streamname": "orders"})
    assert source.schema() == SCHEMA
    assert to_arrow_schema(SCHEMA, timezone="UTC").equals(ARROW_SCHEMA)


def test_another_schema_is_refused() -> None:
    """By the first method that plans: an error of a constructor is hidden by one of Spark's own."""
    source = KinesisDataSource({"streamName": "orders"})
    reader = source.streamReader(StructType().add("value", StringType()))
    with pytest.raises(OptionError, match=r"struct<value:string>.*Leave out .schema"):
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


def test_options_are_checked_when_the_source_is_built() -> None:
    with pytest.raises(OptionError, match="'streamNmae'; did you mean 'streamName'"):
        KinesisDataSource({"streamNmae": "orders"})


def test_constructors_make_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KinesisDataSource, "connect", staticmethod(refuse_to_connect))
    reader = KinesisDataSource({"streamName": "orders"}).streamReader(SCHEMA)
    assert reader.initialOffset() == {"initial": True, "v": 1}
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxBytes)
    assert reader.reportLatestOffset() is None
    reader.commit({})
    reader.stop()
    assert isinstance(reader, SupportsTriggerAvailableNow)
    with pytest.raises(AssertionError, match="no connection"):
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


def test_nothing_that_is_built_holds_a_client() -> None:
    source = KinesisDataSource({"streamName": "orders", **SECRETS})
    reader = source.streamReader(SCHEMA)
    for built in (source, reader):
        text = repr(vars(built))
        assert "botocore" not in text
        assert "client" not in text.lower()


@pytest.mark.parametrize("pickler", [pickle, CloudPickleSerializer()], ids=["pickle", "spark"])
def test_reader_and_partitions_travel(make_query: MakeQuery, pickler: Any) -> None:
    """From a reader that has planned, with its connection, to one that reads."""
    query = make_query(3, shardsPerTask="2")
    for number in range(3):
        query.put(query.shard(number), 5)
    reader = reader_of(query)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    assert len(partitions) == 2
    copy = pickler.loads(pickler.dumps(reader))
    read = [
        int(number)
        for partition in partitions
        for batch in copy.read(pickler.loads(pickler.dumps(partition)))
        for number in batch.column("sequenceNumber").to_pylist()
    ]
    assert sorted(read) == sorted(query.truth())
    assert copy.reportLatestOffset() is None, "what the planner knows does not travel"


def test_stop_may_be_called_twice_or_before_anything(make_query: MakeQuery) -> None:
    query = make_query()
    reader = reader_of(query)
    reader.stop()
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.stop()
    reader.stop()


# Limits


def test_the_default_limit_never_means_once(make_query: MakeQuery) -> None:
    query = make_query()
    assert reader_of(query).getDefaultReadLimit() == ReadMaxBytes(sys.maxsize)
    limited = reader_of(query, maxBytesPerTrigger="1m").getDefaultReadLimit()
    assert limited == ReadMaxBytes(1 << 20)


@pytest.mark.parametrize(
    ("options", "limit", "expected"),
    [
        ({}, ReadMaxBytes(sys.maxsize), (None, None, 128 << 20)),
        ({"maxRecordsPerTrigger": "9"}, ReadMaxBytes(sys.maxsize), (9, None, 128 << 20)),
        ({"maxRecordsPerTrigger": "9"}, ReadMaxRows(5), (5, None, 128 << 20)),
        ({"maxRecordsPerTrigger": "9"}, ReadMaxRows(50), (9, None, 128 << 20)),
        ({"maxBytesPerTrigger": "1k"}, ReadMaxBytes(1024), (None, 1024, 128 << 20)),
        ({"maxBytesPerTrigger": "1k"}, ReadMaxBytes(10), (None, 10, 128 << 20)),
        ({"maxBytesPerShardPerTrigger": "1k"}, ReadMaxRows(5), (5, None, 1024)),
        ({"maxRecordsPerTrigger": "9"}, ReadAllAvailable(), (None, None, None)),
    ],
)
def test_sparks_limit_and_the_options(
    make_query: MakeQuery, options: dict[str, str], limit: Any, expected: tuple[int | None, ...]
) -> None:
    limits = reader_of(make_query(), **options)._limits(limit)
    assert (limits.max_records, limits.max_bytes, limits.max_bytes_per_shard) == expected


# Offsets


def test_the_offset_comes_back_as_the_same_object_when_nothing_is_new(
    make_query: MakeQuery,
) -> None:
    reader = reader_of(make_query())
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(end, limit) is end


def test_an_end_that_is_no_end_is_refused(make_query: MakeQuery) -> None:
    reader = reader_of(make_query())
    initial = reader.initialOffset()
    with pytest.raises(OffsetFormatError, match="ends at a complete offset"):
        reader.partitions(initial, initial)


def test_a_batch_of_nothing_has_no_partitions(make_query: MakeQuery) -> None:
    reader = reader_of(make_query())
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert list(reader.partitions(end, end)) == []


def test_the_region_travels_with_the_partition(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors may be configured otherwise than the driver."""
    query = make_query()
    query.put(query.shard())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    seen: list[str | None] = []

    def connecting(
        options: Options, role: Any, region: str | None = None, threads: int = 1
    ) -> Connection:
        seen.append(region)
        return connect_in_process(options, role, region, threads)

    options = {"streamName": "orders", "endpointUrl": query.url, "startingPosition": "EARLIEST"}
    reader = KinesisStreamReader(Options.parse(options), connecting)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    assert isinstance(partition, KinesisInputPartition)
    assert partition.region == "eu-central-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    list(reader.read(partition))
    assert seen == [None, "eu-central-1"]


@pytest.mark.parametrize(
    ("attempt", "same_host", "cut_off_s"),
    [(0, False, 300.0), (1, False, 300.0), (2, False, None), (0, True, None)],
)
def test_early_attempts_on_other_hosts_do_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, attempt: int, same_host: bool, cut_off_s: float | None
) -> None:
    """Spark may run the task elsewhere; a later attempt, or one beside the driver, waits."""
    context = TaskContext()
    context._attemptNumber = attempt
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    host = socket.gethostname() if same_host else "driver.example"
    assert stream_reader._cut_off_s(host) == cut_off_s


def test_a_driver_without_a_region_says_so(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = make_query()
    query.put(query.shard())
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    options = {"streamName": "orders", "endpointUrl": query.url, "startingPosition": "EARLIEST"}
    reader = KinesisStreamReader(Options.parse(options), connect_in_process)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    with pytest.raises(CredentialsError, match="no AWS region"):
        reader.partitions(start, end)


# Secrets


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (KEY_ID, SECRET, TOKEN) if secret in text]


def test_secrets_are_in_nothing_that_is_shown(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kinesis_source")
    query = make_query(2, **SECRETS)
    for number in (0, 1):
        query.put(query.shard(number), 3)
    query.fault("throttle", "GetRecords", times=2)
    query.settle()
    source = query.source()
    reader = source.streamReader(SCHEMA)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    shown = [
        f"{source!r} {source}",
        *(f"{thing!r} {thing} {vars(thing)!r}" for thing in (reader, *partitions)),
        caplog.text,
        repr(query.engine.last_report),
        *query.offsets.values(),
    ]
    assert "throttl" in caplog.text.lower() or "ProvisionedThroughput" in caplog.text
    assert [s for text in shown for s in secrets_in(text)] == []


@pytest.mark.parametrize("refusal", ["access_denied", "expired_credentials", "reset"])
def test_secrets_are_in_no_error(
    make_query: MakeQuery, refusal: Any, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(**SECRETS)
    query.fault(refusal, None, times=None)
    with pytest.raises(QueryFailed) as failed:
        query.trigger()
    error = failed.value.original
    assert isinstance(error, (AccessDeniedError, CredentialsError, ConfigurationError))
    assert secrets_in(f"{error!r} {error} {vars(error)!r} {caplog.text}") == []
    chain: list[BaseException | None] = [error.__cause__, error.__context__]
    assert not any(c is not None and secrets_in(f"{c!r} {vars(c)!r}") for c in chain)


def test_secrets_are_in_no_error_of_the_options() -> None:
    for broken in (
        {"awsAccessKeyId": KEY_ID},
        {"awsSecretKey": SECRET},
        {**SECRETS, "profile": "other"},
        {**SECRETS, "maxFetchRate": "fast"},
        {"endpointUrl": f"http://{KEY_ID}:{SECRET}@host"},
    ):
        with pytest.raises(OptionError) as caught:
            KinesisDataSource({"streamName": "orders", **broken})
        assert secrets_in(str(caught.value)) == []


def test_errors_survive_the_way_to_the_driver(make_query: MakeQuery) -> None:
    query = make_query(streamName="another")
    with pytest.raises(QueryFailed) as failed:
        query.trigger()
    error = failed.value.original
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, KinesisSourceError)
    assert (type(copy), str(copy)) == (type(error), str(error))


# Over HTTP, as Spark's workers do


def test_planning_and_reading_through_the_sdk() -> None:
    with LocalKinesis() as kinesis:
        kinesis.create_stream("orders", shards=3)
        put = [kinesis.put("orders", b"%d" % n, f"key-{n}").sequence_number for n in range(50)]
        options = {
            **kinesis.spark_options("orders"),
            "startingPosition": "TRIM_HORIZON",
            "minFetchPeriod": "200ms",
        }
        reader = KinesisDataSource(options).streamReader(SCHEMA)
        copy = pickle.loads(pickle.dumps(reader))
        read: list[int] = []
        start = reader.initialOffset()
        for _ in range(10):
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            partitions: list[InputPartition] = list(reader.partitions(start, end))
            for partition in partitions:
                for batch in copy.read(partition):
                    read += map(int, batch.column("sequenceNumber").to_pylist())
            start = end
            if len(read) >= len(put):
                break
        reader.stop()
    assert sorted(read) == sorted(put)
