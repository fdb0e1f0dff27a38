"""Trigger.AvailableNow reads what was there when the run began, all of it and no more, and ends."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kinesis_source.options import Options
from kinesis_source.planning.tips import find_tip
from kinesis_source.testing import FaultKind, LocalKinesis, ManualClock
from tests.support.connection import connect_in_process
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, Trigger
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def run_with_traffic(query: LocalQuery, most_triggers: int = 60) -> list[int]:
    """A run during which records are put before each trigger; the numbers of those records."""
    query.stop()
    query.start(Trigger.AVAILABLE_NOW)
    meanwhile: list[int] = []
    for _ in range(most_triggers):
        query.clock.advance(3_000)
        meanwhile += query.put(query.kinesis.open_shards(STREAM)[0], 130)
        query.clock.advance(3_000)
        if query.engine.trigger() is Progress.TERMINATED:
            return meanwhile
    raise AssertionError(f"not ended after {most_triggers} triggers")


@pytest.mark.parametrize("position", ["TRIM_HORIZON", "LATEST"])
def test_an_empty_stream_ends_at_once(make_query: MakeQuery, position: str) -> None:
    query = make_query(3, startingPosition=position)
    assert query.available_now() == 1, "batch 0 pins the starting positions"
    assert query.available_now() == 0
    assert query.available_now() == 0


def test_exactly_what_was_there_is_read(make_query: MakeQuery) -> None:
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number), 250)
    there = query.truth()
    run_with_traffic(query)
    assert sorted(query.numbers()) == sorted(there)
    there = query.truth()
    run_with_traffic(query)
    assert sorted(query.numbers()) == sorted(there)
    query.available_now()
    query.check_complete()


@pytest.mark.parametrize(
    "limit",
    [
        {"maxRecordsPerTrigger": "60"},
        {"maxBytesPerTrigger": "2k"},
        {"maxBytesPerShardPerTrigger": "1k"},
    ],
    ids=str,
)
def test_under_limits(make_query: MakeQuery, limit: dict[str, str]) -> None:
    query = make_query(2, **limit)
    for _ in range(100):
        query.clock.advance(100)
        for number in (0, 1):
            query.put(query.shard(number), 2, size=20)
    there = query.truth()
    run_with_traffic(query)
    assert sorted(query.numbers()) == sorted(there)
    assert len([b for b in query.batches.values() if b]) > 2


@pytest.mark.parametrize("pages", [3, 50, 300])
def test_with_empty_pages_in_front(make_query: MakeQuery, pages: int) -> None:
    query = make_query(2)
    query.put(query.shard(0), 3)
    query.kinesis.empty_pages(STREAM, query.shard(0), pages, each_iterator=True)
    query.available_now()
    query.check_complete()
    query.put(query.shard(0), 3)
    query.available_now()
    query.check_complete()


@pytest.mark.parametrize("pages", [3, 50, 300])
def test_with_empty_pages_in_front_of_new_records(make_query: MakeQuery, pages: int) -> None:
    query = make_query()
    query.put(query.shard(), 3)
    query.available_now()
    query.put(query.shard(), 3)
    query.fault("empty_page", times=pages)
    query.available_now()
    query.check_complete()


@pytest.mark.parametrize("missing_iterators", [0, 1, 3])
def test_a_tip_behind_several_full_pages_of_one_instant(
    make_query: MakeQuery, missing_iterators: int
) -> None:
    """No search by time gets past them, so they are paged through; one odd answer is no tip."""
    query = make_query()
    query.put(query.shard(), 2_500)
    if missing_iterators:
        query.fault("null_iterator", times=missing_iterators)
    query.available_now()
    query.check_complete()


def test_a_tracked_shard_that_the_listing_lacks_is_waited_for(make_query: MakeQuery) -> None:
    query = make_query(2)
    query.put(query.shard(0), 2)
    query.available_now()
    query.put(query.shard(1), 2)
    query.kinesis.hide(STREAM, query.shard(1), listings=25)
    query.available_now()
    query.check_complete()


def test_a_first_run_waits_for_a_listing_that_is_whole(make_query: MakeQuery) -> None:
    """Longer than targets are waited for: they are fixed once more, with the starting positions."""
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number), 2)
    query.kinesis.hide(STREAM, query.shard(1), listings=25)
    query.available_now()
    query.check_complete()


def test_closed_shards_are_read_generation_by_generation(make_query: MakeQuery) -> None:
    query = make_query()
    for _ in range(3):
        shard_id = query.kinesis.open_shards(STREAM)[0]
        query.put(shard_id, 5)
        query.kinesis.split(STREAM, shard_id)
    for shard_id in query.kinesis.open_shards(STREAM):
        query.put(shard_id, 5)
    query.available_now()
    query.check_complete()
    assert set(query.offset().shards) == set(query.kinesis.open_shards(STREAM))


def test_a_closed_shard_is_read_to_its_end_under_a_limit(make_query: MakeQuery) -> None:
    """It has no target, and the run does not end in the middle of it."""
    query = make_query(maxRecordsPerTrigger="5")
    for _ in range(20):
        query.clock.advance(100)
        query.put(query.shard())
    query.kinesis.split(STREAM, query.shard())
    query.available_now()
    query.check_complete()
    assert query.offset().shards.keys() == set(query.kinesis.open_shards(STREAM))


def test_a_reshard_after_the_run_began(make_query: MakeQuery) -> None:
    """The parent is read to what it held at the beginning; its tail and children are for later."""
    query = make_query(2)
    query.put(query.shard(0), 150)
    there = query.truth()
    query.start(Trigger.AVAILABLE_NOW)
    query.put(query.shard(0), 3)
    for child in query.kinesis.split(STREAM, query.shard(0)):
        query.put(child, 3)
    for _ in range(30):
        query.clock.advance(3_000)
        if query.engine.trigger() is Progress.TERMINATED:
            break
    else:
        raise AssertionError("not ended")
    assert sorted(query.numbers()) == sorted(there)
    query.available_now()
    query.check_complete()


def test_a_reshard_that_the_listing_shows_in_part(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 3)
    left, right = query.kinesis.split(STREAM, query.shard())
    query.put(left, 2)
    query.put(right, 2)
    query.kinesis.hide(STREAM, right, listings=3)
    query.available_now()
    query.check_complete()


def test_what_was_put_during_a_run_from_latest_is_for_the_next(make_query: MakeQuery) -> None:
    query = make_query(startingPosition="LATEST")
    query.put(query.shard(), 3)
    query.clock.advance(5_000)
    meanwhile = run_with_traffic(query)
    assert query.numbers() == []
    query.available_now()
    assert query.numbers() == meanwhile


@pytest.mark.parametrize("kind", ["throttle", "internal", "reset", "expired_iterator"])
def test_with_faults_all_the_way(make_query: MakeQuery, kind: str) -> None:
    """A run ends only when all is read: never early because a call failed."""
    query = make_query(3)
    for number in range(3):
        query.put(query.shard(number), 120)
    query.fault(kind, "GetRecords", times=None, probability=0.5)  # type: ignore[arg-type]
    query.available_now()
    query.check_complete()


def test_a_shard_that_is_throttled_for_ten_minutes_is_waited_for(make_query: MakeQuery) -> None:
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number), 5)
    begun_ms = query.clock.now_ms()
    until_ms = begun_ms + 600_000
    query.start(Trigger.AVAILABLE_NOW)
    query.fault("throttle", "GetRecords", shard_id=query.shard(0), until_ms=until_ms)
    while query.engine.trigger() is not Progress.TERMINATED:
        pass
    query.check_complete()
    assert query.clock.now_ms() >= until_ms


def test_a_run_that_waits_says_for_which_shard(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(2)
    query.put(query.shard(0), 5)
    query.start(Trigger.AVAILABLE_NOW)
    until_ms = query.clock.now_ms() + 600_000
    query.fault("throttle", "GetRecords", shard_id=query.shard(0), until_ms=until_ms)
    while query.engine.trigger() is not Progress.TERMINATED:
        pass
    told = [r.getMessage() for r in caplog.records if "still to be read" in r.getMessage()]
    assert 9 <= len(told) <= 11, "once a minute"
    assert all(query.shard(0) in text and query.shard(1) not in text for text in told)


def test_an_outage_when_the_run_begins_is_waited_for(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 3)
    query.settle()
    query.put(query.shard(), 3)
    query.fault("throttle", None, until_ms=query.clock.now_ms() + 120_000)
    query.fault("limit_exceeded", None, until_ms=query.clock.now_ms() + 120_000)
    query.available_now()
    query.check_complete()


def test_a_slow_pace_does_not_end_a_run_early(make_query: MakeQuery) -> None:
    query = make_query(2, minFetchPeriod="20s", maxRecordsPerTrigger="50")
    for _ in range(120):
        query.clock.advance(100)
        query.put(query.shard(0))
    query.available_now()
    query.check_complete()


@pytest.mark.parametrize("age_ms", [0, 3_000, HOUR_MS, 20 * HOUR_MS])
def test_the_tip_is_found_however_old_it_is(make_query: MakeQuery, age_ms: int) -> None:
    query = make_query()
    for _ in range(300):
        query.clock.advance(1_000)
        query.put(query.shard(), 5)
    query.clock.advance(age_ms)
    query.available_now()
    query.check_complete()
    assert query.calls("GetRecords") < 120


def test_the_tip_behind_arrival_times_out_of_order(make_query: MakeQuery) -> None:
    """The last record in the shard's order looks an hour older than the one before."""
    clock = ManualClock()
    kinesis = LocalKinesis(clock, arrival_jitter_ms=60_000, seed=1)
    kinesis.create_stream(STREAM)
    query = make_query(kinesis=kinesis, clock=clock)
    for _ in range(200):
        clock.advance(500)
        query.put(query.shard(), 12)
    query.put(query.shard(), 1, arrival_ms=clock.now_ms() - HOUR_MS)
    query.available_now()
    query.check_complete()


