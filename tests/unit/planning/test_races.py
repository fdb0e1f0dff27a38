"""What happens between two calls of the service; each of these once lost or spread records."""

from __future__ import annotations

from typing import Any

import pytest

import kinesis_source.planning.planner as planner_module
from kinesis_source.errors import StreamRecreatedError
from kinesis_source.testing import LocalKinesis, ManualClock
from tests.support.checkpoint import Row
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import QueryFailed
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery

MINUTE_MS = 60_000
ARRIVAL = 5


def test_latest_of_an_available_now_run_is_the_listing_it_was_frozen_on(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard splits after the freeze and before batch 0: what it got in between is not lost."""
    query = make_query(startingPosition="LATEST")
    query.put(query.shard(), 3)
    query.clock.advance(MINUTE_MS)
    freeze = planner_module.freeze_targets
    between: list[int] = []

    def freeze_slowly(*arguments: Any) -> Any:
        targets = freeze(*arguments)
        if not between:
            query.clock.advance(5_000)
            between.extend(query.put(query.shard(), 3))
            query.kinesis.split(STREAM, query.shard())
            query.clock.advance(5_000)
        return targets

    monkeypatch.setattr(planner_module, "freeze_targets", freeze_slowly)
    for _ in range(3):
        query.available_now()
        query.clock.advance(10_000)
    assert query.numbers() == between


def test_a_replay_under_available_now_finds_that_the_stream_was_made_again(
    make_query: MakeQuery,
) -> None:
    query = make_query(failOnDataLoss="false")
    query.put(query.shard(), 3)
    query.kinesis.split(STREAM, query.shard())
    query.clock.advance(MINUTE_MS)
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.settle()
    query.stop()
    query.kinesis.delete_stream(STREAM)
    query.clock.advance(MINUTE_MS)
    query.kinesis.create_stream(STREAM, shards=1)
    query.clock.advance(MINUTE_MS)
    query.put(query.shard(), 4)
    query.kinesis.split(STREAM, query.shard())
    query.clock.advance(MINUTE_MS)
    with pytest.raises(QueryFailed) as caught:
        query.available_now()
    assert isinstance(caught.value.original, StreamRecreatedError)
    assert query.numbers() == []


def test_a_proof_whose_own_iterator_expires_at_once_holds_up_nothing(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 hours behind with pages of one record, so that each page has to prove its place."""
    clock = ManualClock()
    kinesis = LocalKinesis(clock=clock)
    kinesis.create_stream(STREAM, 1, retention_hours=48, max_record_kib=10_240)
    query = make_query(kinesis=kinesis, clock=clock)
    query.put(query.shard(), 1, size=9 << 20)
    query.settle()
    query.stop()
    clock.advance(20 * HOUR_MS)
    query.put(query.shard(), 1, size=9 << 20)
    query.put(query.shard(), 3)
    clock.advance(10 * HOUR_MS)
    faults = kinesis._state.faults
    strike, calls = faults.strike, []

    def strike_third(operation: str, *arguments: Any) -> Any:
        if operation == "GetRecords":
            calls.append(operation)
            if len(calls) == 3:
                return "expired_iterator"
        return strike(operation, *arguments)

    monkeypatch.setattr(faults, "strike", strike_third)
    query.settle()
    query.check_complete()


def test_catching_up_through_reshards_does_not_spread_event_times(make_query: MakeQuery) -> None:
    """Two shards, stopped for an hour; one is split and its child again meanwhile. Whatever still
    waits for a parent is not older than what its batch has read of the other shard."""
    query = make_query(2)
    first, other = query.shard(0), query.shard(1)
    query.put(first)
    query.put(other)
    query.settle()
    query.stop()
    writing = first
    for minute in range(60):
        query.clock.advance(MINUTE_MS)
        query.put(writing, 1)
        query.put(other, 1)
        if minute in (20, 40):
            writing = query.kinesis.split(STREAM, writing)[0]
    query.settle()
    query.check_complete()
    check_event_times(query)


def test_catching_up_behind_a_named_parent_does_not_spread_event_times(
    make_query: MakeQuery,
) -> None:
    """A starting map names a parent and its child: the child waits, though it is tracked."""
    query = make_query(2)
    first, other = query.shard(0), query.shard(1)
    query.put(first, 3)
    child, _ = query.kinesis.split(STREAM, first)
    for _ in range(30):
        query.clock.advance(MINUTE_MS)
        query.put(child)
        query.put(other)
    query.options["startingPosition"] = (
        f'{{"default": "TRIM_HORIZON", "{first}": "TRIM_HORIZON", "{child}": "TRIM_HORIZON"}}'
    )
    query.settle()
    query.check_complete()
    check_event_times(query)


def test_nobody_waits_for_the_children_of_a_shard_that_does_not_get_on(
    make_query: MakeQuery,
) -> None:
    """Its end lies behind many empty pages, and its child holds the older records."""
    query = make_query(2)
    first, other = query.shard(0), query.shard(1)
    query.settle()
    child, _ = query.kinesis.split(STREAM, first)
    query.put(child)
    query.fault("empty_page", shard_id=first, times=60)
    query.clock.advance(11_000)
    put = query.put(other, 2)
    query.trigger(2)
    assert query.numbers() == put
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()


def check_event_times(query: LocalQuery) -> None:
    """No batch goes back in time by more than a late minute."""
    seen_ms = 0
    for rows in query.batches.values():
        oldest_ms = min(map(arrival_ms, rows), default=seen_ms)
        # A batch late by one is what Spark's watermark allows for.
        assert oldest_ms >= seen_ms - 2 * MINUTE_MS
        seen_ms = max([seen_ms, *map(arrival_ms, rows)])


def arrival_ms(row: Row) -> int:
    return int(str(row[ARRIVAL])) // 1000
