"""How much a batch takes: tips, bursts, limits, times out of order, and nothing when quiet."""

from __future__ import annotations

import random

import pytest

from kinesis_source.core.positions import TRIM_HORIZON, AfterSequenceNumber
from kinesis_source.testing import LocalKinesis, ManualClock
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress
from tests.support.tasks import TaskFaults
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def steady(query: LocalQuery, shard_id: str, seconds: int, per_second: int, size: int = 0) -> None:
    """Records at even times; ends at the present."""
    for _ in range(seconds * per_second):
        query.clock.advance(1000 // per_second)
        query.put(shard_id, size=size)


def sizes(query: LocalQuery) -> list[int]:
    return [len(query.batches[b]) for b in sorted(query.batches)]


# Quiet


@pytest.mark.parametrize("position", ["LATEST", "TRIM_HORIZON"])
def test_no_batch_while_nothing_happens_and_after_a_restart(
    make_query: MakeQuery, position: str
) -> None:
    query = make_query(2, startingPosition=position)
    query.put(query.shard(0), 5)
    query.settle()
    before = dict(query.offsets)
    assert set(query.trigger(30)) == {Progress.IDLE}
    query.stop()
    assert set(query.trigger(30)) == {Progress.IDLE}
    assert query.offsets == before, "not a byte has changed"


def test_pages_that_are_empty_and_not_at_the_tip_make_no_batch(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.settle()
    query.fault("empty_page", times=3)
    assert query.settle() == 0


def test_an_empty_stream_is_read_once_records_come(make_query: MakeQuery) -> None:
    query = make_query(2)
    assert query.settle() == 1, "batch 0, which pins the starting positions"
    query.put(query.shard(1), 1)
    assert query.trigger(2).count(Progress.BATCH) == 1
    query.check_complete()


def test_a_shard_that_never_held_a_record_keeps_a_place_across_restarts(
    make_query: MakeQuery,
) -> None:
    query = make_query(2)
    query.put(query.shard(0), 1)
    query.settle()
    assert query.offset().shards[query.shard(1)].position == TRIM_HORIZON
    query.stop()
    put = query.put(query.shard(1), 1)
    query.settle()
    assert query.offset().shards[query.shard(1)].position == AfterSequenceNumber(put[0])
    query.check_complete()


def test_a_trickle_is_read_to_the_tip_in_every_batch(make_query: MakeQuery) -> None:
    query = make_query()
    query.trigger()
    for _ in range(20):
        put = query.put(query.shard())
        assert query.trigger(1, gap_ms=1_100) == [Progress.BATCH]
        assert query.numbers()[-1] == put[0]
    query.check_complete()


def test_the_first_batch_takes_all_that_a_quiet_shard_holds(make_query: MakeQuery) -> None:
    """The first look is at very few records, which may be large; these are not."""
    query = make_query()
    query.put(query.shard(), 50)
    query.clock.advance(HOUR_MS)
    query.trigger()
    query.check_complete()


# Bursts


@pytest.mark.parametrize("records", [1_000, 8_000])
def test_a_burst_followed_by_silence(make_query: MakeQuery, records: int) -> None:
    """At the service's write quota: the number of batches grows with the logarithm of both."""
    query = make_query()
    query.settle()
    for _ in range(records):
        query.clock.advance(1)
        query.put(query.shard())
    query.clock.advance(10 * HOUR_MS)
    assert query.settle() <= 6 + records.bit_length()
    query.check_complete()


def test_a_burst_of_ten_minutes_followed_by_silence(make_query: MakeQuery) -> None:
    query = make_query()
    query.settle()
    steady(query, query.shard(), seconds=600, per_second=10)
    query.clock.advance(3 * HOUR_MS)
    assert query.settle() <= 13
    query.check_complete()


def test_steady_traffic_is_caught_up_within_two_batches(make_query: MakeQuery) -> None:
    query = make_query()
    steady(query, query.shard(), seconds=300, per_second=20)
    query.trigger(2, gap_ms=0)
    assert len(query.numbers()) >= 0.99 * len(query.truth())
    query.settle()
    query.check_complete()


# Limits


def test_a_record_limit_is_a_soft_maximum(make_query: MakeQuery) -> None:
    """On steady traffic: at most the limit and a page a shard, and not far below it either."""
    query = make_query(2, maxRecordsPerTrigger="1000", minFetchPeriod="200ms")
    for _ in range(600):
        query.clock.advance(100)
        for number in (0, 1):
            query.put(query.shard(number), 2)
    query.settle()
    assert max(sizes(query)) <= 1_000 + 2 * 100
    assert len([s for s in sizes(query) if s]) <= 6
    query.check_complete()


def test_a_byte_limit_is_a_soft_maximum(make_query: MakeQuery) -> None:
    query = make_query(maxBytesPerTrigger="100k", minFetchPeriod="200ms")
    steady(query, query.shard(), seconds=100, per_second=10, size=1_000)
    query.settle()
    assert max(sizes(query)) <= 102 + 100
    assert max(sizes(query)) >= 80
    query.check_complete()


def test_a_byte_limit_for_each_shard(make_query: MakeQuery) -> None:
    query = make_query(2, maxBytesPerShardPerTrigger="100k", minFetchPeriod="200ms")
    steady(query, query.shard(0), seconds=60, per_second=10, size=1_000)
    query.settle()
    assert max(sizes(query)) <= 202
    query.check_complete()


@pytest.mark.parametrize(
    "limit", [{"maxRecordsPerTrigger": "1"}, {"maxBytesPerTrigger": "1"}], ids=str
)
def test_there_is_progress_under_any_limit(make_query: MakeQuery, limit: dict[str, str]) -> None:
    query = make_query(2, minFetchPeriod="200ms", **limit)
    for number in (0, 1):
        query.put(query.shard(number), 3)
        query.clock.advance(50)
    for _ in range(12):
        query.trigger(1, gap_ms=250)
    query.check_complete()
    assert max(sizes(query)) <= 3, "records of one instant are not told apart"


def test_a_sparse_shard_beside_a_busy_one_under_a_limit(make_query: MakeQuery) -> None:
    """One record a minute beside twenty a second: event times do not spread, neither starves."""
    query = make_query(2, maxRecordsPerTrigger="2000", minFetchPeriod="200ms")
    busy, sparse = query.shard(0), query.shard(1)
    for _ in range(10):
        query.put(sparse)
        steady(query, busy, seconds=60, per_second=20)
    query.settle()
    query.check_complete()
    latest = 0
    for batch in sorted(query.batches):
        times_us = [int(str(row[5])) for row in query.batches[batch]]
        if times_us:
            assert min(times_us) > latest - 12_000_000, "a batch goes back in time"
            latest = max(times_us)
    assert len([s for s in sizes(query) if s]) <= 40


def test_limits_while_records_keep_coming(make_query: MakeQuery) -> None:
    query = make_query(2, maxRecordsPerTrigger="300", minFetchPeriod="200ms")
    for _ in range(60):
        query.put(query.shard(0), 5)
        query.put(query.shard(1), 1)
        query.trigger(1, gap_ms=300)
    query.settle()
    query.check_complete()


def test_arrival_times_out_of_order_change_sizes_only(make_query: MakeQuery) -> None:
    clock = ManualClock()
    kinesis = LocalKinesis(clock, arrival_jitter_ms=4_000, seed=3)
    kinesis.create_stream(STREAM)
    query = make_query(
        kinesis=kinesis, clock=clock, maxRecordsPerTrigger="150", minFetchPeriod="200ms"
    )
    steady(query, query.shard(), seconds=120, per_second=10)
    query.settle(most=200)
    query.check_complete()


def test_one_record_from_the_future_and_one_from_the_past(make_query: MakeQuery) -> None:
    query = make_query(maxRecordsPerTrigger="50", minFetchPeriod="200ms")
    now_ms = query.clock.now_ms()
    for arrival_ms in (now_ms, now_ms + 3_600_000, now_ms - 3_600_000, now_ms + 1):
        query.put(query.shard(), 40, arrival_ms=arrival_ms)
    query.clock.advance(10_000)
    query.settle()
    query.check_complete()


# Replays


def test_a_replay_of_batch_0_under_latest_gives_the_same_rows(make_query: MakeQuery) -> None:
    """Killed between its offset and its commit; in between records are put and time passes.
    LATEST resolved again would be another instant."""
    query = make_query(2, startingPosition="LATEST")
    query.put(query.shard(0), 3)
    query.clock.advance(5_000)
    query.engine.crash_at(CrashPoint("before latestOffset"))
    with pytest.raises(Crashed):
        query.trigger()
    query.engine.crash_at(CrashPoint("before reportLatestOffset"))
    with pytest.raises(Crashed):
        query.trigger()
    query.engine.crash_at(CrashPoint("tasks finished"))
    query.start()
    late = query.put(query.shard(1), 2)
    with pytest.raises(Crashed):
        query.trigger()
    planned = dict(query.offsets)
    query.clock.advance(HOUR_MS)
    later = query.put(query.shard(0), 2)
    query.trigger()
    assert query.offsets == planned
    assert sorted(row[4] for row in query.batches[0]) == sorted(map(str, late))
    query.settle()
    assert sorted(query.numbers()) == sorted(late + later)


def test_latest_is_pinned_in_the_end_of_batch_0_only(make_query: MakeQuery) -> None:
    query = make_query(startingPosition="LATEST")
    query.put(query.shard(), 3)
    query.clock.advance(5_000)
    before_ms = query.clock.now_ms()
    query.trigger()
    query.put(query.shard(), 1)
    query.trigger(2)
    starts = query.offset(0).starts
    assert starts is not None
    (start,) = starts.values()
    assert str(start.position) == f"AT_TIMESTAMP {start.read_until_ms}"
    assert before_ms - 1_000 <= start.read_until_ms <= before_ms
    assert query.offset(1).starts is None
    assert query.source().streamReader(query.source().schema()).initialOffset() == {
        "initial": True,
        "v": 1,
    }


def test_two_actions_and_two_attempts_give_the_same_rows(make_query: MakeQuery) -> None:
    query = make_query(4, shardsPerTask="1")
    rng = random.Random(5)
    query.start()
    faults = TaskFaults(failure_rate=0.7, speculation_rate=0.7, two_actions=True)
    for _ in range(6):
        for number in range(4):
            query.put(query.shard(number), rng.randrange(400))
        query.engine.trigger(faults)  # raises if any two attempts differ
        query.clock.advance(2_000)
    query.settle()
    query.check_complete()


def test_a_batch_is_the_same_whatever_options_it_is_replayed_with(make_query: MakeQuery) -> None:
    query = make_query(3, maxRecordsPerTrigger="100", shardsPerTask="1")
    for number in range(3):
        query.put(query.shard(number), 100)
        query.clock.advance(100)
    query.engine.crash_at(CrashPoint("sink written"))
    with pytest.raises(Crashed):
        query.trigger()
    query.options = {"shardsPerTask": "3", "maxFetchRate": "1m", "startingPosition": "LATEST"}
    query.trigger()  # the sink raises if the replay differs
    assert query.engine.sink.replays == 1
    query.settle()
    query.check_complete()


# What a row holds


def test_odd_records_arrive_as_they_are(make_query: MakeQuery) -> None:
    clock = ManualClock()
    kinesis = LocalKinesis(clock)
    kinesis.create_stream(STREAM, max_record_kib=10_240, null_keys=True)
    query = make_query(kinesis=kinesis, clock=clock)
    shard_id = query.shard()
    arrival_ms = clock.now_ms() - 1
    big = b"\x00\xff" * (5 << 20)
    odd = [(b"", "k"), (big[:-10], "k"), (b"x", None), (b"y", "schlüssel-鍵-🔑"), (b"", None)]
    for data, key in odd:
        kinesis.put_to_shard(STREAM, shard_id, data, key, arrival_ms=arrival_ms)
    query.settle()
    rows = [row for batch in sorted(query.batches) for row in query.batches[batch]]
    assert [(row[1], row[0]) for row in rows] == odd
    assert {row[2:4] for row in rows} == {(STREAM, shard_id)}
    assert {row[5] for row in rows} == {arrival_ms * 1000}


def test_sequence_numbers_that_grow_a_digit(make_query: MakeQuery) -> None:
    """55 and then 56 digits: as text the later ones sort before the earlier."""
    clock = ManualClock()
    kinesis = LocalKinesis(clock)
    kinesis.create_stream(STREAM, sequence_digits=55)
    query = make_query(kinesis=kinesis, clock=clock, maxRecordsPerTrigger="3")
    for _ in range(60):
        query.put(query.shard(), 2)
        query.trigger(1, gap_ms=400)
    query.settle()
    assert {len(str(n)) for n in query.numbers()} == {55, 56}
    query.check_complete()