def test_records_that_were_trimmed_meanwhile_do_not_keep_a_run_from_ending(
    make_query: MakeQuery,
) -> None:
    query = make_query(failOnDataLoss="false")
    query.put(query.shard(), 3)
    query.start(Trigger.AVAILABLE_NOW)
    query.clock.advance(25 * HOUR_MS)
    for _ in range(30):
        if query.engine.trigger() is Progress.TERMINATED:
            return
    raise AssertionError("not ended")


@pytest.mark.parametrize("times", [1, 2, 5])
def test_missing_iterators_do_not_end_a_run_early(make_query: MakeQuery, times: int) -> None:
    query = make_query()
    query.put(query.shard(), 5)
    query.fault("null_iterator", times=times)
    query.available_now()
    query.check_complete()
    query.put(query.shard(), 5)
    query.start(Trigger.AVAILABLE_NOW)
    query.fault("null_iterator", times=times)
    while query.engine.trigger() is not Progress.TERMINATED:
        pass
    query.check_complete()


def test_a_crash_in_the_middle_of_a_run_and_a_new_run(make_query: MakeQuery) -> None:
    query = make_query(2, maxRecordsPerTrigger="60")
    for _ in range(100):
        query.clock.advance(100)
        query.put(query.shard(0), 2)
    query.engine.crash_at(CrashPoint("offset logged", nth=2))
    with pytest.raises(Crashed):
        query.available_now()
    query.put(query.shard(1), 5)
    query.available_now()
    query.check_complete()


