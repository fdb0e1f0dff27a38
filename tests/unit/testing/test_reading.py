"""Iterators and pages: positions, refusals, ends of shards, times and retention."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from kinesis_source.testing import LocalKinesis, ManualClock

ZERO, ONE = (f"shardId-{index:012d}" for index in range(2))
DAY_MS = 24 * 3_600_000


def put(kinesis: LocalKinesis, *texts: str, shard_id: str = ZERO) -> list[str]:
    """Sequence numbers, as on the wire."""
    return [
        str(kinesis.put_to_shard("orders", shard_id, text.encode(), "k").sequence_number)
        for text in texts
    ]


def test_positions(kinesis: LocalKinesis, reader: Any) -> None:
    numbers = put(kinesis, "a", "b", "c")
    assert reader.data(ZERO) == [b"a", b"b", b"c"]
    assert reader.data(ZERO, "LATEST") == []
    assert reader.data(ZERO, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [
        b"b",
        b"c",
    ]
    assert reader.data(ZERO, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[1]) == [b"c"]
    latest = reader.iterator(ZERO, "LATEST")
    put(kinesis, "d")
    assert [record["Data"] for record in reader.page(latest)["Records"]] == [b"d"]


def test_a_record_comes_back_as_it_was_put(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.put_to_shard("orders", ZERO, b"", None, arrival_ms=1_767_225_599_123)
    number = kinesis.put_to_shard("orders", ZERO, b"\xff", "ключ").sequence_number
    empty, other = reader.page(reader.iterator(ZERO))["Records"]
    assert empty["Data"] == b""
    assert empty["ApproximateArrivalTimestamp"] == 1_767_225_599.123
    assert "PartitionKey" not in empty
    assert other["PartitionKey"] == "ключ"
    assert other["SequenceNumber"] == str(number)


def test_pages_are_followed_by_their_iterators(kinesis: LocalKinesis, reader: Any) -> None:
    put(kinesis, "a", "b", "c")
    first = reader.page(reader.iterator(ZERO), Limit=2)
    assert first["MillisBehindLatest"] > 0
    second = reader.page(first["NextShardIterator"])
    assert [record["Data"] for record in second["Records"]] == [b"c"]
    assert second["MillisBehindLatest"] == 0
    assert reader.page(second["NextShardIterator"])["Records"] == []


def test_millis_behind_latest_is_the_age_of_the_next_record(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    put(kinesis, "a")
    clock.advance(1_000)
    put(kinesis, "b")
    clock.advance(4_000)
    assert reader.page(reader.iterator(ZERO), Limit=1)["MillisBehindLatest"] == 4_000
    assert reader.page(reader.iterator(ZERO), Limit=2)["MillisBehindLatest"] == 0


def test_a_page_ends_at_10_000_records_or_10_mib(kinesis: LocalKinesis, reader: Any) -> None:
    for _ in range(10_001):
        kinesis.put_to_shard("orders", ZERO, b"", "k")
    assert len(reader.page(reader.iterator(ZERO))["Records"]) == 10_000
    kinesis.create_stream("large", max_record_kib=10_240)
    large = kinesis.in_process_client()
    sizes = [4 * 2**20, 4 * 2**20, 4 * 2**20, 10 * 2**20]
    for size in sizes:
        kinesis.put_to_shard("large", ZERO, bytes(size))
    answer = large.get_shard_iterator(
        StreamName="large", ShardId=ZERO, ShardIteratorType="TRIM_HORIZON"
    )
    pages = []
    iterator = answer["ShardIterator"]
    for _ in range(3):
        page = large.get_records(ShardIterator=iterator)
        pages.append([len(record["Data"]) for record in page["Records"]])
        iterator = page["NextShardIterator"]
    assert pages == [sizes[:2], sizes[2:3], sizes[3:]]


@pytest.mark.parametrize("limit", [0, 10_001])
def test_limits_out_of_range_are_refused(reader: Any, limit: int) -> None:
    iterator = reader.iterator(ZERO)
    code, _ = reader.refusal("get_records", ShardIterator=iterator, Limit=limit)
    assert code == "ValidationException"


# The end of a shard


def test_a_closed_shard_ends_on_an_extra_page_with_its_children(
    kinesis: LocalKinesis, reader: Any
) -> None:
    put(kinesis, "a")
    children = kinesis.split("orders", ZERO)
    page = reader.page(reader.iterator(ZERO))
    assert len(page["Records"]) == 1
    assert "ChildShards" not in page
    end = reader.page(page["NextShardIterator"])
    assert end["Records"] == []
    assert "NextShardIterator" not in end
    assert [child["ShardId"] for child in end["ChildShards"]] == list(children)
    assert end["ChildShards"][0]["ParentShards"] == [ZERO]
    ranges = kinesis.ledger("orders").shards[children[0]].hash_range
    assert end["ChildShards"][0]["HashKeyRange"] == {
        "StartingHashKey": str(ranges.start),
        "EndingHashKey": str(ranges.end),
    }


def test_a_closed_shard_ends_on_its_last_page_if_asked(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.behaviour.shard_end = "last_page"
    put(kinesis, "a", "b")
    kinesis.split("orders", ZERO)
    first = reader.page(reader.iterator(ZERO), Limit=1)
    last = reader.page(first["NextShardIterator"])
    assert len(last["Records"]) == 1
    assert "NextShardIterator" not in last
    assert len(last["ChildShards"]) == 2


def test_both_parents_of_a_merge_end_with_the_same_child(
    kinesis: LocalKinesis, reader: Any
) -> None:
    child = kinesis.merge("orders", ZERO, ONE)
    for parent in (ZERO, ONE):
        (named,) = reader.page(reader.iterator(parent, "LATEST"))["ChildShards"]
        assert named["ShardId"] == child
        assert named["ParentShards"] == [ZERO, ONE]


def test_an_iterator_held_over_the_close_ends_too(kinesis: LocalKinesis, reader: Any) -> None:
    iterator = reader.page(reader.iterator(ZERO))["NextShardIterator"]
    kinesis.split("orders", ZERO)
    assert len(reader.page(iterator)["ChildShards"]) == 2


def test_after_the_last_record_of_a_closed_shard_is_its_end(
    kinesis: LocalKinesis, reader: Any
) -> None:
    (number,) = put(kinesis, "a")
    kinesis.split("orders", ZERO)
    page = reader.page(
        reader.iterator(ZERO, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number)
    )
    assert page["Records"] == []
    assert "ChildShards" in page


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_the_ending_sequence_number_is_no_position(
    kinesis: LocalKinesis, reader: Any, kind: str
) -> None:
    kinesis.split("orders", ZERO)
    ending = reader.shards()[ZERO]["SequenceNumberRange"]["EndingSequenceNumber"]
    code, message = reader.iterator_refusal(ZERO, kind, StartingSequenceNumber=ending)
    assert code == "InvalidArgumentException"
    assert message.endswith("is invalid.")


# Sequence numbers from elsewhere


def test_a_number_of_another_shard_is_refused(kinesis: LocalKinesis, reader: Any) -> None:
    (number,) = put(kinesis, "a", shard_id=ONE)
    assert reader.iterator_refusal(
        ZERO, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number
    ) == (
        "InvalidArgumentException",
        f"Invalid StartingSequenceNumber. It encodes {ONE}, while it was used in a call to a "
        f"shard with {ZERO}",
    )


def test_numbers_and_iterators_of_a_recreated_stream_are_refused(
    kinesis: LocalKinesis, reader: Any
) -> None:
    (number,) = put(kinesis, "a")
    iterator = reader.iterator(ZERO)
    created_ms = kinesis.ledger("orders").created_ms
    kinesis.delete_stream("orders")
    assert reader.refusal("get_records", ShardIterator=iterator)[0] == "ResourceNotFoundException"
    kinesis.create_stream("orders", shards=2)
    assert kinesis.ledger("orders").created_ms > created_ms
    assert reader.refusal("get_records", ShardIterator=iterator)[0] == "InvalidArgumentException"
    code, message = reader.iterator_refusal(
        ZERO, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=number
    )
    assert code == "InvalidArgumentException"
    assert message.endswith("is invalid because it did not come from this stream.")


def test_numbers_that_mean_nothing_are_refused(kinesis: LocalKinesis, reader: Any) -> None:
    (number,) = put(kinesis, "a")
    for text, code in (
        ("12", "InvalidArgumentException"),
        (str(int(number) + (1 << 100)), "InvalidArgumentException"),
        (str(int(number) + 1), "InvalidArgumentException"),
        ("abc", "ValidationException"),
        ("012", "ValidationException"),
    ):
        refused = reader.iterator_refusal(ZERO, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=text)
        assert refused[0] == code, text


def test_a_number_without_a_record_is_accepted(kinesis: LocalKinesis, reader: Any) -> None:
    starting = reader.shards()[ZERO]["SequenceNumberRange"]["StartingSequenceNumber"]
    put(kinesis, "a")
    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        assert reader.data(ZERO, kind, StartingSequenceNumber=starting) == [b"a"]


def test_position_and_number_must_go_together(kinesis: LocalKinesis, reader: Any) -> None:
    (number,) = put(kinesis, "a")
    for kind, more in (
        ("AT_SEQUENCE_NUMBER", {}),
        ("LATEST", {"StartingSequenceNumber": number}),
        ("AT_TIMESTAMP", {}),
    ):
        assert reader.iterator_refusal(ZERO, kind, **more)[0] == "InvalidArgumentException"
    assert reader.iterator_refusal(ZERO, "EARLIEST")[0] == "ValidationException"
    code, message = reader.iterator_refusal("shardId-000000000007", "LATEST")
    assert code == "ResourceNotFoundException"
    assert message == (
        "Shard shardId-000000000007 in stream orders under account 123456789012 does not exist"
    )


def test_iterators_expire_after_five_minutes_of_the_streams_clock(
    clock: ManualClock, reader: Any
) -> None:
    iterator = reader.iterator(ZERO)
    clock.advance(300_000)
    following = reader.page(iterator)["NextShardIterator"]
    clock.advance(1)
    code, _ = reader.refusal("get_records", ShardIterator=iterator)
    assert code == "ExpiredIteratorException"
    reader.page(following)


@pytest.mark.parametrize("junk", ["", "AAAA", "not base64 at all", None])
def test_junk_is_no_iterator(reader: Any, junk: str | None) -> None:
    assert reader.refusal("get_records", ShardIterator=junk) == (
        "InvalidArgumentException",
        "Invalid ShardIterator.",
    )


def test_a_changed_iterator_is_refused(reader: Any) -> None:
    iterator = reader.iterator(ZERO)
    middle = len(iterator) // 2
    changed = iterator[:middle] + ("B" if iterator[middle] == "A" else "A") + iterator[middle + 1 :]
    code, _ = reader.refusal("get_records", ShardIterator=changed)
    assert code == "InvalidArgumentException"


# Times


def test_at_timestamp_is_exact_to_the_millisecond(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    for text in ("a", "b", "c"):
        put(kinesis, text)
        clock.advance(1)
    second_ms = clock.now_ms() - 2
    assert reader.data(ZERO, "AT_TIMESTAMP", Timestamp=second_ms / 1000) == [b"b", b"c"]
    assert reader.data(ZERO, "AT_TIMESTAMP", Timestamp=clock.now_ms() / 1000) == []
    assert reader.data(ZERO, "AT_TIMESTAMP", Timestamp=0) == [b"a", b"b", b"c"]


def test_a_future_timestamp_is_refused(clock: ManualClock, reader: Any) -> None:
    late = (clock.now_ms() + 1) / 1000
    code, message = reader.iterator_refusal(ZERO, "AT_TIMESTAMP", Timestamp=late)
    assert code == "InvalidArgumentException"
    assert "cannot be greater than the currentTimestampInMillis" in message


def test_arrival_times_out_of_order_keep_sequence_order(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    now_ms = clock.now_ms()
    for text, age_ms in (("a", 30), ("b", 10), ("c", 20), ("d", 5)):
        kinesis.put_to_shard("orders", ZERO, text.encode(), arrival_ms=now_ms - age_ms)
    assert reader.data(ZERO) == [b"a", b"b", b"c", b"d"]
    # The first in sequence order that arrived at the time or later, and all after it.
    assert reader.data(ZERO, "AT_TIMESTAMP", Timestamp=(now_ms - 20) / 1000) == [b"b", b"c", b"d"]
    assert reader.data(ZERO, "AT_TIMESTAMP", Timestamp=(now_ms - 9) / 1000) == [b"d"]


def test_jitter_gives_arrival_times_out_of_order(clock: ManualClock) -> None:
    kinesis = LocalKinesis(clock, arrival_jitter_ms=1_000)
    kinesis.create_stream("orders")
    put(kinesis, *"abcdefghij")
    arrivals = [record.arrival_ms for record in kinesis.ledger("orders").records]
    assert arrivals != sorted(arrivals)
    assert all(clock.now_ms() - 1_000 <= arrival <= clock.now_ms() for arrival in arrivals)


# Retention


def test_records_vanish_when_retention_has_passed_but_stay_in_the_ledger(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    put(kinesis, "a")
    clock.advance(60_000)
    put(kinesis, "b")
    clock.advance(DAY_MS - 60_000)
    assert reader.data(ZERO) == [b"a", b"b"]
    clock.advance(1)
    assert reader.data(ZERO) == [b"b"]
    assert reader.data(ZERO, "AT_TIMESTAMP", Timestamp=0) == [b"b"]
    ledger = kinesis.ledger("orders").shards[ZERO]
    assert [record.data for record in ledger.records] == [b"a", b"b"]
    assert ledger.trimmed == 1


def test_a_held_iterator_goes_on_at_the_horizon(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    put(kinesis, "a", "b")
    clock.advance(DAY_MS - 60_000)
    put(kinesis, "c")
    held = reader.page(reader.iterator(ZERO), Limit=1)["NextShardIterator"]
    clock.advance(120_000)
    assert [record["Data"] for record in reader.page(held)["Records"]] == [b"c"]


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
@pytest.mark.parametrize("answer", ["horizon", "spin", "refuse"])
def test_the_three_answers_for_a_trimmed_number(clock: ManualClock, kind: str, answer: Any) -> None:
    kinesis = LocalKinesis(clock)
    kinesis.create_stream("orders", trimmed_answer=answer)
    client = kinesis.in_process_client()
    (number,) = put(kinesis, "a")
    clock.advance(DAY_MS + 1)
    put(kinesis, "b")

    def open_iterator() -> str:
        return str(
            client.get_shard_iterator(
                StreamName="orders",
                ShardId=ZERO,
                ShardIteratorType=kind,
                StartingSequenceNumber=number,
            )["ShardIterator"]
        )

    if answer == "refuse":
        with pytest.raises(Exception, match="InvalidArgumentException"):
            open_iterator()
    elif answer == "horizon":
        page = client.get_records(ShardIterator=open_iterator())
        assert [record["Data"] for record in page["Records"]] == [b"b"]
    else:
        iterator = open_iterator()
        for _ in range(50):
            page = client.get_records(ShardIterator=iterator)
            assert page["Records"] == []
            assert page["MillisBehindLatest"] == 86_400_000
            iterator = page["NextShardIterator"]


def test_random_answers_for_a_trimmed_number_follow_the_seed() -> None:
    def outcomes(seed: int) -> list[str]:
        clock = ManualClock()
        kinesis = LocalKinesis(clock, seed=seed, trimmed_answer="random")
        kinesis.create_stream("orders")
        (number,) = put(kinesis, "a")
        clock.advance(DAY_MS + 1)
        client, seen = kinesis.in_process_client(), []
        for _ in range(20):
            try:
                iterator = client.get_shard_iterator(
                    StreamName="orders",
                    ShardId=ZERO,
                    ShardIteratorType="AFTER_SEQUENCE_NUMBER",
                    StartingSequenceNumber=number,
                )["ShardIterator"]
            except Exception as error:
                seen.append(type(error).__name__)
            else:
                page = client.get_records(ShardIterator=iterator)
                seen.append("spin" if page["MillisBehindLatest"] else "horizon")
        return seen

    assert set(outcomes(1)) == {"ClientError", "spin", "horizon"}
    assert outcomes(1) == outcomes(1)


def test_a_closed_shard_expires_a_retention_after_it_closed(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    (number,) = put(kinesis, "a")
    kinesis.split("orders", ZERO)
    clock.advance(DAY_MS)
    held = reader.iterator(ZERO)
    assert ZERO in reader.shards()
    clock.advance(1)
    assert ZERO not in reader.shards()
    for kind, more in (
        ("TRIM_HORIZON", {}),
        ("AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": number}),
    ):
        assert reader.iterator_refusal(ZERO, kind, **more) == (
            "ResourceNotFoundException",
            f"Shard {ZERO} in stream orders under account 123456789012 does not exist",
        )
    assert reader.refusal("get_records", ShardIterator=held)[0] == "ResourceNotFoundException"
    assert kinesis.ledger("orders").shards[ZERO].expired


def test_raising_retention_revives_nothing_and_lowering_hides(
    kinesis: LocalKinesis, clock: ManualClock, reader: Any
) -> None:
    put(kinesis, "a")
    clock.advance(DAY_MS + 1)
    reader.client.increase_stream_retention_period(StreamName="orders", RetentionPeriodHours=48)
    assert reader.data(ZERO) == []
    put(kinesis, "b")
    clock.advance(DAY_MS + 1)
    assert reader.data(ZERO) == [b"b"]
    reader.client.decrease_stream_retention_period(StreamName="orders", RetentionPeriodHours=24)
    assert reader.data(ZERO) == []
    for operation, hours in (
        ("increase_stream_retention_period", 23),
        ("increase_stream_retention_period", 9_000),
        ("decrease_stream_retention_period", 30),
    ):
        code, _ = reader.refusal(operation, StreamName="orders", RetentionPeriodHours=hours)
        assert code == "InvalidArgumentException"


def test_an_iterator_of_an_earlier_server_is_refused() -> None:
    """A server that is started again at the same address has another stream of the name."""
    clock = ManualClock()
    answered = []
    for shards in (3, 1):
        clock.advance(60_000)
        kinesis = LocalKinesis(clock)
        kinesis.create_stream("orders", shards=shards)
        client = kinesis.in_process_client()
        if not answered:
            for shard_id in kinesis.shards("orders"):
                iterator = client.get_shard_iterator(
                    StreamName="orders", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
                )
                answered.append(iterator["ShardIterator"])
            clock.advance(60_000)
    for iterator in answered:
        with pytest.raises(ClientError, match="InvalidArgument"):
            client.get_records(ShardIterator=iterator)
