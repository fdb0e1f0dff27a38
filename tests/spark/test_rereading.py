"""A batch that is read again gives the same rows: second actions, attempts, replays."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kinesis_source.demo.spark_files import Checkpoint
from kinesis_source.testing import LocalKinesis
from tests.spark.attempts import attempts, twice
from tests.spark.drivers import submit
from tests.spark.queries import (
    CLOCK,
    STREAM,
    Batches,
    MovableClock,
    Row,
    finish,
    ledger_rows,
    load,
    options_of,
    rows_in,
    until,
)

pytestmark = pytest.mark.spark


@contextmanager
def producing(kinesis: LocalKinesis) -> Iterator[None]:
    """Numbered records for a few keys, a few hundred a second, as long as the block runs."""
    stopping = threading.Event()

    def run() -> None:
        number = 0
        while not stopping.is_set():
            kinesis.put(STREAM, b"record %d" % number, f"key {number % 13}")
            number += 1
            CLOCK.sleep(0.005)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def test_a_second_action_reads_the_same_rows_though_more_have_come(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    for number in range(200):
        kinesis.put(STREAM, b"before %d" % number, f"key {number % 11}")
    before = ledger_rows(kinesis)
    first, second, opened = [], [], []

    def take(frame: DataFrame, _: int) -> None:
        # Ends its tasks after their first rows.
        assert not frame.isEmpty()
        first.extend(rows_in(frame))
        opened.append(iterators_opened(kinesis))
        for number in range(50):
            kinesis.put(STREAM, b"between %d" % number, f"key {number % 11}")
        kinesis.split(STREAM, kinesis.open_shards(STREAM)[0])
        second.extend(rows_in(frame))
        opened.append(iterators_opened(kinesis))

    writer = load(spark, kinesis).writeStream.foreachBatch(take).trigger(availableNow=True)
    finish(writer.option("checkpointLocation", str(tmp_path)).start())
    assert first == before
    assert second == before
    assert opened[1] >= opened[0] + 2, "the second action did not read the stream"


def iterators_opened(kinesis: LocalKinesis) -> int:
    return sum(n for (call, _), n in kinesis.calls.items() if call == "GetShardIterator")


def test_a_failed_task_attempt_and_the_next_are_given_the_same_rows(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    for number in range(200):
        kinesis.put(STREAM, b"record %d" % number, f"key {number % 11}")
    folder = tmp_path / "attempts"
    folder.mkdir()
    rows: list[Row] = []

    def take(frame: DataFrame, _: int) -> None:
        step = frame.rdd.mapPartitions(twice(folder, "fails"))
        rows.extend(rows_in(spark.createDataFrame(step, frame.schema)))

    writer = load(spark, kinesis).writeStream.foreachBatch(take).trigger(availableNow=True)
    finish(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    made = attempts(folder)
    assert set(made) == {(0, 0), (0, 1)}
    assert by_shard(made[0, 0]) == by_shard(made[0, 1])
    assert rows == ledger_rows(kinesis)


def by_shard(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    """A shard's rows are in order; the shards of a task come as they come."""
    return {shard: [row for row in rows if row[0] == shard] for shard in {row[0] for row in rows}}


def test_batch_0_under_latest_is_read_again_as_it_was_after_a_kill(
    spark: SparkSession, tmp_path: Path
) -> None:
    clock = MovableClock()
    with LocalKinesis(clock) as kinesis:
        kinesis.create_stream(STREAM, shards=3)
        rows, checkpoint = tmp_path / "rows.json", tmp_path / "checkpoint"
        arguments = {
            "options": options_of(kinesis, startingPosition="LATEST"),
            "checkpoint": str(checkpoint),
            "rows": str(rows),
        }
        with producing(kinesis):
            with submit("stuck_in_batch_0", arguments, tmp_path / "log") as driver:
                driver.until(rows.exists, "the rows of batch 0")
                driver.kill()
            logs = Checkpoint(checkpoint)
            assert (logs.offsets(), logs.commits()) == ([0], [])
            batch_id, first = json.loads(rows.read_text())
            assert batch_id == 0
            assert first, "batch 0 held no record"

            put = len(ledger_rows(kinesis))
            until(lambda: len(ledger_rows(kinesis)) > put + 100, "records in between")
            kinesis.split(STREAM, kinesis.open_shards(STREAM)[0])
            clock.forward_ms += 3_600_000

        batches = Batches()
        query = batches.start(
            load(spark, kinesis, startingPosition="LATEST"), checkpoint, availableNow=True
        )
        finish(query)
    again = [[row.shard_id, row.sequence_number, row.data.hex()] for row in batches.by_id[0]]
    assert again == first
    assert batches.rows == rows_from(first, ledger_rows(kinesis))


def rows_from(first: list[list[str]], rows: list[Row]) -> list[Row]:
    """Those rows that a query which began with `first` must see: all from the oldest of them on.
    Children of the shards come whole."""
    began = {}
    for shard_id, number, _ in first:
        began[shard_id] = min(int(number), began.get(shard_id, int(number)))
    return [row for row in rows if int(row.sequence_number) >= began.get(row.shard_id, 0)]


def test_a_parquet_sink_has_every_record_once_after_a_kill_in_the_middle_of_a_batch(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=3)
    folder, sink, checkpoint = tmp_path / "hold", tmp_path / "sink", tmp_path / "checkpoint"
    folder.mkdir()
    logs = Checkpoint(checkpoint)
    arguments = {
        "options": options_of(kinesis),
        "sink": str(sink),
        "checkpoint": str(checkpoint),
        "hold": str(folder),
    }
    with producing(kinesis):
        with submit("into_parquet", arguments, tmp_path / "log") as driver:
            driver.until(lambda: len(logs.commits()) >= 2, "two committed batches")
            (folder / "hold").touch()
            driver.until((folder / "held").exists, "a task in the middle of its rows")
            unfinished = logs.unfinished_batch()
            driver.kill()
        assert unfinished is not None
        assert logs.unfinished_batch() == unfinished
        kinesis.merge(STREAM, *kinesis.open_shards(STREAM)[:2])
        put = len(ledger_rows(kinesis))
        until(lambda: len(ledger_rows(kinesis)) > put + 100, "records in between")
    writer = load(spark, kinesis).writeStream.format("parquet").option("path", str(sink))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    finish(writer.start())
    assert unfinished in logs.commits()
    assert rows_in(spark.read.parquet(str(sink))) == ledger_rows(kinesis)