def test_once_takes_all_in_one_batch_whatever_the_limits(make_query: MakeQuery) -> None:
    query = make_query(2, maxRecordsPerTrigger="10", maxBytesPerShardPerTrigger="1k")
    for number in (0, 1):
        query.put(query.shard(number), 500)
    query.engine.start(functools.partial(query.source), Trigger.ONCE)
    query.engine.trigger()
    assert len(query.batches) == 1
    query.check_complete()


def test_runs_and_ordinary_queries_on_one_checkpoint(make_query: MakeQuery) -> None:
    query = make_query()
    for _ in range(3):
        query.put(query.kinesis.open_shards(STREAM)[0], 5)
        query.available_now()
        query.kinesis.split(STREAM, query.kinesis.open_shards(STREAM)[0])
        query.put(query.kinesis.open_shards(STREAM)[0], 5)
        query.settle()
        query.stop()
    query.check_complete()


# The search for the tip


class OddAnswers(LocalKinesis):
    """The GetRecords of these numbers answer nothing: no record, no iterator, no children. The end
    of a shard never names children."""

    odd = range(0)

    def in_process_client(self) -> Any:
        client = super().in_process_client()
        get_records, calls = client.get_records, itertools.count()

        def answer(**request: Any) -> Any:
            page = get_records(**request)
            page.pop("ChildShards", None)
            return {"Records": [], "MillisBehindLatest": 0} if next(calls) in self.odd else page

        client.get_records = answer  # type: ignore[method-assign]
        return client


def odd_query(make_query: MakeQuery) -> tuple[LocalQuery, OddAnswers]:
    clock = ManualClock()
    kinesis = OddAnswers(clock)
    kinesis.create_stream(STREAM)
    return make_query(kinesis=kinesis, clock=clock), kinesis


def tip_number(query: LocalQuery) -> int | None:
    options = Options.parse({"streamName": STREAM, "region": "us-east-1", "endpointUrl": query.url})
    connection = connect_in_process(options, "driver")
    connection.client.describe_stream_summary()
    tip = find_tip(connection, query.shard(), query.clock.now_ms(), 24 * HOUR_MS)
    return None if tip is None else tip.sequence_number


