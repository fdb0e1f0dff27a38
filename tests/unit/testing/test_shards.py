"""Splits, merges, sequence numbers, and what ListShards shows of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from kinesis_source.core.hashkeys import MAX_HASH_KEY, hash_key_of, tiles
from kinesis_source.testing import LocalKinesis, ManualClock, ServiceError

ZERO, ONE, TWO, THREE, FOUR = (f"shardId-{index:012d}" for index in range(5))


def test_open_shards_tile_the_key_space_whatever_is_split_and_merged(kinesis: LocalKinesis) -> None:
    low, _high = kinesis.split("orders", ZERO)
    kinesis.split("orders", low, at=12_345)
    shards = kinesis.open_shards("orders")
    kinesis.merge("orders", shards[1], shards[2])
    ledger = kinesis.ledger("orders").shards
    assert tiles(ledger[shard_id].hash_range for shard_id in kinesis.open_shards("orders"))


def test_a_child_names_its_parents_and_a_merge_both(kinesis: LocalKinesis, reader: Any) -> None:
    first, second = kinesis.split("orders", ZERO)
    child = kinesis.merge("orders", first, second)
    shards = reader.shards()
    assert shards[first]["ParentShardId"] == ZERO
    assert "AdjacentParentShardId" not in shards[first]
    assert shards[child]["ParentShardId"] == first
    assert shards[child]["AdjacentParentShardId"] == second
    assert kinesis.ledger("orders").shards[child].parents == (first, second)


def test_records_go_to_the_open_shard_of_their_key(kinesis: LocalKinesis) -> None:
    kinesis.split("orders", ZERO)
    for number in range(50):
        shard_id = kinesis.put("orders", b"x", f"key-{number}").shard_id
        keys = kinesis.ledger("orders").shards[shard_id].hash_range
        assert keys.start <= hash_key_of(f"key-{number}") <= keys.end
        assert shard_id in kinesis.open_shards("orders")
    assert kinesis.put("orders", b"x", "any", explicit_hash_key=MAX_HASH_KEY).shard_id == ONE


def test_numbers_rise_with_gaps_and_children_start_above_their_parents(
    kinesis: LocalKinesis, reader: Any
) -> None:
    numbers = [kinesis.put_to_shard("orders", ZERO, b"x").sequence_number for _ in range(100)]
    assert numbers == sorted(set(numbers))
    assert {len(str(number)) for number in numbers} == {56}
    steps = {late - early >> 80 for early, late in pairwise(numbers)}
    assert len(steps) > 1
    # Split twice within one second: each generation is still above the one before.
    child, _ = kinesis.split("orders", ZERO)
    grandchild, _ = kinesis.split("orders", child)
    ranges = {name: shard["SequenceNumberRange"] for name, shard in reader.shards().items()}
    assert int(ranges[ZERO]["EndingSequenceNumber"]) > numbers[-1]
    assert int(ranges[child]["StartingSequenceNumber"]) > int(ranges[ZERO]["EndingSequenceNumber"])
    assert int(ranges[grandchild]["StartingSequenceNumber"]) > int(
        ranges[child]["EndingSequenceNumber"]
    )
    assert "EndingSequenceNumber" not in ranges[grandchild]


def test_55_digit_numbers_grow_so_that_text_order_is_wrong(kinesis: LocalKinesis) -> None:
    kinesis.create_stream("old", shards=20, sequence_digits=55)
    for shard_id in kinesis.open_shards("old"):
        numbers = [kinesis.put_to_shard("old", shard_id, b"x").sequence_number for _ in range(40)]
        assert numbers == sorted(numbers)
        assert {len(str(number)) for number in numbers} == {55, 56}
        assert sorted(map(str, numbers)) != list(map(str, numbers))
    child, _ = kinesis.split("old", ZERO)
    last = kinesis.ledger("old").shards[ZERO].records[-1].sequence_number
    assert kinesis.put_to_shard("old", child, b"x").sequence_number > last


@pytest.mark.parametrize("target", [1, 2, 3, 4])
def test_update_shard_count_gives_uniform_ranges(
    kinesis: LocalKinesis, reader: Any, target: int
) -> None:
    answer = reader.client.update_shard_count(
        StreamName="orders", TargetShardCount=target, ScalingType="UNIFORM_SCALING"
    )
    assert (answer["CurrentShardCount"], answer["TargetShardCount"]) == (2, target)
    ledger = kinesis.ledger("orders").shards
    ranges = [ledger[shard_id].hash_range for shard_id in kinesis.open_shards("orders")]
    assert tiles(ranges)
    assert len(ranges) == target
    assert max(r.end - r.start for r in ranges) - min(r.end - r.start for r in ranges) <= target


def test_update_shard_count_refuses_more_than_double_and_less_than_half(
    kinesis: LocalKinesis, reader: Any
) -> None:
    kinesis.create_stream("four", shards=4)
    for target, words in ((9, "scale up over double"), (1, "scale down below half")):
        code, message = reader.refusal(
            "update_shard_count",
            StreamName="four",
            TargetShardCount=target,
            ScalingType="UNIFORM_SCALING",
        )
        assert code == "InvalidArgumentException"
        assert words in message
    assert len(kinesis.open_shards("four")) == 4


def test_reshards_that_aws_refuses(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.create_stream("four", shards=4)
    code, message = reader.refusal(
        "merge_shards", StreamName="four", ShardToMerge=ZERO, AdjacentShardToMerge=TWO
    )
    assert code == "InvalidArgumentException"
    assert "not an adjacent pair" in message
    code, message = reader.refusal(
        "split_shard", StreamName="orders", ShardToSplit=ZERO, NewStartingHashKey="1"
    )
    assert code == "InvalidArgumentException"
    assert "is not both greater than one plus the shard's StartingHashKey 0" in message
    kinesis.split("orders", ZERO)
    code, message = reader.refusal(
        "split_shard", StreamName="orders", ShardToSplit=ZERO, NewStartingHashKey="5000"
    )
    assert code == "InvalidArgumentException"
    assert "already been merged or split" in message
    code, message = reader.refusal(
        "split_shard", StreamName="orders", ShardToSplit="shardId-99", NewStartingHashKey="5000"
    )
    assert code == "ResourceNotFoundException"
    with pytest.raises(ServiceError, match="already been merged or split"):
        kinesis.split("orders", ZERO)


def test_a_listing_lags_behind_the_reshard(clock: ManualClock) -> None:
    kinesis = LocalKinesis(clock, listing_lag_ms=3_000)
    kinesis.create_stream("orders")
    client = kinesis.in_process_client()
    kinesis.split("orders", ZERO)
    clock.advance(2_999)
    (listed,) = client.list_shards(StreamName="orders")["Shards"]
    assert "EndingSequenceNumber" not in listed["SequenceNumberRange"]
    clock.advance(1)
    shards = client.list_shards(StreamName="orders")["Shards"]
    assert [shard["ShardId"] for shard in shards] == [ZERO, ONE, TWO]
    assert "EndingSequenceNumber" in shards[0]["SequenceNumberRange"]


def test_a_shard_is_hidden_from_the_next_listings_only(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.hide("orders", ZERO, listings=2)
    assert [list(reader.shards()) for _ in range(3)] == [[ONE], [ONE], [ZERO, ONE]]


def test_a_child_is_listed_while_its_parent_looks_open(kinesis: LocalKinesis, reader: Any) -> None:
    kinesis.look_open("orders", ZERO, listings=1)
    kinesis.split("orders", ZERO)
    first, second = reader.shards(), reader.shards()
    assert set(first) == set(second) == {ZERO, ONE, TWO, THREE}
    assert "EndingSequenceNumber" not in first[ZERO]["SequenceNumberRange"]
    assert "EndingSequenceNumber" in second[ZERO]["SequenceNumberRange"]


def test_shard_filters(clock: ManualClock) -> None:
    kinesis = LocalKinesis(clock)
    kinesis.create_stream("orders")
    client = kinesis.in_process_client()
    start_ms = clock.now_ms()
    clock.advance(10_000)
    kinesis.split("orders", ZERO)  # ZERO is closed, ONE and TWO made at +10 s
    clock.advance(10_000)
    kinesis.split("orders", ONE)  # ONE is closed, THREE and FOUR made at +20 s
    clock.advance(10_000)

    def listed(kind: str, **more: Any) -> list[str]:
        shards = client.list_shards(StreamName="orders", ShardFilter={"Type": kind, **more})
        return [shard["ShardId"] for shard in shards["Shards"]]

    def at(offset_ms: int) -> float:
        return (start_ms + offset_ms) / 1000

    assert listed("FROM_TRIM_HORIZON") == [ZERO, ONE, TWO, THREE, FOUR]
    assert listed("AT_TRIM_HORIZON") == [ZERO]
    assert listed("AT_LATEST") == [TWO, THREE, FOUR]
    assert listed("AFTER_SHARD_ID", ShardId=TWO) == [THREE, FOUR]
    assert listed("AT_TIMESTAMP", Timestamp=at(15_000)) == [ONE, TWO]
    assert listed("AT_TIMESTAMP", Timestamp=at(10_000)) == [ZERO, ONE, TWO]
    assert listed("FROM_TIMESTAMP", Timestamp=at(10_001)) == [ONE, TWO, THREE, FOUR]
    assert listed("AT_TIMESTAMP", Timestamp=at(-5_000)) == [ZERO]
    # The oldest time that can still be read moves on with the clock.
    clock.advance(24 * 3_600_000 - 15_000)
    assert listed("AT_TRIM_HORIZON") == [ONE, TWO]


def test_pages_of_a_listing_take_the_token_alone(clock: ManualClock) -> None:
    kinesis = LocalKinesis(clock)
    kinesis.create_stream("wide", shards=2_500)
    client = kinesis.in_process_client()
    page = client.list_shards(StreamName="wide", MaxResults=10_000)
    seen = [shard["ShardId"] for shard in page["Shards"]]
    assert len(seen) == 1_000
    while "NextToken" in page:
        page = client.list_shards(NextToken=page["NextToken"])
        seen += [shard["ShardId"] for shard in page["Shards"]]
    assert seen == kinesis.shards("wide")
    limited = client.list_shards(StreamName="wide", MaxResults=7, ExclusiveStartShardId=seen[99])
    assert [shard["ShardId"] for shard in limited["Shards"]] == seen[100:107]


@pytest.mark.parametrize(
    "extra",
    [
        {"StreamName": "orders"},
        {"StreamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/orders"},
        {"ShardFilter": {"Type": "AT_LATEST"}},
        {"ExclusiveStartShardId": ZERO},
    ],
)
def test_a_token_together_with_anything_else_is_refused(reader: Any, extra: dict[str, Any]) -> None:
    token = reader.client.list_shards(StreamName="orders", MaxResults=1)["NextToken"]
    code, message = reader.refusal("list_shards", NextToken=token, **extra)
    assert code == "InvalidArgumentException"
    assert message == f"NextToken and {next(iter(extra))} cannot be provided together."


def test_a_listing_token_expires_after_five_minutes(clock: ManualClock, reader: Any) -> None:
    token = reader.client.list_shards(StreamName="orders", MaxResults=1)["NextToken"]
    clock.advance(300_000)
    assert reader.client.list_shards(NextToken=token)["Shards"][0]["ShardId"] == ONE
    clock.advance(1)
    assert reader.refusal("list_shards", NextToken=token)[0] == "ExpiredNextTokenException"
    assert reader.refusal("list_shards", NextToken="junk")[0] == "InvalidArgumentException"


def test_a_listing_token_of_a_recreated_stream_is_refused(
    kinesis: LocalKinesis, reader: Any
) -> None:
    token = reader.client.list_shards(StreamName="orders", MaxResults=1)["NextToken"]
    kinesis.delete_stream("orders")
    assert reader.refusal("list_shards", NextToken=token)[0] == "ResourceNotFoundException"
    kinesis.create_stream("orders", shards=2)
    assert reader.refusal("list_shards", NextToken=token)[0] == "InvalidArgumentException"


def test_the_creation_time_tells_streams_of_one_name_apart(
    kinesis: LocalKinesis, reader: Any
) -> None:
    def created() -> Any:
        summary = reader.client.describe_stream_summary(StreamName="orders")
        return summary["StreamDescriptionSummary"]["StreamCreationTimestamp"]

    first = created()
    assert len(reader.shards(StreamCreationTimestamp=first)) == 2
    kinesis.delete_stream("orders")
    kinesis.create_stream("orders", shards=2)
    code, _ = reader.refusal("list_shards", StreamName="orders", StreamCreationTimestamp=first)
    assert code == "ResourceNotFoundException"
    assert len(reader.shards(StreamCreationTimestamp=created())) == 2


def test_streams_in_other_states(clock: ManualClock) -> None:
    kinesis = LocalKinesis(clock, create_ms=1_000, reshard_ms=500, delete_ms=2_000)
    client = kinesis.in_process_client()

    def status() -> str:
        summary = client.describe_stream_summary(StreamName="orders")
        return str(summary["StreamDescriptionSummary"]["StreamStatus"])

    def code(operation: str, **request: Any) -> str:
        with pytest.raises(Exception) as caught:
            getattr(client, operation)(StreamName="orders", **request)
        return str(caught.value.response["Error"]["Code"])  # type: ignore[attr-defined]

    position = {"ShardId": ZERO, "ShardIteratorType": "LATEST"}
    half = {"ShardToSplit": ZERO, "NewStartingHashKey": str(2**127)}
    assert code("describe_stream_summary") == "ResourceNotFoundException"
    client.create_stream(StreamName="orders", ShardCount=1)
    assert status() == "CREATING"
    assert code("get_shard_iterator", **position) == "ResourceNotFoundException"
    assert code("list_shards") == "ResourceInUseException"
    assert code("create_stream", ShardCount=1) == "ResourceInUseException"
    clock.advance(1_000)
    client.split_shard(StreamName="orders", **half)
    assert status() == "UPDATING"
    assert code("split_shard", **half) == "ResourceInUseException"
    client.get_shard_iterator(StreamName="orders", **position)
    clock.advance(500)
    assert status() == "ACTIVE"
    kinesis.set_status("orders", "UPDATING")
    assert status() == "UPDATING"
    kinesis.set_status("orders", None)
    client.delete_stream(StreamName="orders")
    assert status() == "DELETING"
    assert code("get_shard_iterator", **position) == "ResourceNotFoundException"
    clock.advance(2_000)
    assert code("describe_stream_summary") == "ResourceNotFoundException"
    assert client.list_streams()["StreamNames"] == []


def test_the_arn_stands_for_the_name(kinesis: LocalKinesis, reader: Any) -> None:
    arn = kinesis.ledger("orders").stream_arn
    assert arn == "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
    assert len(reader.client.list_shards(StreamARN=arn)["Shards"]) == 2
    summary = reader.client.describe_stream_summary(StreamARN=arn)["StreamDescriptionSummary"]
    assert summary["StreamName"] == "orders"
    other = arn.replace("123456789012", "999999999999")
    assert reader.refusal("list_shards", StreamARN=other)[0] == "ResourceNotFoundException"
    mixed = {"StreamARN": arn, "StreamName": "else"}
    assert reader.refusal("list_shards", **mixed)[0] == "InvalidArgumentException"
    assert reader.refusal("list_shards")[0] == "InvalidArgumentException"
