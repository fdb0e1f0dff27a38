"""The targets of an AvailableNow run while the stream goes on: no shard is read past its own, none
that came later is read at all, and none that belongs to the run is left out."""

from __future__ import annotations

import pytest

from kinesis_source.core.positions import AfterSequenceNumber
from tests.support.engine import Progress, Trigger
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def finish(query: LocalQuery, most_triggers: int = 60) -> None:
    """Trigger until the run, which has begun, is over."""
    for _ in range(most_triggers):
        if query.engine.trigger() is Progress.TERMINATED:
            return
        query.clock.advance(2_000)
    raise AssertionError(f"not ended after {most_triggers} triggers")


def put_steadily(query: LocalQuery, count: int) -> None:
    """Ten records a second, so that a page of a hundred does not reach the target."""
    for _ in range(count):
        query.clock.advance(100)
        query.put(query.shard())


# Under this limit a search by time aims a few seconds past the page that the planner has seen.
LIMIT = {"maxRecordsPerTrigger": "400"}


def test_a_search_by_time_does_not_go_past_the_target(make_query: MakeQuery) -> None:
    query = make_query(**LIMIT)
    put_steadily(query, 110)
    there = query.truth()
    query.start(Trigger.AVAILABLE_NOW)
    put_steadily(query, 100)
    finish(query)
    assert query.numbers() == there
    query.available_now()
    query.check_complete()


@pytest.mark.parametrize("tail", [0, 5])
def test_a_search_by_time_that_finds_the_end_of_a_shard_stops_at_the_target(
    make_query: MakeQuery, tail: int
) -> None:
    """It was open when the run began; that it has closed since is for the next run."""
    query = make_query(**LIMIT)
    put_steadily(query, 110)
    there = query.truth()
    query.start(Trigger.AVAILABLE_NOW)
    put_steadily(query, tail)
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(60_000)
    for child in children:
        query.put(child, 2)
    finish(query)
    assert query.numbers() == there
    assert query.offset().shards.keys() == {query.shard()}
    query.available_now()
    query.check_complete()


@pytest.mark.parametrize("before", [0, 3])
def test_the_tail_of_a_shard_that_closes_during_the_run_is_for_the_next(
    make_query: MakeQuery, before: int
) -> None:
    """Also where it held nothing when the run began, and where all of it had been read before."""
    query = make_query()
    query.put(query.shard(), before)
    for _ in range(2):
        query.available_now()
    there = query.numbers()
    query.start(Trigger.AVAILABLE_NOW)
    query.put(query.shard(), 2)
    query.kinesis.split(STREAM, query.shard())
    finish(query)
    assert query.numbers() == there
    query.available_now()
    query.check_complete()


def test_the_children_of_a_shard_that_ends_at_its_target_wait_for_the_next_run(
    make_query: MakeQuery,
) -> None:
    """The parent is read to its very end in this run, so that its children could enter."""
    query = make_query()
    query.put(query.shard(), 3)
    there = query.truth()
    query.start(Trigger.AVAILABLE_NOW)
    for child in query.kinesis.split(STREAM, query.shard()):
        query.put(child, 2)
    finish(query)
    assert query.numbers() == there
    assert query.offset().shards.keys() == {query.shard()}
    query.available_now()
    query.check_complete()


def test_a_generation_that_the_frozen_listing_lacked_belongs_to_the_run(
    make_query: MakeQuery,
) -> None:
    """Between the shard of the offset and those of the listing; without it nothing would enter.
    The run begins with a listing that is not whole when none was whole for 20 seconds."""
    query = make_query()
    query.put(query.shard(), 2)
    query.available_now()
    children = query.kinesis.split(STREAM, query.shard())
    for child in children:
        query.put(child, 2)
        for grandchild in query.kinesis.split(STREAM, child):
            query.put(grandchild, 2)
    for child in children:
        query.kinesis.hide(STREAM, child, listings=21)
    query.available_now()
    query.check_complete()


