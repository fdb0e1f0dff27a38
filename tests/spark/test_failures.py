"""What docs/failures.md says of a running query, on a real Spark."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kinesis_source.core.offset import OFFSET_VERSION
from kinesis_source.testing import LocalKinesis
from tests.spark.queries import (
    CLOCK,
    STREAM,
    Batches,
    DriverLog,
    MovableClock,
    Row,
    finish,
    ledger_rows,
    load,
    rows_in,
    until,
)

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
#: A shard iterator lives five minutes.
SIX_MINUTES_MS = 360_000


def put(kinesis: LocalKinesis, count: int, text: str = "record") -> None:
    for number in range(count):
        kinesis.put(STREAM, f"{text} {number}".encode(), f"key {number % 11}")


# The sink


class FailingSink(Batches):
    """Refuses what it is given while it is down; `refused`: that."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = True
        self.refused: list[tuple[int, list[Row]]] = []

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        if self.is_down:
            self.refused.append((batch_id, rows_in(frame)))
            raise OSError("the warehouse is down")
        super()._take(frame, batch_id)


def test_a_sink_that_is_down_gets_the_same_batch_until_it_is_back(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    put(kinesis, 100, "before")
    before = ledger_rows(kinesis)
    sink = FailingSink()
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="the warehouse is down"):
            finish(sink.start(load(spark, kinesis), tmp_path))
        put(kinesis, 50, "meanwhile")
    kinesis.split(STREAM, kinesis.open_shards(STREAM)[0])
    assert sink.refused == [(0, before)] * 2
    sink.is_down = False
    query = sink.start(load(spark, kinesis), tmp_path)
    until(lambda: sink.rows == ledger_rows(kinesis), "all rows", query)
    query.stop()
    assert sink.by_id[0] == before
    assert sink.runs == sorted(set(sink.runs)), "a batch was run twice"


def test_a_sink_that_takes_longer_than_shard_iterators_live(
    spark: SparkSession, tmp_path: Path, driver_log: DriverLog
) -> None:
    clock = MovableClock()

    class SlowSink(Batches):
        def _take(self, frame: DataFrame, batch_id: int) -> None:
            put(kinesis, 20)
            super()._take(frame, batch_id)
            clock.forward_ms += SIX_MINUTES_MS

    with LocalKinesis(clock) as kinesis:
        kinesis.create_stream(STREAM, shards=2)
        sink = SlowSink()
        query = sink.start(load(spark, kinesis), tmp_path)
        until(lambda: len(sink.runs) >= 4, "four slow batches", query)
        query.stop()
    rows = ledger_rows(kinesis)
    assert sink.rows == [row for row in rows if row in sink.rows]
    assert len(sink.rows) >= 3 * 20
    assert driver_log.lines(" WARNING kinesis_source") == []


# The stream


@pytest.mark.parametrize(
    ("where", "delete_ms", "error"),
    [
        ("planner", 0, "StreamNotFoundError: stream 'orders' was not found"),
        ("task", 60_000, "StreamNotReadyError: stream 'orders' has the status DELETING"),
    ],
)
def test_a_stream_deleted_under_a_query_ends_it_soon(
    spark: SparkSession, tmp_path: Path, where: str, delete_ms: int, error: str
) -> None:
    with LocalKinesis(delete_ms=delete_ms) as kinesis:
        kinesis.create_stream(STREAM, shards=2)

        class DeletingSink(Batches):
            def _take(self, frame: DataFrame, batch_id: int) -> None:
                if self.by_id and where == "task":
                    delete()
                super()._take(frame, batch_id)

        deleted_at: list[float] = []

        def delete() -> None:
            if not deleted_at:
                kinesis.delete_stream(STREAM)
                deleted_at.append(CLOCK.monotonic())

        put(kinesis, 20)
        sink = DeletingSink()
        query = sink.start(load(spark, kinesis), tmp_path)
        until(lambda: sink.by_id, "the first batch", query)
        put(kinesis, 20)
        if where == "planner":
            until(lambda: len(sink.rows) == 40, "all rows", query)
            delete()
        with pytest.raises(StreamingQueryException) as caught:
            finish(query)
        assert CLOCK.monotonic() - deleted_at[0] < 20
    assert error in str(caught.value)


# The neighbours


@contextmanager
def neighbour(kinesis: LocalKinesis) -> Iterator[list[int]]:
    """Another reader along every shard, five calls a second; the records in each of its pages."""
    client, stopping, pages = kinesis.in_process_client(), threading.Event(), [0]
    iterators = {
        shard_id: client.get_shard_iterator(
            StreamName=STREAM, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for shard_id in kinesis.open_shards(STREAM)
    }

    def read() -> None:
        while not stopping.is_set():
            for shard_id, iterator in iterators.items():
                try:
                    page = client.get_records(ShardIterator=iterator)
                except ClientError:
                    continue
                pages.append(len(page["Records"]))
                iterators[shard_id] = page["NextShardIterator"]
            CLOCK.sleep(0.2)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield pages
    finally:
        stopping.set()
        thread.join()


@pytest.mark.slow
def test_beside_a_reader_that_uses_up_the_calls_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, driver_log: DriverLog
) -> None:
    with LocalKinesis(quotas=True) as kinesis:
        kinesis.create_stream(STREAM, shards=2)
        put(kinesis, 50)
        batches, begun = Batches(), CLOCK.monotonic()
        with neighbour(kinesis) as pages:
            query = batches.start(load(spark, kinesis, minFetchPeriod="1s"), tmp_path)
            for _ in range(3):
                until(lambda: batches.rows == ledger_rows(kinesis), "all rows", query)
                put(kinesis, 50)
            until(lambda: batches.rows == ledger_rows(kinesis), "all rows", query)
            query.stop()
            assert sum(pages) >= 150, "the neighbour has read, too"
        seconds = CLOCK.monotonic() - begun
        assert len(pages) > 2 * 3 * seconds, "at almost five calls a second"
    warnings = driver_log.lines("could not be probed, will try again")
    assert len(warnings) <= 2 * (1 + seconds / 60), "one a minute and shard"


