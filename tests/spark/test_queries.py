"""Queries as people build them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kinesis_source.clock import SystemClock
from kinesis_source.testing import LocalKinesis
from tests.spark.queries import (
    STREAM,
    Batches,
    Row,
    finish,
    ledger_rows,
    load,
    options_of,
    row_order,
    until,
)

pytestmark = pytest.mark.spark


def test_options_are_taken_in_any_letter_case(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.put(STREAM, b"record", "key")
    batches = Batches()
    for number, change in enumerate((str.lower, str.upper)):
        options = {change(name): value for name, value in options_of(kinesis).items()}
        options[change("startingPosition")] = change("trim_horizon")
        frame = spark.readStream.format(change("kinesis")).options(**options).load()
        batches.run_available(frame, tmp_path / str(number))
        assert batches.rows == ledger_rows(kinesis)


def test_two_streams_in_one_query(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    for stream, shards in (("one", 2), ("two", 1)):
        kinesis.create_stream(stream, shards)
        for number in range(50):
            kinesis.put(stream, f"{stream} {number}".encode(), f"key {number % 7}")
    batches = Batches()

    def both() -> list[Row]:
        return sorted(ledger_rows(kinesis, "one") + ledger_rows(kinesis, "two"), key=row_order)

    for _ in range(2):
        frame = load(spark, kinesis, "one").union(load(spark, kinesis, "two"))
        batches.run_available(frame, tmp_path)
        assert batches.rows == both()
        kinesis.put("two", b"later", "key")


def test_a_frame_united_with_itself_has_every_record_twice(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    for number in range(50):
        kinesis.put(STREAM, b"record %d" % number, f"key {number % 7}")
    frame = load(spark, kinesis)
    batches = Batches()
    batches.run_available(frame.union(frame), tmp_path)
    assert batches.rows == sorted(ledger_rows(kinesis) * 2, key=row_order)


def test_windows_over_the_arrival_time_with_a_watermark(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    hour_ms = 3_600_000
    first_ms = (kinesis.ledger(STREAM).created_ms // hour_ms - 5) * hour_ms
    for minute in range(240):
        arrival_ms = first_ms + minute * 60_000
        kinesis.put(STREAM, b"record", f"key {minute % 7}", arrival_ms=arrival_ms)
    time = "approximateArrivalTimestamp"
    frame = load(spark, kinesis, maxRecordsPerTrigger=50).withWatermark(time, "1 minute")
    counts = frame.groupBy(f.window(time, "1 hour")).count()
    start = f.unix_millis("window.start").alias("hour")
    writer = counts.select(start, "count").writeStream.format("memory").queryName("hours")
    writer = writer.outputMode("append").trigger(availableNow=True)
    finish(writer.option("checkpointLocation", str(tmp_path)).start())
    found = sorted((row["hour"], row["count"]) for row in spark.table("hours").collect())
    # The last hour is still open.
    assert found == [(first_ms + hour * hour_ms, 60) for hour in range(3)]


@pytest.mark.parametrize("position", ["LATEST", "AT_TIMESTAMP 2020-01-01T00:00:00Z"])
def test_a_checkpoint_goes_before_another_starting_position(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, position: str
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.put(STREAM, b"first", "key")
    batches = Batches()
    batches.run_available(load(spark, kinesis), tmp_path)
    kinesis.put(STREAM, b"while stopped", "key")
    batches.run_available(load(spark, kinesis, startingPosition=position), tmp_path)
    assert [row.data for row in batches.by_id[1]] == [b"while stopped"]
    assert batches.rows == ledger_rows(kinesis)


def test_a_query_stops_at_once_though_its_stream_cannot_be_reached(
    spark: SparkSession, tmp_path: Path
) -> None:
    clock = SystemClock()
    batches = Batches()
    with LocalKinesis() as kinesis:
        kinesis.create_stream(STREAM, shards=2)
        kinesis.put(STREAM, b"record", "key")
        frame = load(spark, kinesis)
        query = batches.start(frame, tmp_path / "reached once")
        until(lambda: batches.rows == ledger_rows(kinesis), "the first rows", query)
    never_reached = batches.start(frame, tmp_path / "never reached")
    frozen = batches.start(frame, tmp_path / "never frozen", availableNow=True)
    for stopped in (query, never_reached, frozen):
        began = clock.monotonic()
        stopped.stop()
        assert not stopped.isActive
        assert clock.monotonic() - began < 10
        assert stopped.exception() is None
