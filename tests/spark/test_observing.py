"""What a running query tells: a line a batch in the driver's log, the lag in Spark's progress."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kinesis_source.testing import LocalKinesis
from tests.spark.queries import STREAM, Batches, DriverLog, ledger_rows, load, until

pytestmark = pytest.mark.spark

LINE = re.compile(
    r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d INFO kinesis_source\S*: orders: batch planned in \d+ ms; "
    r"shards: (?P<read>\d+) read, (?P<waiting>\d+) waiting, (?P<finished>\d+) finished; "
    r"(?P<span>records from \S+Z to \S+Z|no records); "
    r"(?P<behind>\d+) ms behind latest; calls: .*GetRecords \d+.*; throttles: 0$"
)


def test_each_batch_has_one_line_in_the_drivers_log(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, driver_log: DriverLog
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    batches = Batches()
    query = batches.start(load(spark, kinesis), tmp_path)
    until(lambda: batches.runs, "the first batch", query)
    for _ in range(3):
        for number in range(20):
            kinesis.put(STREAM, b"record", f"key {number}")
        until(lambda: batches.rows == ledger_rows(kinesis), "the rows", query)
    kinesis.split(STREAM, kinesis.open_shards(STREAM)[0])
    batch = len(batches.runs)
    until(lambda: len(batches.runs) > batch, "the batch that finishes the parent", query)
    query.stop()
    lines = [LINE.match(line) for line in driver_log.lines("batch planned")]
    assert all(lines)
    assert len(lines) == len(batches.runs)
    assert [line["finished"] for line in lines if line].count("1") == 1
    held_records = [batches.by_id[number] != [] for number in sorted(batches.by_id)]
    assert [line["span"] != "no records" for line in lines if line] == held_records


def test_the_lag_of_each_shard_is_in_the_progress(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    busy, quiet = kinesis.open_shards(STREAM)
    start_ms = kinesis.ledger(STREAM).created_ms - 7_200_000
    for second in range(600):
        kinesis.put_to_shard(STREAM, busy, b"record", arrival_ms=start_ms + second * 1000)
    batches = Batches()
    # With this period every shard is looked at in every plan, so no lag is an estimate.
    frame = load(spark, kinesis, maxRecordsPerTrigger=100, minFetchPeriod="1s")
    query = batches.start(frame, tmp_path)
    until(lambda: len(batches.rows) == 600, "all rows", query)
    until(lambda: lags(query)[-1]["max"] == 0, "a report without lag", query)
    query.stop()
    first = lags(query)[0]
    assert set(first["shards"]) == {busy, quiet}
    assert first["shards"][quiet] == 0
    assert 6_000_000 < first["shards"][busy] < 7_500_000
    assert first["max"] == first["total"] == first["shards"][busy]


def lags(query: StreamingQuery) -> list[dict[str, Any]]:
    """`millisBehindLatest` of each progress report that has one."""
    reported = [progress.sources[0].latestOffset for progress in query.recentProgress]
    return [json.loads(text)["millisBehindLatest"] for text in reported if text]