def test_a_run_does_not_end_while_a_tracked_shard_is_missing(make_query: MakeQuery) -> None:
    """A finished shard and its children have expired; as long as the service does not say so,
    nothing may enter, and that is no end of the run."""
    query = make_query(failOnDataLoss="false")
    parent = query.shard()
    query.put(parent, 2)
    query.settle()
    query.kinesis.behaviour.listing_lag_ms = HOUR_MS
    children = query.kinesis.split(STREAM, parent)
    query.trigger(8, gap_ms=11_000)
    assert query.offset().shards.keys() == {parent}, "its end has been read"
    query.stop()
    grandchildren = [i for child in children for i in query.kinesis.split(STREAM, child)]
    query.clock.advance(25 * HOUR_MS)
    put = [number for shard_id in grandchildren for number in query.put(shard_id, 2)]
    query.fault("throttle", "GetShardIterator", shard_id=parent)
    query.available_now()
    assert sorted(query.numbers()[2:]) == sorted(put)


def test_a_target_is_reached_by_the_very_record(make_query: MakeQuery) -> None:
    """Not by one before it: the run ends at the last record there was, in a batch of one."""
    query = make_query(maxRecordsPerTrigger="1", minFetchPeriod="200ms")
    put_steadily(query, 12)
    last = query.truth()[-1]
    query.start(Trigger.AVAILABLE_NOW)
    put_steadily(query, 5)
    finish(query)
    assert query.offset().shards[query.shard()].position == AfterSequenceNumber(last)


def test_a_shard_that_was_read_in_part_is_waited_for(make_query: MakeQuery) -> None:
    """A run does not end because a shard could not be probed, wherever it stands."""
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number), 2)
    query.available_now()
    put = query.put(query.shard(0), 2)
    until_ms = query.clock.now_ms() + 120_000
    query.start(Trigger.AVAILABLE_NOW)
    query.fault("throttle", "GetRecords", shard_id=query.shard(0), until_ms=until_ms)
    finish(query)
    assert query.numbers()[-2:] == put
    assert query.clock.now_ms() >= until_ms


def test_a_shard_that_held_nothing_is_not_waited_for(make_query: MakeQuery) -> None:
    query = make_query(2)
    query.put(query.shard(0), 2)
    begun_ms = query.clock.now_ms()
    query.start(Trigger.AVAILABLE_NOW)
    query.fault("throttle", "GetRecords", shard_id=query.shard(1), times=None)
    finish(query)
    query.check_complete()
    assert query.clock.now_ms() - begun_ms < 60_000


@pytest.mark.parametrize("listings", [1, 5])
def test_a_listing_after_the_frozen_one_that_lags_behind_it(
    make_query: MakeQuery, listings: int
) -> None:
    """The frozen listing has named the children: that a later one lacks them ends no run."""
    query = make_query()
    query.put(query.shard(), 2)
    children = query.kinesis.split(STREAM, query.shard())
    for child in children:
        query.put(child, 2)
    query.start(Trigger.AVAILABLE_NOW)
    for child in children:
        query.kinesis.hide(STREAM, child, listings)
    finish(query)
    query.check_complete()


def test_what_was_read_and_expires_during_a_run_does_not_keep_it_from_ending(
    make_query: MakeQuery,
) -> None:
    """Five generations, of which later listings show the last: the rest is behind it."""
    query = make_query(failOnDataLoss="false")  # the last shard is left waiting too long
    shard_id = query.shard()
    for _ in range(2):
        query.put(shard_id, 2)
        shard_id = query.kinesis.merge(STREAM, *query.kinesis.split(STREAM, shard_id))
    query.clock.advance(22 * HOUR_MS)
    query.put(shard_id, 2)
    query.start(Trigger.AVAILABLE_NOW)
    until_ms = query.clock.now_ms() + 3 * HOUR_MS
    query.fault("throttle", "GetRecords", shard_id=shard_id, until_ms=until_ms)
    finish(query)
    query.check_complete()
    assert query.clock.now_ms() >= until_ms


def test_what_expires_unread_during_a_run_does_not_keep_it_from_ending(
    make_query: MakeQuery,
) -> None:
    query = make_query(failOnDataLoss="false")
    parent = query.shard()
    query.put(parent, 2)
    children = query.kinesis.split(STREAM, parent)
    grandchildren = [i for child in children for i in query.kinesis.split(STREAM, child)]
    query.clock.advance(22 * HOUR_MS)
    put = [number for shard_id in grandchildren for number in query.put(shard_id, 2)]
    query.start(Trigger.AVAILABLE_NOW)
    until_ms = query.clock.now_ms() + 3 * HOUR_MS
    query.fault("throttle", "GetRecords", shard_id=parent, until_ms=until_ms)
    finish(query)
    assert sorted(query.numbers()) == sorted(put)