def strike_get_records(
    query: LocalQuery,
    monkeypatch: pytest.MonkeyPatch,
    kind_of: Callable[[int, int], FaultKind | None],
) -> None:
    """`kind_of`: the fault that strikes a GetRecords, by its number from 0 on and the time."""
    calls = itertools.count()

    def strike(operation: str, shard_id: str | None, has_token: bool, now_ms: int) -> object:
        return kind_of(next(calls), now_ms) if operation == "GetRecords" else None

    monkeypatch.setattr(query.kinesis._state.faults, "strike", strike)


@pytest.mark.parametrize("records", [0, 1, 3_500])
@pytest.mark.parametrize("kind", ["throttle", "internal", "reset", "expired_iterator"])
@pytest.mark.parametrize("first", [0, 1])
def test_every_second_look_for_the_tip_fails(
    make_query: MakeQuery,
    monkeypatch: pytest.MonkeyPatch,
    kind: FaultKind,
    records: int,
    first: int,
) -> None:
    """On the way to a record, and on from there through pages of one instant."""
    query = make_query()
    query.put(query.shard(), records)
    query.clock.advance(10_000)
    strike_get_records(query, monkeypatch, lambda call, _: kind if call % 2 == first else None)
    assert tip_number(query) == max(query.truth(), default=None)


@pytest.mark.parametrize("first", [0, 4])
def test_an_iterator_expires_while_the_tip_is_looked_for(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Throttled for longer than it lives, from the first call on or while pages are followed."""
    query = make_query()
    query.put(query.shard(), 8_500)
    until_ms = 0

    def for_six_minutes(call: int, now_ms: int) -> FaultKind | None:
        nonlocal until_ms
        if call == first:
            until_ms = now_ms + 360_000
        return "throttle" if now_ms < until_ms else None

    strike_get_records(query, monkeypatch, for_six_minutes)
    assert tip_number(query) == query.truth()[-1]
    assert query.clock.now_ms() >= until_ms > 0


def test_the_tip_of_a_busy_shard_is_looked_for_from_its_end(make_query: MakeQuery) -> None:
    """Not page by page from the oldest record."""
    query = make_query()
    for _ in range(8_000):
        query.clock.advance(1_000)
        query.put(query.shard())
    assert tip_number(query) == query.truth()[-1]
    assert query.calls("GetRecords") <= 2


def test_the_search_for_an_old_tip_keeps_to_five_calls_a_second(make_query: MakeQuery) -> None:
    query = make_query(quotas=True)
    for _ in range(2_500):
        query.clock.advance(2)
        query.put(query.shard())
    query.clock.advance(20 * HOUR_MS)
    assert tip_number(query) == query.truth()[-1]
    assert sum(query.kinesis.throttled.values()) == 0


def test_a_late_time_at_the_front_of_a_shard_hides_no_tip(make_query: MakeQuery) -> None:
    """Whatever time is asked for, the page begins with that record and does not reach the tip."""
    query = make_query()
    query.put(query.shard(), 1)
    query.put(query.shard(), 2_500, arrival_ms=query.clock.now_ms() - 60_000)
    assert tip_number(query) == query.truth()[-1]


@pytest.mark.parametrize("records", [0, 2, 2_500])
def test_the_tip_of_a_shard_that_ends_without_naming_its_children(
    make_query: MakeQuery, records: int
) -> None:
    """It closed after the listing: no answer has an iterator, and none says why."""
    query, _ = odd_query(make_query)
    query.put(query.shard(), records)
    query.kinesis.split(STREAM, query.shard())
    query.clock.advance(10_000)
    assert tip_number(query) == max(query.truth(), default=None)


def test_a_closed_shard_that_names_no_children_is_read_to_its_end(make_query: MakeQuery) -> None:
    """All of it had been read before; the listing shows that it was closed, and that is enough."""
    query, _ = odd_query(make_query)
    query.put(query.shard(), 3)
    query.settle()
    for child in query.kinesis.split(STREAM, query.shard()):
        query.put(child, 2)
    query.settle()
    query.check_complete()


@pytest.mark.parametrize("odd", [range(1), range(4), range(8), range(1, 2), range(2, 5)], ids=str)
@pytest.mark.parametrize("age_ms", [0, 10_000])
def test_answers_without_anything_are_neither_tip_nor_empty_shard(
    make_query: MakeQuery, odd: range, age_ms: int
) -> None:
    query, kinesis = odd_query(make_query)
    query.put(query.shard(), 2_500)
    query.clock.advance(age_ms)
    kinesis.odd = odd
    assert tip_number(query) == query.truth()[-1]
