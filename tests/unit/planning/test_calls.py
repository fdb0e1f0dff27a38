"""The service's budget: how many calls a quiet shard costs, a busy one, a replay, a listing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress
from tests.support.tasks import ReadJob
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def run_for(query: LocalQuery, seconds: int, puts_per_trigger: int = 0) -> Counter[str]:
    """Trigger without pause, putting records to every shard before each trigger; calls made by
    operation, those of tasks too."""
    before = Counter(query.kinesis.calls)
    end_ms = query.clock.now_ms() + seconds * 1_000
    while query.clock.now_ms() < end_ms:
        for shard_id in query.kinesis.open_shards(STREAM):
            query.put(shard_id, puts_per_trigger)
        query.trigger(1, gap_ms=1)
    calls: Counter[str] = Counter()
    for (operation, _), count in (query.kinesis.calls - before).items():
        calls[operation] += count
    return calls


@pytest.mark.parametrize(
    ("period", "least", "most"), [("1s", 54, 62), ("5s", 11, 13), ("200ms", 100, 280)]
)
def test_a_quiet_shard_costs_one_call_a_period(
    make_query: MakeQuery, period: str, least: int, most: int
) -> None:
    """200ms asks for the whole budget of five a second; the planner stays below."""
    query = make_query(3, minFetchPeriod=period)
    query.put(query.shard(0), 3)
    query.settle()
    calls = run_for(query, 60)
    assert least * 3 <= calls["GetRecords"] <= most * 3
    assert calls["GetShardIterator"] == 0, "iterators are kept"


def test_a_busy_shard_costs_two_calls_a_period_to_plan(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that does not reach the tip, and the jump to it."""
    query = make_query(2)
    query.settle()
    in_tasks = 0
    run = ReadJob.run

    def counting(self: ReadJob, *args: object) -> object:
        nonlocal in_tasks
        before = query.calls("GetRecords")
        rows = run(self, *args)  # type: ignore[arg-type]
        in_tasks += query.calls("GetRecords") - before
        return rows

    monkeypatch.setattr(ReadJob, "run", counting)
    before = query.calls("GetRecords")
    for _ in range(30):
        for _ in range(150):
            query.clock.advance(7)
            for number in (0, 1):
                query.put(query.shard(number))
        query.trigger(1, gap_ms=0)
    planned = query.calls("GetRecords") - before - in_tasks
    assert planned <= 30 * 2 * 2.1
    assert len(query.numbers()) >= len(query.truth()) - 2 * 150


def test_the_stream_is_listed_once_an_interval(make_query: MakeQuery) -> None:
    query = make_query(2)
    query.settle()
    calls = run_for(query, 600)
    assert 55 <= calls["ListShards"] <= 61
    assert calls["DescribeStreamSummary"] <= 1


def test_the_stream_is_described_every_ten_minutes(make_query: MakeQuery) -> None:
    """Its retention period may have been changed."""
    query = make_query(minFetchPeriod="10s")
    query.settle()
    assert 5 <= run_for(query, 3_600)["DescribeStreamSummary"] <= 6


def test_a_reshard_is_looked_for_more_often_until_it_is_seen(make_query: MakeQuery) -> None:
    query = make_query(shardFetchInterval="60s")
    query.settle()
    query.kinesis.split(STREAM, query.shard())
    before_ms = query.clock.now_ms()
    query.put(query.shard(1))
    while not query.numbers():
        query.trigger(1, gap_ms=100)
    assert query.clock.now_ms() - before_ms < 10_000


@pytest.mark.parametrize(("records", "looks"), [(0, 11), (2, 1)])
def test_a_child_that_waits_is_looked_at_now_and_then(
    make_query: MakeQuery, records: int, looks: int
) -> None:
    """Every five seconds while it is empty; what is first in it does not change."""
    query = make_query(maxRecordsPerTrigger="1", minFetchPeriod="200ms")
    for _ in range(60):
        query.put(query.shard())
        query.clock.advance(100)
    child, _ = query.kinesis.split(STREAM, query.shard())
    query.put(child, records)
    assert query.trigger(55) == [Progress.BATCH] * 55
    assert query.kinesis.calls["GetShardIterator", child] == looks


