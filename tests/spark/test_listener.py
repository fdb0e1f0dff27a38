"""The listener beside running queries: figures, log lines, and the error of one that ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kinesis_source.core.figures import QueryFigures
from kinesis_source.spark.listener import KinesisMetricsListener
from kinesis_source.testing import Fault, LocalKinesis
from tests.spark.queries import STREAM, Batches, ledger_rows, load, until

pytestmark = pytest.mark.spark

MODULE = "kinesis_source.spark.listener"


@pytest.fixture
def reports(spark: SparkSession) -> Iterator[list[QueryFigures]]:
    """What a listener's callback is given; it fails each time."""
    given: list[QueryFigures] = []

    def callback(figures: QueryFigures) -> None:
        given.append(figures)
        raise OSError("no route to the metrics server")

    listener = KinesisMetricsListener(callback)
    spark.streams.addListener(listener)
    yield given
    spark.streams.removeListener(listener)


def test_a_query_that_lags_catches_up_is_throttled_and_dies(
    spark: SparkSession,
    kinesis: LocalKinesis,
    tmp_path: Path,
    reports: list[QueryFigures],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, MODULE)
    kinesis.create_stream(STREAM, shards=2)
    busy, quiet = kinesis.open_shards(STREAM)
    start_ms = kinesis.ledger(STREAM).created_ms - 7_200_000
    for second in range(300):
        kinesis.put_to_shard(STREAM, busy, b"record", arrival_ms=start_ms + second * 1000)
    kinesis.split(STREAM, quiet)
    batches = Batches()
    # With this period every shard is looked at in every plan, so no lag is an estimate.
    query = batches.start(
        load(spark, kinesis, maxRecordsPerTrigger=100, minFetchPeriod="1s"), tmp_path
    )
    until(lambda: batches.rows == ledger_rows(kinesis), "all rows", query)
    until(lambda: reports and reports[-1].figures["maxMsBehindLatest"] == 0, "no lag", query)

    first = reports[0]
    assert (first.query_id, first.run_id, first.batch_id) == (query.id, query.runId, 0)
    assert first.sources[0].stream == STREAM
    assert 6_000_000 < first.sources[0].lag_ms[busy] < 7_500_000
    assert first.figures["maxMsBehindLatest"] == first.sources[0].lag_ms[busy]
    # The parent that was split is finished, its children are read from the next batch on.
    assert (first.figures["numTotalShards"], first.figures["numClosedShards"]) == (4, 1)
    assert reports[1].figures["minMsBehindLatest"] == 0
    assert (reports[-1].figures["numTotalShards"], reports[-1].figures["numClosedShards"]) == (3, 0)
    assert sum(int(r.figures["numProcessedRecords"]) for r in reports) == 300
    assert {r.figures["numAwsRateLimitErrors"] for r in reports} == {0}

    seen = len(reports)
    kinesis.inject(Fault("throttle", "GetRecords", times=None))
    kinesis.put_to_shard(STREAM, busy, b"held back")
    until(lambda: reports[-1].figures["maxMsBehindLatest"], "the lag of an idle query", query)
    assert {r.figures["numProcessedRecords"] for r in reports[seen:]} == {0}
    assert sum(int(r.figures["numAwsRateLimitErrors"]) for r in reports[seen:]) > 0

    lines = said(caplog, logging.INFO)
    assert len(lines) == len(reports)
    assert len({r.timestamp for r in reports}) == len(reports), "one report twice"
    assert f"query {query.id}, batch 0: orders: avgMsBehindLatest" in lines[0]
    # Once a minute at most.
    for warning in said(caplog, logging.WARNING):
        assert "failed: OSError('no route to the metrics server')" in warning
    assert 1 <= len(said(caplog, logging.WARNING)) < len(reports)

    kinesis.clear_faults()
    kinesis.delete_stream(STREAM)
    until(lambda: said(caplog, logging.ERROR), "the error in the log")
    (error,) = said(caplog, logging.ERROR)
    assert f"query {query.id} ended: StreamNotFoundError: stream 'orders' was not found" in error
    assert "\n" not in error


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    records = [r for r in caplog.records if r.name == MODULE and r.levelno == level]
    return [record.getMessage() for record in records]


def test_two_streams_in_one_query_are_kept_apart(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, reports: list[QueryFigures]
) -> None:
    for stream, records in (("one", 30), ("two", 20)):
        kinesis.create_stream(stream)
        for _ in range(records):
            kinesis.put(stream, b"record", "key")
    frame = load(spark, kinesis, "one").union(load(spark, kinesis, "two"))
    rate = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING)")
    writer = frame.select("shardId").union(rate).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    until(lambda: reports, "a report", query)
    query.stop()
    rows = {s.stream: s.figures["numProcessedRecords"] for s in reports[0].sources}
    assert rows == {"one": 30, "two": 20}
    assert reports[0].figures["numProcessedRecords"] == 50
    assert reports[0].figures["numStreams"] == 2
