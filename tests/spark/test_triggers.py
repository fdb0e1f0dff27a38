"""When batches come, what they hold, and when a run ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kinesis_source.testing import LocalKinesis
from tests.spark.queries import STREAM, Batches, finish, ledger_rows, load, until

pytestmark = pytest.mark.spark


class ChangingBatches(Batches):
    """Puts records and splits a shard while the first batch is being read."""

    def __init__(self, kinesis: LocalKinesis) -> None:
        super().__init__()
        self._kinesis = kinesis

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        if not self.runs:
            put(self._kinesis, "while it runs", 50)
            self._kinesis.split(STREAM, self._kinesis.open_shards(STREAM)[0])
            put(self._kinesis, "after the split", 50)
        super()._take(frame, batch_id)


def put(kinesis: LocalKinesis, text: str, count: int, **more: int) -> None:
    for number in range(count):
        kinesis.put(STREAM, f"{text} {number}".encode(), f"key {number % 11}", **more)


@pytest.mark.parametrize("limits", [{}, {"maxRecordsPerTrigger": "60", "maxBytesPerTrigger": "2k"}])
def test_available_now_reads_exactly_what_was_there_whatever_happens_meanwhile(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, limits: dict[str, str]
) -> None:
    kinesis.create_stream(STREAM, shards=3)
    start_ms = kinesis.ledger(STREAM).created_ms - 3_600_000
    for second in range(300):
        put(kinesis, f"before {second}", 1, arrival_ms=start_ms + second * 1000)
    kinesis.merge(STREAM, *kinesis.open_shards(STREAM)[:2])
    put(kinesis, "before, after the merge", 20)
    before = ledger_rows(kinesis)
    batches = ChangingBatches(kinesis)
    batches.run_available(load(spark, kinesis, **limits), tmp_path)
    assert batches.rows == before
    if limits:
        assert len(batches.runs) > 2
    batches.run_available(load(spark, kinesis, **limits), tmp_path)
    assert batches.rows == ledger_rows(kinesis)
    assert batches.runs == sorted(set(batches.runs)), "a batch was run twice"


def test_available_now_ends_on_an_empty_stream(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    batches = Batches()
    for _ in range(2):
        batches.run_available(load(spark, kinesis), tmp_path)
    assert batches.rows == []
    assert batches.runs == [0]
    put(kinesis, "at last", 3)
    batches.run_available(load(spark, kinesis), tmp_path)
    assert batches.rows == ledger_rows(kinesis)


def test_available_now_gets_through_empty_pages(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM)
    put(kinesis, "behind them", 30)
    kinesis.empty_pages(STREAM, kinesis.open_shards(STREAM)[0], 30)
    batches = Batches()
    batches.run_available(load(spark, kinesis), tmp_path)
    assert batches.rows == ledger_rows(kinesis)


def test_once_reads_everything_in_one_batch_whatever_the_limits(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    start_ms = kinesis.ledger(STREAM).created_ms - 3_600_000
    for second in range(200):
        put(kinesis, f"record {second}", 1, arrival_ms=start_ms + second * 1000)
    batches = Batches()
    finish(batches.start(load(spark, kinesis, maxRecordsPerTrigger=10), tmp_path, once=True))
    assert batches.runs == [0]
    assert batches.rows == ledger_rows(kinesis)


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "500 milliseconds"}])
def test_no_batch_while_nothing_happens_after_a_restart_too(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, trigger: dict[str, str]
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    shards = kinesis.open_shards(STREAM)
    batches = Batches()

    def looks() -> int:
        return min(kinesis.calls["GetRecords", shard_id] for shard_id in shards)

    def stay_idle() -> None:
        before, seen = list(batches.runs), looks()
        until(lambda: looks() >= seen + 3, "three more looks at each shard", query)
        assert batches.runs == before

    put(kinesis, "first", 20)
    query = batches.start(load(spark, kinesis), tmp_path, **trigger)
    until(lambda: batches.rows == ledger_rows(kinesis), "the first rows", query)
    stay_idle()
    put(kinesis, "second", 20)
    until(lambda: batches.rows == ledger_rows(kinesis), "the second rows", query)
    stay_idle()
    query.stop()

    query = batches.start(load(spark, kinesis), tmp_path, **trigger)
    stay_idle()
    put(kinesis, "third", 20)
    until(lambda: batches.rows == ledger_rows(kinesis), "the third rows", query)
    query.stop()
    assert batches.runs == sorted(set(batches.runs)), "a batch was run twice"
