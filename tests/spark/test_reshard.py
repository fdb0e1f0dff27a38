"""End to end through splits and merges."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kinesis_source.demo.spark_files import Sink
from kinesis_source.testing import LocalKinesis
from tests.spark.queries import STREAM, ledger_rows, load, rows_in, until

pytestmark = pytest.mark.spark


def test_a_running_query_follows_splits_and_merges_into_parquet(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    sink = Sink(tmp_path / "sink")
    writer = load(spark, kinesis, shardsPerTask=2).writeStream.format("parquet")
    writer = writer.option("path", str(sink.path))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    put = 0

    def put_and_wait(reshard: str) -> None:
        nonlocal put
        for _ in range(100):
            kinesis.put(STREAM, b"%d" % put, f"key {put % 17}")
            put += 1

        def is_in_sink() -> bool:
            sink.refresh()
            return sink.row_count >= put

        until(is_in_sink, f"the records put after {reshard}", query)

    put_and_wait("nothing")
    left, right = kinesis.split(STREAM, kinesis.open_shards(STREAM)[0])
    put_and_wait("the split")
    third = kinesis.open_shards(STREAM)[2]
    kinesis.merge(STREAM, right, third)
    put_and_wait("the merge")
    # Three generations between two looks, the middle one empty.
    middle, _ = kinesis.split(STREAM, left)
    kinesis.split(STREAM, middle)
    put_and_wait("two splits at once")
    query.stop()

    frame = spark.read.parquet(str(sink.path))
    assert rows_in(frame) == ledger_rows(kinesis)
    read = frame.select(
        "partitionKey", "data", "shardId", "_metadata.file_name", "_metadata.row_index"
    )
    placed = sorted(
        (
            sink.batch_of(row.file_name),
            row.file_name,
            row.row_index,
            row.shardId,
            row.partitionKey,
            int(row.data),
        )
        for row in read.collect()
    )
    numbers, batches_of = defaultdict(list), defaultdict(set)
    for batch, _, _, shard_id, key, number in placed:
        numbers[key].append(number)
        batches_of[shard_id].add(batch)
    assert all(of_key == sorted(of_key) for of_key in numbers.values())
    for shard in kinesis.ledger(STREAM).shards.values():
        for parent in shard.parents:
            if batches_of[shard.shard_id] and batches_of[parent]:
                assert min(batches_of[shard.shard_id]) > max(batches_of[parent])
