"""Lease tables with real Spark: what is written follows Spark's commits and never leads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kinesis_source.testing import LocalKinesis
from tests.spark.queries import STREAM, Batches, load, until
from tests.support.dynamodb import REGION, LocalDynamoDB, local_dynamodb
from tests.support.kcl_rows import kcl_1

pytestmark = pytest.mark.spark

TABLE = "orders-application"


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[LocalDynamoDB]:
    with local_dynamodb() as server:
        server.create_lease_table(TABLE)
        yield server


def lease_options(dynamodb: LocalDynamoDB, *uses: str) -> dict[str, str]:
    return {
        **dict.fromkeys(uses, TABLE),
        "leaseTableRegion": REGION,
        "leaseTableEndpointUrl": dynamodb.url,
    }


def leased(dynamodb: LocalDynamoDB) -> dict[str, str]:
    items = dynamodb.client.scan(TableName=TABLE, ConsistentRead=True)["Items"]
    return {item["leaseKey"]["S"]: item["checkpoint"]["S"] for item in items}


class LookingBatches(Batches):
    """Notes what the table says while each batch is in the sink, so before it is committed."""

    def __init__(self, dynamodb: LocalDynamoDB) -> None:
        super().__init__()
        self._dynamodb = dynamodb
        self.seen: list[dict[str, str]] = []

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        super()._take(frame, batch_id)
        self.seen.append(leased(self._dynamodb))


def test_from_a_wedged_table_to_its_end_and_back_into_it(
    spark: SparkSession, kinesis: LocalKinesis, dynamodb: LocalDynamoDB, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM)
    (parent,) = kinesis.open_shards(STREAM)
    put = [kinesis.put_to_shard(STREAM, parent, b"parent", "key") for _ in range(5)]
    numbers = [record.sequence_number for record in put]
    children = kinesis.split(STREAM, parent)
    for child in children:
        kinesis.put_to_shard(STREAM, child, b"child", "key")
    dynamodb.put(TABLE, [kcl_1(parent, str(numbers[1]))])
    dynamodb.put(TABLE, [kcl_1(child, "TRIM_HORIZON", parents=[parent]) for child in children])

    options = lease_options(dynamodb, "startFromLeaseTable", "writeLeaseTable")
    batches = LookingBatches(dynamodb)
    batches.run_available(load(spark, kinesis, **options), tmp_path)
    by_batch = [[row.shard_id for row in batches.by_id[i]] for i in sorted(batches.by_id)]
    assert by_batch[0] == [parent] * 3
    assert sorted(i for rows in by_batch[1:] for i in rows) == sorted(children)
    assert batches.seen[0][parent] == str(numbers[1]), "not before it is committed"
    last = {row.shard_id: row.sequence_number for row in batches.rows if row.shard_id != parent}
    assert leased(dynamodb) == {parent: "SHARD_END", **last}


def test_it_follows_a_running_query(
    spark: SparkSession, kinesis: LocalKinesis, dynamodb: LocalDynamoDB, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM)
    (shard,) = kinesis.open_shards(STREAM)
    dynamodb.put(TABLE, [kcl_1(shard, "TRIM_HORIZON")])
    batches = LookingBatches(dynamodb)
    options = lease_options(dynamodb, "writeLeaseTable")
    query = batches.start(load(spark, kinesis, **options), tmp_path)
    last = [kinesis.put_to_shard(STREAM, shard, b"record", "key") for _ in range(3)][-1]
    until(lambda: leased(dynamodb)[shard] == str(last.sequence_number), "the row", query)
    query.stop()
    assert all(seen[shard] == "TRIM_HORIZON" for seen in batches.seen)
