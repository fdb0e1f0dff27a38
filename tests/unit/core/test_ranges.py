from __future__ import annotations

import pickle

import pytest

from kinesis_source.core.offset import INITIAL_OFFSET, Offset, TrackedShard
from kinesis_source.core.positions import SHARD_END, TRIM_HORIZON, AfterSequenceNumber, AtTimestamp
from kinesis_source.core.ranges import ShardRange, pack_ranges, plan_ranges
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import CheckpointError, OffsetFormatError, StreamRecreatedError
from tests.unit.core.building import DIGITS_55, DIGITS_56, after, ended, fresh, places, shard_id

STREAM = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1764500000000)


def offset(
    shards: dict[int, TrackedShard], starts: dict[int, TrackedShard] | None = None
) -> Offset:
    return Offset(STREAM, places(shards), None if starts is None else places(starts))


def test_a_range_goes_from_the_start_to_the_end_of_each_shard_that_moved() -> None:
    start = offset({3: after(5, 70), 1: fresh(), 2: after(9), 4: TrackedShard(AtTimestamp(8))})
    end = offset({3: after(6, 90), 1: after(7), 2: after(9, 90), 4: ended()})
    assert plan_ranges(start, end, {}) == [
        ShardRange(shard_id(1), fresh(), AfterSequenceNumber(7)),
        ShardRange(shard_id(3), after(5, 70), AfterSequenceNumber(6)),
        ShardRange(shard_id(4), TrackedShard(AtTimestamp(8)), SHARD_END),
    ]


def test_a_newer_read_until_time_alone_is_nothing_to_read() -> None:
    assert plan_ranges(offset({1: after(5, 70)}), offset({1: after(5, 90)}), {}) == []
    assert plan_ranges(offset({1: ended(70)}), offset({1: ended(70)}), {}) == []


def test_a_shard_that_entered_in_this_batch_is_not_read() -> None:
    start = offset({0: after(5)})
    end = offset({0: ended(), 1: fresh(), 2: ended()})
    assert [r.shard_id for r in plan_ranges(start, end, {})] == [shard_id(0)]


def test_a_shard_that_left_is_not_read() -> None:
    start = offset({0: ended(), 1: after(5)})
    assert [r.shard_id for r in plan_ranges(start, offset({1: after(6)}), {})] == [shard_id(1)]


def test_batch_0_reads_from_the_starts_in_its_end() -> None:
    pinned = TrackedShard(AtTimestamp(1000), 1000)
    end = offset({0: after(5), 1: pinned, 2: fresh()}, {0: pinned, 1: pinned})
    assert plan_ranges(INITIAL_OFFSET, end, {}) == [
        ShardRange(shard_id(0), pinned, AfterSequenceNumber(5))
    ]


def test_batch_0_without_its_starts_is_refused() -> None:
    with pytest.raises(OffsetFormatError, match="'starts'"):
        plan_ranges(INITIAL_OFFSET, offset({0: after(5)}), {})


def test_the_starts_of_an_end_count_for_batch_0_only() -> None:
    # Spark plans batch 1 from the end of batch 0, which carries them.
    start = offset({0: after(5)}, {0: fresh()})
    ranges = plan_ranges(start, offset({0: after(9)}), {})
    assert ranges == [ShardRange(shard_id(0), after(5), AfterSequenceNumber(9))]


def test_the_first_record_is_handed_on_where_it_was_seen_from_this_very_position() -> None:
    start = offset({0: after(5), 1: after(5), 2: fresh()})
    end = offset({0: after(9), 1: after(9), 2: after(9)})
    first = {
        (shard_id(0), AfterSequenceNumber(5)): 7,
        (shard_id(1), AfterSequenceNumber(4)): 6,
        (shard_id(2), TRIM_HORIZON): 8,
    }
    assert [r.first_record for r in plan_ranges(start, end, first)] == [7, None, 8]


def test_numbers_of_55_and_56_digits_are_compared_as_numbers() -> None:
    low, high = after(DIGITS_55), after(DIGITS_56)
    assert str(low.position) > str(high.position)
    assert plan_ranges(offset({0: low}), offset({0: high}), {})[0].end == high.position
    with pytest.raises(OffsetFormatError):
        plan_ranges(offset({0: high}), offset({0: low}), {})


@pytest.mark.parametrize(
    ("before", "later"),
    [
        (after(6), after(5)),
        (ended(), after(5)),
        (ended(), fresh()),
        (after(5), fresh()),
        (after(5), TrackedShard(AtTimestamp(7))),
        (fresh(), TrackedShard(AtTimestamp(7))),
        (TrackedShard(AtTimestamp(7)), TrackedShard(AtTimestamp(8))),
    ],
)
def test_an_end_before_its_start_is_refused_and_shown(
    before: TrackedShard, later: TrackedShard
) -> None:
    with pytest.raises(CheckpointError) as caught:
        plan_ranges(offset({7: before}), offset({7: later}), {})
    message = str(caught.value)
    assert f"{shard_id(7)} goes from {before.position} to {later.position}" in message


def test_a_batch_over_two_streams_is_refused() -> None:
    again = StreamIdentity(STREAM.arn, STREAM.created_ms + 1)
    with pytest.raises(StreamRecreatedError, match=str(again.created_ms)):
        plan_ranges(offset({0: after(5)}), Offset(again, places({0: after(6)})), {})


def test_a_range_survives_pickling() -> None:
    piece = ShardRange(shard_id(0), after(DIGITS_56, 70), SHARD_END, DIGITS_56 + 1)
    assert pickle.loads(pickle.dumps(piece)) == piece


@pytest.mark.parametrize("per_task", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 10])
def test_ranges_are_spread_evenly_over_as_few_tasks_as_possible(count: int, per_task: int) -> None:
    tasks = pack_ranges(list(range(count)), per_task)
    assert sorted(item for task in tasks for item in task) == list(range(count))
    assert len(tasks) == -(-count // per_task)
    sizes = [len(task) for task in tasks]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert max(sizes, default=0) <= per_task
