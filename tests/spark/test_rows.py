"""What a row is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kinesis_source.testing import LocalKinesis
from tests.spark.queries import (
    SESSION_ZONE,
    STREAM,
    WORKER_ZONE,
    Batches,
    ledger_rows,
    load,
)

pytestmark = pytest.mark.spark


def test_the_schema_is_exactly_the_documented_one(
    spark: SparkSession, kinesis: LocalKinesis
) -> None:
    kinesis.create_stream(STREAM)
    assert load(spark, kinesis).schema == StructType(
        [
            StructField("partitionKey", StringType(), nullable=True),
            StructField("data", BinaryType(), nullable=True),
            StructField("stream", StringType(), nullable=True),
            StructField("shardId", StringType(), nullable=True),
            StructField("sequenceNumber", StringType(), nullable=True),
            StructField("approximateArrivalTimestamp", TimestampType(), nullable=True),
        ]
    )


def test_every_column_holds_what_the_stream_recorded(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=3, null_keys=True)
    for number in range(60):
        kinesis.put(STREAM, b"record %d" % number, f"customer {number % 7}")
    for key in ("ключ", "キー", "🔑", "é", " ", "a" * 256):
        kinesis.put(STREAM, key.encode(), key)
    kinesis.put(STREAM, b"a null key", None)
    kinesis.put(STREAM, b"", "a record without a byte")
    kinesis.put(STREAM, bytes(range(256)), "every byte")
    batches = Batches()
    batches.run_available(load(spark, kinesis), tmp_path)
    assert batches.rows == ledger_rows(kinesis)
    assert len(batches.rows) == 69


def test_times_are_exact_to_the_millisecond_in_any_zone(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2, retention_hours=24 * 365)
    now_ms = kinesis.ledger(STREAM).created_ms
    day_ms = 86_400_000
    # Every 6 hours for 300 days: the worker's zone goes into and out of summer time on the way.
    for number in range(1200):
        arrival_ms = now_ms - 300 * day_ms + number * day_ms // 4 + number % 1000
        kinesis.put(STREAM, str(arrival_ms).encode(), f"key {number}", arrival_ms=arrival_ms)
    zone = f.udf(worker_zone, useArrow=False)
    frame = load(spark, kinesis)
    batches = Batches()
    batches.run_available(frame.withColumn("partitionKey", zone("shardId")), tmp_path)
    assert {row.data: row.arrival_us for row in batches.rows} == {
        row.data: int(row.data) * 1000 for row in ledger_rows(kinesis)
    }
    assert {row.partition_key for row in batches.rows} == {WORKER_ZONE}
    assert spark.conf.get("spark.sql.session.timeZone") == SESSION_ZONE


def worker_zone(_: str) -> str:
    return os.environ["TZ"]


def test_a_record_of_ten_mebibytes_arrives_whole(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, max_record_kib=10_240)
    key = "big"
    large = hashlib.shake_256(b"seed").digest(10 * 1024 * 1024 - len(key))
    for data in (b"before", large, b"after"):
        kinesis.put(STREAM, data, key)
    batches = Batches()
    batches.run_available(load(spark, kinesis), tmp_path)
    assert [row.data for row in batches.rows] == [b"before", large, b"after"]