@pytest.mark.parametrize("per_trigger", [0, 1, 150])
def test_under_the_services_quotas_hardly_any_call_is_throttled(
    make_query: MakeQuery, per_trigger: int
) -> None:
    query = make_query(3, quotas=True)
    query.settle()
    before = sum(query.kinesis.throttled.values())
    calls = run_for(query, 20, per_trigger)
    throttled = sum(query.kinesis.throttled.values()) - before
    assert throttled <= sum(calls.values()) / 100
    query.settle()
    query.check_complete()


def test_big_records_are_read_at_the_pace_of_the_quota(make_query: MakeQuery) -> None:
    """2 MB/s a shard: 40 MB take 20 s, and what the planner looks at must not double that."""
    query = make_query(quotas=True)
    for _ in range(40):
        query.clock.advance(1_000)
        query.put(query.shard(), 1, size=1_000_000)
    begun_ms = query.clock.now_ms()
    while len(query.numbers()) < 40:
        query.trigger(1, gap_ms=10)
    assert 15_000 <= query.clock.now_ms() - begun_ms <= 45_000
    assert sum(query.kinesis.throttled.values()) <= 10


def test_the_replay_of_a_batch_of_500_shards(make_query: MakeQuery) -> None:
    query = make_query(500, quotas=True)
    for number in range(500):
        query.put(query.shard(number), 2)
    query.engine.crash_at(CrashPoint("tasks finished"))
    with pytest.raises(Crashed):
        query.trigger()
    before, throttled = query.calls("GetShardIterator"), sum(query.kinesis.throttled.values())
    query.trigger()
    retries = sum(query.kinesis.throttled.values()) - throttled
    assert query.calls("GetShardIterator") - before <= 500 + retries
    assert retries <= 5
    query.check_complete()


def test_two_thousand_five_hundred_shards(make_query: MakeQuery) -> None:
    """Three pages of a listing, of which the later ones may name nothing but their token."""
    query = make_query(2_500, startingPosition="LATEST")
    query.trigger()
    assert len(query.offset().shards) == 2_500
    assert query.calls("ListShards") == 3
    put = query.put(query.shard(2_499))
    query.trigger()
    assert query.numbers() == put


def test_twenty_queries_on_one_stream(make_query: MakeQuery) -> None:
    """DescribeStreamSummary is 20 calls a second for a whole account."""
    first = make_query(2, quotas=True)
    queries = [first] + [make_query(kinesis=first.kinesis, clock=first.clock) for _ in range(19)]
    first.put(first.shard(0), 3)
    for query in queries:
        query.trigger(2, gap_ms=0)
    for query in queries:
        query.trigger(5, gap_ms=500)
    assert all(len(q.numbers()) == 3 for q in queries)


def test_a_backlog_of_days_is_read_at_the_same_pace(make_query: MakeQuery) -> None:
    """With a retention of a week, records three days old are no reason for more calls."""
    elapsed_ms, calls = [], []
    for hours in (1, 72):
        query = make_query(quotas=True)
        query.kinesis.set_retention_hours(STREAM, 168)
        for _ in range(4_000):
            query.clock.advance(5)
            query.put(query.shard(), size=5_000)
        query.clock.advance(hours * HOUR_MS)
        begun_ms = query.clock.now_ms()
        query.settle()
        query.check_complete()
        elapsed_ms.append(query.clock.now_ms() - begun_ms)
        calls.append(query.calls("GetRecords") + query.calls("GetShardIterator"))
    assert elapsed_ms[1] <= 1.5 * elapsed_ms[0]
    assert calls[1] <= 1.5 * calls[0]


def test_a_burst_and_then_silence_throttle_nothing(make_query: MakeQuery) -> None:
    """Whoever looks for the end of the burst finds nothing from some time on, and looks below: the
    looks of one plan must leave room for the call of the task."""
    query = make_query(quotas=True)
    query.settle()
    for _ in range(1_500):
        query.clock.advance(1)
        query.put(query.shard())
    query.clock.advance(4_000)
    query.trigger(8, gap_ms=50)
    assert sum(query.kinesis.throttled.values()) == 0
    query.settle()
    query.check_complete()


def test_a_run_of_available_now_throttles_nothing(make_query: MakeQuery) -> None:
    """The search for the tip, the first probe and the task all look at the same shard at once."""
    query = make_query(quotas=True, maxRecordsPerTrigger="1000")
    for _ in range(1_500):
        query.clock.advance(1)
        query.put(query.shard())
    query.available_now()
    query.check_complete()
    assert sum(query.kinesis.throttled.values()) == 0
