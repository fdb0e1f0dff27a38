"""Shards that end while they are read: each history breaks a simpler rule than DESIGN.md's."""

from __future__ import annotations

import pytest

from kinesis_source.core.positions import SHARD_END
from tests.support.crashes import Crashed, CrashPoint
from tests.unit.planning.local_query import HOUR_MS, STREAM, MakeQuery


def test_a_shard_that_closes_with_an_unread_tail_while_the_query_runs(
    make_query: MakeQuery,
) -> None:
    query = make_query()
    parent = query.shard()
    query.put(parent, 3)
    query.trigger(2)
    tail = query.put(parent, 4)
    left, right = query.kinesis.split(STREAM, parent)
    query.put(left, 2)
    query.put(right, 2)
    query.settle()
    query.check_complete()
    order = query.numbers()
    children = query.numbers(left) + query.numbers(right)
    assert max(map(order.index, tail)) < min(map(order.index, children))
    assert set(query.offset().shards) == {left, right}


def test_a_shard_that_closes_with_an_unread_tail_while_the_query_is_down(
    make_query: MakeQuery,
) -> None:
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number), 3)
    query.settle()
    query.stop()
    tails = [query.put(query.shard(number), 250) for number in (0, 1)]
    child = query.kinesis.merge(STREAM, query.shard(0), query.shard(1))
    query.put(child, 5)
    query.clock.advance(HOUR_MS)
    query.settle()
    query.check_complete()
    order = query.numbers()
    assert max(order.index(tail[-1]) for tail in tails) < order.index(query.numbers(child)[0])


@pytest.mark.parametrize(
    "step", ["after initialOffset", "after latestOffset", "offset logged", "record batch"]
)
def test_a_reshard_during_the_first_batch(make_query: MakeQuery, step: str) -> None:
    """Batch 0 is planned or replayed while its shards close under it."""
    query = make_query(2)
    parents = [query.shard(0), query.shard(1)]
    for parent in parents:
        query.put(parent, 3)
    query.engine.crash_at(CrashPoint(step))
    with pytest.raises(Crashed):
        query.trigger()
    for parent in parents:
        query.put(parent, 2)
        for child in query.kinesis.split(STREAM, parent):
            query.put(child, 2)
    query.settle()
    query.check_complete()
    assert set(query.offset().shards) == set(query.kinesis.open_shards(STREAM))


def test_several_generations_without_records_pass_in_a_few_batches(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 1)
    query.settle()
    shard_id = query.shard()
    for _ in range(6):
        left, right = query.kinesis.split(STREAM, shard_id)
        query.clock.advance(1_000)
        shard_id = query.kinesis.merge(STREAM, left, right)
    query.put(shard_id, 2)
    query.clock.advance(11_000)
    assert query.settle() <= 4
    query.check_complete()
    assert set(query.offset().shards) == {shard_id}


def test_a_child_that_is_not_listed_yet_is_waited_for(make_query: MakeQuery) -> None:
    """The stuck reshard: all that is tracked is at SHARD_END, and only the listing lags."""
    query = make_query()
    query.put(query.shard(), 1)
    query.settle()
    query.kinesis.behaviour.listing_lag_ms = 90_000
    children = query.kinesis.split(STREAM, query.shard())
    for child in children:
        query.put(child, 2)
    query.trigger(8)
    assert [p.position for p in query.offset().shards.values()] == [SHARD_END]
    query.stop()
    query.clock.advance(90_000)
    query.settle()
    query.check_complete()


def test_a_listing_that_lacks_a_tracked_shard_holds_everything_up_but_loses_nothing(
    make_query: MakeQuery,
) -> None:
    query = make_query(2)
    query.put(query.shard(0), 1)
    query.settle()
    query.stop()
    for number in (0, 1):
        query.put(query.shard(number), 2)
    query.kinesis.hide(STREAM, query.shard(1), listings=2)
    query.settle()
    query.check_complete()


def test_a_child_listed_beside_a_parent_that_looks_open(make_query: MakeQuery) -> None:
    query = make_query(shardFetchInterval="200ms")
    query.put(query.shard(), 2)
    query.trigger()
    query.put(query.shard(), 3)
    left, _ = query.kinesis.split(STREAM, query.shard())
    query.kinesis.look_open(STREAM, query.shard(), listings=3)
    query.put(left, 2)
    query.settle()
    query.check_complete()
    order = query.numbers()
    assert order.index(query.numbers(left)[0]) == 5


def test_five_splits_and_five_merges_under_continuous_puts(make_query: MakeQuery) -> None:
    query = make_query(2, shardFetchInterval="1s")
    for step in range(10):
        shards = query.kinesis.open_shards(STREAM)
        for shard_id in shards:
            query.put(shard_id, 7)
        if step % 2:
            query.kinesis.merge(STREAM, shards[0], shards[1])
        else:
            query.kinesis.split(STREAM, shards[0])
        for shard_id in query.kinesis.open_shards(STREAM):
            query.put(shard_id, 3)
        query.trigger(2)
    query.settle()
    query.check_complete()
    assert len(query.offset().shards) == len(query.kinesis.open_shards(STREAM))


def test_a_drained_parent_that_is_still_listed_is_not_read_again(make_query: MakeQuery) -> None:
    query = make_query(shardFetchInterval="1s")
    query.put(query.shard(), 3)
    for generation in range(2):
        query.settle()
        for child in query.kinesis.split(STREAM, query.kinesis.open_shards(STREAM)[generation]):
            query.put(child, 2)
    query.settle()
    query.stop()
    query.settle()
    query.check_complete()


def test_a_closed_child_that_cannot_be_probed_when_it_enters_is_not_finished(
    make_query: MakeQuery,
) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.settle()
    left, right = query.kinesis.split(STREAM, query.shard())
    query.put(left, 3)
    child = query.kinesis.merge(STREAM, left, right)
    query.put(child, 2)
    query.fault("throttle", "GetRecords", shard_id=left, times=2)
    query.clock.advance(11_000)
    query.settle()
    query.check_complete()


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5, 8])
def test_missing_iterators_at_the_tip_do_not_end_an_open_shard(
    make_query: MakeQuery, times: int
) -> None:
    """Two in a row look like an end; only the listing or ChildShards make it one."""
    query = make_query()
    query.put(query.shard(), 2)
    query.settle()
    query.fault("null_iterator", times=times)
    query.trigger(6, gap_ms=2_000)
    query.put(query.shard(), 2)
    query.settle()
    query.check_complete()
