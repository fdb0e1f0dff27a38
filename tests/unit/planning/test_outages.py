"""Throttles, failures and outages: the query lives, the other shards go on, nothing is lost."""

from __future__ import annotations

import logging
import random
import re

import pytest

from kinesis_source.testing import FaultKind
from tests.support.engine import Progress
from tests.support.tasks import ReadJob
from tests.unit.planning.local_query import HOUR_MS, STREAM, MakeQuery


def test_ten_minutes_of_throttling_on_one_shard(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(3)
    for number in range(3):
        query.put(query.shard(number), 2)
    query.settle()
    throttled, *others = (query.shard(n) for n in range(3))
    until_ms = query.clock.now_ms() + 600_000
    query.fault("throttle", "GetRecords", shard_id=throttled, until_ms=until_ms)
    query.fault("throttle", "GetShardIterator", shard_id=throttled, until_ms=until_ms)
    held_back = query.put(throttled, 5)
    with caplog.at_level(logging.WARNING):
        while query.clock.now_ms() < until_ms:
            put = [query.put(shard_id)[0] for shard_id in others]
            query.trigger(2, gap_ms=1_100)
            assert set(put) <= set(query.numbers()), "the other shards wait"
    assert not set(held_back) & set(query.numbers())
    query.settle()
    query.check_complete()
    warnings = [r.getMessage() for r in caplog.records if throttled in r.getMessage()]
    assert 9 <= len(warnings) <= 11, "one a minute"
    assert warnings[0].startswith(f"probe: {throttled} could not be probed, will try again: Get")
    assert "ProvisionedThroughputExceeded" in warnings[0]
    for text in warnings[2:]:
        assert re.match(f"throttles: {throttled} has been throttled for [0-9]+ min", text)
        assert "more since the last such warning" in text
    assert not [r for r in caplog.records if any(o in r.getMessage() for o in others)]


def test_a_throttled_shard_is_asked_less_and_less_often(make_query: MakeQuery) -> None:
    query = make_query()
    query.settle()
    query.fault("throttle", "GetRecords", times=None)
    before = query.calls("GetRecords")
    begun_ms = query.clock.now_ms()
    while query.clock.now_ms() < begun_ms + 600_000:
        query.trigger(1, gap_ms=0)
    assert query.calls("GetRecords") - before <= 600 / 2 + 6


def test_a_shard_that_recovers_is_asked_as_often_as_before(make_query: MakeQuery) -> None:
    query = make_query()
    query.settle()
    query.fault("throttle", "GetRecords", times=5)
    query.trigger(40, gap_ms=1_000)
    put = query.put(query.shard())
    query.trigger(2, gap_ms=1_000)
    assert query.numbers() == put


def test_faults_of_one_shard_do_not_slow_the_planning_of_others(make_query: MakeQuery) -> None:
    query = make_query(2)
    query.settle()
    query.fault("reset", None, shard_id=query.shard(0), times=None)
    for _ in range(20):
        put = query.put(query.shard(1))
        before_ms = query.clock.now_ms()
        query.trigger(1, gap_ms=1_000)
        assert query.numbers()[-1] == put[0]
        assert query.clock.now_ms() - before_ms <= 2_500


ANY_CALL: list[FaultKind] = [
    "throttle",
    "limit_exceeded",
    "internal",
    "unavailable",
    "reset",
    "truncated",
    "truncated_consistent",
    "expired_iterator",
    "null_iterator",
    "empty_page",
    "expired_token",
    "stale_listing",
    "kms_throttle",
]


@pytest.mark.parametrize("kind", ANY_CALL)
def test_one_answer_in_three_is_a_fault(make_query: MakeQuery, kind: FaultKind) -> None:
    """In every call for which the service has such an answer, planner and tasks alike."""
    query = make_query(2, shardFetchInterval="1s")
    query.fault(kind, times=None, probability=0.35)
    for step in range(8):
        for shard_id in query.kinesis.open_shards(STREAM):
            query.put(shard_id, 30)
        if step in (2, 5):
            query.kinesis.split(STREAM, query.kinesis.open_shards(STREAM)[0])
        if step == 4:
            query.stop()
        query.trigger(2, gap_ms=2_000)
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()


@pytest.mark.parametrize(
    "operation", ["ListShards", "GetShardIterator", "GetRecords", "DescribeStreamSummary"]
)
@pytest.mark.parametrize("kind", ["internal", "reset", "truncated", "truncated_consistent"])
def test_an_outage_of_one_call_over_a_restart(
    make_query: MakeQuery, kind: FaultKind, operation: str
) -> None:
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number), 3)
    query.settle()
    query.stop()
    put = query.put(query.shard(0), 3)
    query.fault(kind, operation, times=None)
    assert set(query.trigger(40, gap_ms=3_000)) <= {Progress.IDLE, Progress.BATCH}
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()
    assert set(put) <= set(query.numbers())


def test_tasks_wait_out_an_outage(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    query.put(query.shard(), 500)
    until_ms = query.clock.now_ms() + 600_000
    run = ReadJob.run

    def with_outage(self: ReadJob, *args: object) -> object:
        query.fault("internal", None, until_ms=until_ms)
        return run(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ReadJob, "run", with_outage)
    with caplog.at_level(logging.WARNING):
        assert query.trigger() == [Progress.BATCH]
    assert query.clock.now_ms() >= until_ms
    warnings = [r.getMessage() for r in caplog.records if "waiting to read on" in r.getMessage()]
    assert 9 <= len(warnings) <= 11
    assert all(query.shard() in text for text in warnings)
    monkeypatch.undo()
    query.settle()
    query.check_complete()


def test_a_long_batch_outlives_the_planners_iterators(make_query: MakeQuery) -> None:
    query = make_query(2)
    for _ in range(5):
        query.put(query.shard(0), 150)
        query.trigger(1, gap_ms=400_000)
    query.settle()
    query.check_complete()


def test_empty_pages_in_front_are_walked_from_plan_to_plan(make_query: MakeQuery) -> None:
    query = make_query()
    query.kinesis.empty_pages(STREAM, query.shard(), 300, each_iterator=True)
    query.put(query.shard(), 3)
    query.trigger(90, gap_ms=1_000)
    query.check_complete()
    # The planner has walked; the tasks open at the record it saw.
    assert query.calls("GetRecords") <= 330


def test_empty_pages_in_front_of_a_query_that_triggers_every_ten_minutes(
    make_query: MakeQuery,
) -> None:
    """A shard iterator lives five minutes: a walk must not begin again with every plan."""
    query = make_query()
    query.kinesis.empty_pages(STREAM, query.shard(), 30, each_iterator=True)
    query.put(query.shard(), 3)
    query.trigger(40, gap_ms=600_000)
    query.check_complete()


def test_an_hour_of_mixed_faults_and_traffic(make_query: MakeQuery) -> None:
    seed = 20260101
    rng = random.Random(seed)
    query = make_query(3, maxRecordsPerTrigger="200", shardFetchInterval="5s")
    for kind in ANY_CALL:
        query.fault(kind, times=None, probability=0.02)
    end_ms = query.clock.now_ms() + HOUR_MS
    while query.clock.now_ms() < end_ms:
        for shard_id in query.kinesis.open_shards(STREAM):
            query.put(shard_id, rng.randrange(3))
        query.trigger(1, gap_ms=rng.choice([500, 5_000, 60_000]))
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()
