"""The service's quotas, and the refusals of PutRecord and PutRecords."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from kinesis_source.testing import Fault, InProcessClient, LocalKinesis, ManualClock, ServiceError

ZERO, ONE = (f"shardId-{index:012d}" for index in range(2))
THROTTLED = "ProvisionedThroughputExceededException"
MIB = 2**20


@pytest.fixture
def limited(clock: ManualClock) -> LocalKinesis:
    kinesis = LocalKinesis(clock, quotas=True)
    kinesis.create_stream("orders", shards=2, max_record_kib=10_240)
    return kinesis


@pytest.fixture
def client(limited: LocalKinesis) -> InProcessClient:
    return limited.in_process_client()


def open_iterator(client: InProcessClient, shard_id: str = ZERO) -> str:
    answer = client.get_shard_iterator(
        StreamName="orders", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )
    return str(answer["ShardIterator"])


def code_of(call: Any, **request: Any) -> str | None:
    """None if the call is answered."""
    try:
        call(**request)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return None


def test_five_get_records_a_second_and_shard(
    client: InProcessClient, clock: ManualClock, limited: LocalKinesis
) -> None:
    iterator, other = open_iterator(client), open_iterator(client, ONE)
    codes = [code_of(client.get_records, ShardIterator=iterator) for _ in range(7)]
    assert codes == [None] * 5 + [THROTTLED] * 2
    assert code_of(client.get_records, ShardIterator=other) is None
    assert limited.throttled == {("GetRecords", ZERO): 2}
    clock.advance(1_000)
    assert code_of(client.get_records, ShardIterator=iterator) is None


def test_five_get_shard_iterators_a_second_and_shard(client: InProcessClient) -> None:
    request = {"StreamName": "orders", "ShardIteratorType": "LATEST"}
    codes = [code_of(client.get_shard_iterator, ShardId=ZERO, **request) for _ in range(6)]
    assert codes == [None] * 5 + [THROTTLED]
    assert code_of(client.get_shard_iterator, ShardId=ONE, **request) is None


def test_a_page_of_10_mib_blocks_the_shard_for_five_seconds(
    client: InProcessClient, clock: ManualClock, limited: LocalKinesis
) -> None:
    limited.put_to_shard("orders", ZERO, bytes(10 * MIB))
    iterator = open_iterator(client)
    client.get_records(ShardIterator=iterator)
    clock.advance(4_999)
    assert code_of(client.get_records, ShardIterator=iterator) == THROTTLED
    clock.advance(1)
    assert code_of(client.get_records, ShardIterator=iterator) is None


def test_two_mib_a_second_and_shard(
    client: InProcessClient, clock: ManualClock, limited: LocalKinesis
) -> None:
    limited.put_to_shard("orders", ZERO, bytes(MIB))
    iterator = open_iterator(client)
    codes = [code_of(client.get_records, ShardIterator=iterator) for _ in range(3)]
    assert codes == [None, None, THROTTLED]
    clock.advance(1_000)
    assert code_of(client.get_records, ShardIterator=iterator) is None


def test_listings_and_descriptions_a_second(client: InProcessClient, clock: ManualClock) -> None:
    codes = [code_of(client.list_shards, StreamName="orders") for _ in range(101)]
    assert codes == [None] * 100 + ["LimitExceededException"]
    codes = [code_of(client.describe_stream_summary, StreamName="orders") for _ in range(21)]
    assert codes == [None] * 20 + ["LimitExceededException"]
    clock.advance(1_000)
    assert code_of(client.list_shards, StreamName="orders") is None
    assert code_of(client.describe_stream_summary, StreamName="orders") is None


def test_a_shard_takes_one_mib_and_1000_records_a_second(
    client: InProcessClient, clock: ManualClock
) -> None:
    entry = {"Data": b"x", "PartitionKey": "key", "ExplicitHashKey": "0"}
    failed = [
        client.put_records(StreamName="orders", Records=[entry] * 400)["FailedRecordCount"]
        for _ in range(3)
    ]
    assert failed == [0, 0, 200]
    clock.advance(1_000)
    large = {**entry, "Data": bytes(600_000)}
    answer = client.put_records(StreamName="orders", Records=[large, large])
    assert answer["FailedRecordCount"] == 1
    assert [record.get("ErrorCode") for record in answer["Records"]] == [None, THROTTLED]
    assert code_of(client.put_record, StreamName="orders", **large) == THROTTLED
    clock.advance(1_000)
    # A record larger than the rate must be let in at some time.
    whole = {**entry, "Data": bytes(5 * MIB)}
    assert code_of(client.put_record, StreamName="orders", **whole) is None
    clock.advance(4_000)
    assert code_of(client.put_record, StreamName="orders", **entry) == THROTTLED


def test_put_records_fails_in_part(kinesis: LocalKinesis, reader: Any) -> None:
    entries = [{"Data": b"%d" % number, "PartitionKey": f"{number}"} for number in range(20)]
    kinesis.inject(Fault("throttle", operation="PutRecords"))
    answer = reader.client.put_records(StreamName="orders", Records=entries)
    failed = [number for number, row in enumerate(answer["Records"]) if "ErrorCode" in row]
    assert 0 < len(failed) == answer["FailedRecordCount"] < 20
    accepted = {record.data for record in kinesis.ledger("orders").records}
    assert accepted == {b"%d" % number for number in range(20) if number not in failed}


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"Data": b"x"}, "ValidationException"),
        ({"Data": b"x", "PartitionKey": ""}, "ValidationException"),
        ({"Data": b"x", "PartitionKey": "k" * 257}, "ValidationException"),
        ({"Data": bytes(MIB), "PartitionKey": "k"}, "ValidationException"),
        (
            {"Data": b"x", "PartitionKey": "k", "ExplicitHashKey": str(2**128)},
            "InvalidArgumentException",
        ),
    ],
)
def test_records_that_aws_refuses(
    kinesis: LocalKinesis, reader: Any, entry: dict[str, Any], code: str
) -> None:
    good = {"Data": b"x", "PartitionKey": "k"}
    assert code_of(reader.client.put_record, StreamName="orders", **entry) == code
    # One bad record refuses the whole request.
    assert code_of(reader.client.put_records, StreamName="orders", Records=[good, entry]) == code
    assert kinesis.ledger("orders").records == []


def test_put_records_takes_500_records_and_10_mib(reader: Any) -> None:
    entry = {"Data": b"x", "PartitionKey": "k"}
    put = reader.client.put_records
    assert code_of(put, StreamName="orders", Records=[entry] * 500) is None
    assert code_of(put, StreamName="orders", Records=[entry] * 501) == "ValidationException"
    large = {"Data": bytes(MIB - 1), "PartitionKey": "k"}
    assert code_of(put, StreamName="orders", Records=[large] * 10) is None
    large_request = [large] * 10 + [entry]
    assert code_of(put, StreamName="orders", Records=large_request) == "InvalidArgumentException"


def test_a_stream_with_its_own_distribution_takes_records_without_keys(
    kinesis: LocalKinesis, reader: Any
) -> None:
    reader.client.create_stream(
        StreamName="auto", ShardCount=2, RecordDistributionStrategy="AUTO", MaxRecordSizeInKiB=2048
    )
    for _ in range(20):
        reader.client.put_record(StreamName="auto", Data=bytes(2 * MIB))
    ledger = kinesis.ledger("auto")
    assert {record.partition_key for record in ledger.records} == {None}
    assert all(shard.records for shard in ledger.shards.values())


def test_the_python_conveniences_keep_to_the_streams_record_size(kinesis: LocalKinesis) -> None:
    kinesis.put("orders", bytes(MIB - 3), "key")
    with pytest.raises(ServiceError, match="have length less than or equal to 1048576"):
        kinesis.put("orders", bytes(MIB - 2), "key")


def test_what_is_put_is_in_the_ledger(kinesis: LocalKinesis, reader: Any) -> None:
    answer = reader.client.put_record(StreamName="orders", Data=b"x", PartitionKey="k")
    (record,) = kinesis.ledger("orders").shards[answer["ShardId"]].records
    assert str(record.sequence_number) == answer["SequenceNumber"]
    assert (record.data, record.partition_key) == (b"x", "k")
