"""Faults on demand, in process; over HTTP they are in test_http.py."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ResponseStreamingError

from kinesis_source.testing import Fault, LocalKinesis, ManualClock, QuotaLimits

ZERO, ONE = (f"shardId-{index:012d}" for index in range(2))


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("throttle", "ProvisionedThroughputExceededException", 400),
        ("internal", "InternalFailure", 500),
        ("unavailable", "ServiceUnavailable", 503),
        ("expired_iterator", "ExpiredIteratorException", 400),
        ("expired_credentials", "ExpiredTokenException", 400),
        ("access_denied", "AccessDeniedException", 400),
        ("kms_throttle", "KMSThrottlingException", 400),
        ("kms_denied", "KMSAccessDeniedException", 400),
    ],
)
def test_refusals_strike_once_and_carry_the_services_date(
    kinesis: LocalKinesis, reader: Any, kind: Any, code: str, status: int
) -> None:
    iterator = reader.iterator(ZERO)
    kinesis.inject(Fault(kind, operation="GetRecords"))
    with pytest.raises(ClientError) as caught:
        reader.page(iterator)
    assert caught.value.response["Error"]["Code"] == code
    metadata = caught.value.response["ResponseMetadata"]
    assert metadata["HTTPStatusCode"] == status
    assert metadata["HTTPHeaders"]["date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    assert reader.page(iterator)["Records"] == []


def test_a_fault_strikes_only_the_calls_it_names(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.inject(Fault("throttle", operation="GetShardIterator", shard_id=ONE, times=None))
    reader.page(reader.iterator(ZERO))
    for _ in range(3):
        assert reader.iterator_refusal(ONE, "LATEST")[0] == "ProvisionedThroughputExceededException"
    assert kinesis.throttled == {("GetShardIterator", ONE): 3}
    kinesis.clear_faults()
    reader.iterator(ONE)


def test_without_an_operation_a_fault_strikes_where_aws_would_answer_so(
    kinesis: LocalKinesis, reader: Any
) -> None:
    kinesis.inject(Fault("throttle"))
    reader.shards()
    assert reader.iterator_refusal(ZERO, "LATEST")[0] == "ProvisionedThroughputExceededException"
    kinesis.inject(Fault("limit_exceeded"))
    reader.iterator(ZERO)
    code, _ = reader.refusal("list_shards", StreamName="orders")
    assert code == "LimitExceededException"


def test_a_fault_lasts_until_its_time(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    kinesis.inject(Fault("internal", operation="ListShards", until_ms=clock.now_ms() + 600_000))
    for _ in range(60):
        assert reader.refusal("list_shards", StreamName="orders")[0] == "InternalFailure"
        clock.advance(10_000)
    assert len(reader.shards()) == 2


def test_probability_follows_the_seed() -> None:
    def strikes(seed: int) -> list[bool]:
        kinesis = LocalKinesis(ManualClock(), seed=seed)
        kinesis.create_stream("orders")
        kinesis.inject(Fault("internal", probability=0.3, times=None))
        client, seen = kinesis.in_process_client(), []
        for _ in range(200):
            try:
                client.list_shards(StreamName="orders")
            except ClientError:
                seen.append(True)
            else:
                seen.append(False)
        return seen

    assert 30 < sum(strikes(7)) < 90
    assert strikes(7) == strikes(7) != strikes(8)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fault 'throtle'; known: access_denied"):
        Fault("throtle")  # type: ignore[arg-type]


def test_transport_faults(kinesis: LocalKinesis, reader: Any) -> None:
    iterator = reader.iterator(ZERO)
    kinesis.inject(Fault("reset"))
    with pytest.raises(ConnectionClosedError):
        reader.page(iterator)
    kinesis.inject(Fault("truncated"))
    with pytest.raises(ResponseStreamingError):
        reader.page(iterator)
    kinesis.inject(Fault("truncated_consistent"))
    assert set(reader.page(iterator)) == {"ResponseMetadata"}


def test_a_put_whose_answer_is_lost_has_happened(kinesis: LocalKinesis, reader: Any) -> None:
    request = {"StreamName": "orders", "Data": b"x", "PartitionKey": "k"}
    for kind, error in (("reset", ConnectionClosedError), ("truncated", ResponseStreamingError)):
        kinesis.inject(Fault(kind))  # type: ignore[arg-type]
        with pytest.raises(error):
            reader.client.put_record(**request)
    assert len(kinesis.ledger("orders").records) == 1


def test_an_empty_page_keeps_the_place(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.put_to_shard("orders", ZERO, b"a")
    kinesis.inject(Fault("empty_page", times=2))
    page = reader.page(reader.iterator(ZERO))
    for _ in range(2):
        assert page["Records"] == []
        assert page["MillisBehindLatest"] > 0
        page = reader.page(page["NextShardIterator"])
    assert [record["Data"] for record in page["Records"]] == [b"a"]


@pytest.mark.parametrize("closed", [False, True])
def test_a_null_iterator_comes_without_children(
    kinesis: LocalKinesis, reader: Any, closed: bool
) -> None:
    kinesis.put_to_shard("orders", ZERO, b"a")
    if closed:
        kinesis.split("orders", ZERO)
    kinesis.inject(Fault("null_iterator"))
    iterator = reader.iterator(ZERO)
    page = reader.page(iterator)
    assert [record["Data"] for record in page["Records"]] == [b"a"]
    assert not {"NextShardIterator", "ChildShards"} & set(page)
    assert "NextShardIterator" in reader.page(iterator)


def test_expired_token_strikes_the_later_pages_of_a_listing(
    kinesis: LocalKinesis, reader: Any
) -> None:
    kinesis.inject(Fault("expired_token"))
    token = reader.client.list_shards(StreamName="orders", MaxResults=1)["NextToken"]
    assert reader.refusal("list_shards", NextToken=token)[0] == "ExpiredNextTokenException"
    assert reader.client.list_shards(NextToken=token)["Shards"]


def test_a_stale_listing_is_from_before_the_newest_reshard(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    clock.advance(1_000)
    child, _ = kinesis.split("orders", ZERO)
    clock.advance(1_000)
    grandchild, _ = kinesis.split("orders", child)
    kinesis.inject(Fault("stale_listing"))
    stale = reader.shards()
    assert grandchild not in stale
    assert "EndingSequenceNumber" not in stale[child]["SequenceNumberRange"]
    assert "EndingSequenceNumber" in stale[ZERO]["SequenceNumberRange"]
    assert grandchild in reader.shards()


def test_empty_pages_before_the_first_record_are_used_up_by_whoever_comes(
    kinesis: LocalKinesis, reader: Any
) -> None:
    kinesis.put_to_shard("orders", ZERO, b"a")
    kinesis.empty_pages("orders", ZERO, 3)
    page = reader.page(reader.iterator(ZERO))
    for _ in range(3):
        assert (page["Records"], page["MillisBehindLatest"] > 0) == ([], True)
        page = reader.page(page["NextShardIterator"])
    assert len(page["Records"]) == 1
    assert reader.data(ZERO) == [b"a"]


def test_an_iterator_that_waited_at_the_tip_gets_its_empty_pages_too(
    kinesis: LocalKinesis, reader: Any
) -> None:
    kinesis.empty_pages("orders", ZERO, 1)
    page = reader.page(reader.iterator(ZERO))
    assert page["MillisBehindLatest"] == 0
    kinesis.put_to_shard("orders", ZERO, b"a")
    page = reader.page(page["NextShardIterator"])
    assert (page["Records"], page["MillisBehindLatest"] > 0) == ([], True)
    assert len(reader.page(page["NextShardIterator"])["Records"]) == 1


def test_empty_pages_for_each_iterator_but_not_at_a_named_record(
    kinesis: LocalKinesis, reader: Any
) -> None:
    number = str(kinesis.put_to_shard("orders", ZERO, b"a").sequence_number)
    kinesis.put_to_shard("orders", ZERO, b"b")
    kinesis.empty_pages("orders", ZERO, 2, each_iterator=True)

    def empty_pages(kind: str, **more: Any) -> int:
        page, count = reader.page(reader.iterator(ZERO, kind, **more), Limit=1), 0
        while not page["Records"]:
            page, count = reader.page(page["NextShardIterator"], Limit=1), count + 1
        assert reader.page(page["NextShardIterator"])["Records"] or kind.startswith("AFTER")
        return count

    assert empty_pages("TRIM_HORIZON") == 2
    assert empty_pages("TRIM_HORIZON") == 2
    assert empty_pages("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number) == 2
    assert empty_pages("AT_SEQUENCE_NUMBER", StartingSequenceNumber=number) == 0


def test_a_denied_operation_stays_so_until_allowed(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.deny("ListShards")
    for _ in range(2):
        code, message = reader.refusal("list_shards", StreamName="orders")
        assert code == "AccessDeniedException"
        assert "kinesis:ListShards" in message
    reader.iterator(ZERO)
    kinesis.allow("ListShards")
    assert len(reader.shards()) == 2


def test_calls_are_counted_by_operation_and_shard(kinesis: LocalKinesis, reader: Any) -> None:
    reader.shards()
    iterator = reader.iterator(ZERO)
    kinesis.inject(Fault("throttle"))
    with pytest.raises(ClientError):
        reader.page(iterator)
    reader.page(iterator)
    assert kinesis.calls == {
        ("ListShards", None): 1,
        ("GetShardIterator", ZERO): 1,
        ("GetRecords", ZERO): 2,
    }


def test_the_python_conveniences_take_no_notice_of_quotas_and_faults(clock: ManualClock) -> None:
    kinesis = LocalKinesis(clock, quotas=QuotaLimits(put_records=1))
    kinesis.create_stream("orders")
    kinesis.inject(Fault("internal", times=None))
    for _ in range(10):
        kinesis.put("orders", b"x", "k")
    assert len(kinesis.ledger("orders").records) == 10