# The clock


@pytest.mark.parametrize("service_ms", [-HOUR_MS, HOUR_MS], ids=["behind", "ahead"])
def test_a_machine_whose_clock_is_an_hour_off_the_services(
    spark: SparkSession, tmp_path: Path, driver_log: DriverLog, service_ms: int
) -> None:
    clock = MovableClock()
    clock.forward_ms = service_ms
    with LocalKinesis(clock) as kinesis:
        kinesis.create_stream(STREAM, shards=2)
        put(kinesis, 20, "too early")
        CLOCK.sleep(0.01)
        time = f"AT_TIMESTAMP {clock.now_ms()}"
        put(kinesis, 20, "early")
        batches = Batches()
        query = batches.start(load(spark, kinesis, startingPosition=time), tmp_path)
        until(lambda: batches.runs, "the first batch", query)
        put(kinesis, 20, "late")
        until(lambda: len(batches.rows) == 40, "all from that time on", query)
        until(lambda: lag_ms(query) is not None, "a report", query)
        lag = lag_ms(query)
        query.stop()
    assert batches.data == {b"%s %d" % (w, n) for w in (b"early", b"late") for n in range(20)}
    assert lag is not None
    assert lag < 60_000
    assert driver_log.lines(" WARNING kinesis_source") == []


def lag_ms(query: StreamingQuery) -> int | None:
    latest = query.lastProgress.sources[0].latestOffset if query.lastProgress else None
    return json.loads(latest)["millisBehindLatest"]["max"] if latest else None


# The checkpoint

OURS = "this release reads version " + str(OFFSET_VERSION)

#: What is in the checkpoint in place of the last offset, and what the user then reads.
OTHER_OFFSETS = {
    "of Kafka": (
        '{"orders":{"0":120,"1":98}}',
        "OffsetFormatError: found {'orders': {'0': 120, '1': 98}}, which is no offset of "
        "format('kinesis'). Expected the checkpoint of a query that reads a Kinesis stream",
    ),
    "of a later release": (
        '{"v": 2, "places": {}}',
        f"OffsetFormatError: found an offset of version 2; {OURS}. If a newer release wrote the "
        "checkpoint, run that release or a later one",
    ),
    "cut short": ('{"shards": {"shardId-000000000000": ["AFTER_SEQ', "JSONDecodeError"),
    "missing": (None, "next on empty iterator"),
}


def test_a_checkpoint_that_is_not_this_querys(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    for stream in (STREAM, "other"):
        kinesis.create_stream(stream)
        kinesis.put(stream, b"record", "key")
    sound = tmp_path / "sound"
    Batches().run_available(load(spark, kinesis), sound)
    found = {"of another stream": error_of(spark, kinesis, sound, "other")}
    for name, (offset, _) in OTHER_OFFSETS.items():
        folder = tmp_path / name
        shutil.copytree(sound, folder)
        replace_offset(folder, offset)
        found[name] = error_of(spark, kinesis, folder)
    for name, (_, sentence) in OTHER_OFFSETS.items():
        assert sentence in found[name], found[name]
    assert (
        "StreamRecreatedError: the Spark checkpoint belongs to stream "
        "arn:aws:kinesis:us-east-1:123456789012:stream/orders, but the options name "
        "arn:aws:kinesis:us-east-1:123456789012:stream/other. Expected the checkpoint of that "
        "stream: give the query its own checkpointLocation" in found["of another stream"]
    )
    # Nothing of this has changed anything.
    kinesis.put(STREAM, b"more", "key")
    batches = Batches()
    batches.run_available(load(spark, kinesis), sound)
    assert batches.data == {b"more"}


def error_of(
    spark: SparkSession, kinesis: LocalKinesis, checkpoint: Path, stream: str = STREAM
) -> str:
    batches = Batches()
    with pytest.raises(StreamingQueryException) as caught:
        batches.run_available(load(spark, kinesis, stream), checkpoint)
    assert batches.rows == []
    return str(caught.value)


def replace_offset(checkpoint: Path, offset: str | None) -> None:
    """In the end of the only batch; None leaves nothing but the log's version."""
    log = checkpoint / "offsets" / "0"
    version, metadata, _ = log.read_text().splitlines()
    (log.parent / ".0.crc").unlink()
    log.write_text(version if offset is None else "\n".join((version, metadata, offset)))
