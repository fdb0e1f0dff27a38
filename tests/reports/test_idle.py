"""Reports of queries that stall, spin, wait or grow while little or nothing happens.

Each test is named after its row in docs/reports.md.
"""

from __future__ import annotations

import gc
import tracemalloc

import pytest

import kinesis_source
from tests.support.engine import Progress
from tests.support.tasks import ReadJob
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def test_row_20_data_on_one_shard_of_sixty_four(make_query: MakeQuery) -> None:
    """From LATEST, on shards that never had a record: all of them are read later."""
    query = make_query(64, startingPosition="LATEST")
    query.trigger()
    for _ in range(5):
        put = query.put(query.shard(17))
        query.trigger(1, gap_ms=1_100)
        assert query.numbers()[-1:] == put
    query.clock.advance(2 * HOUR_MS)
    for number in range(64):
        query.put(query.shard(number))
    query.trigger(2, gap_ms=1_100)
    query.check_complete()


@pytest.mark.parametrize("period", ["1s", "200ms"])
def test_row_29_the_lag_of_an_idle_stream(make_query: MakeQuery, period: str) -> None:
    """Ten minutes of nothing: 0 in every trigger, though iterators grow old."""
    query = make_query(2, minFetchPeriod=period)
    query.put(query.shard(), 2)
    query.settle()
    for _ in range(600):
        query.trigger()
        assert lag(query) == 0


def lag(query: LocalQuery) -> int:
    report = query.engine.last_report
    assert isinstance(report, dict)
    found: int = report["millisBehindLatest"]["max"]
    return found


def test_row_31_records_that_come_while_a_batch_is_read(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are for the next: a batch does not go after the tip while records trickle in."""
    query = make_query()
    query.trigger()
    run, rows_of = ReadJob.run, ReadJob.rows_of

    def with_news(self: ReadJob, *arguments: object) -> object:
        query.put(query.shard(), 2)
        return run(self, *arguments)  # type: ignore[arg-type]

    def with_more_news(self: ReadJob, batch: object) -> object:
        query.put(query.shard(), 2)
        return rows_of(self, batch)

    monkeypatch.setattr(ReadJob, "run", with_news)
    monkeypatch.setattr(ReadJob, "rows_of", with_more_news)
    planned = query.put(query.shard(), 5)
    before_ms = query.clock.now_ms()
    query.trigger(1, gap_ms=0)
    assert query.numbers() == planned
    assert query.clock.now_ms() - before_ms <= 1_000


def test_row_33_one_record_with_the_default_options(make_query: MakeQuery) -> None:
    """No wait for more behind the last record: planned and read in less than two seconds."""
    query = make_query(4)
    query.trigger()
    for number in range(4):
        put = query.put(query.shard(number))
        before_ms = query.clock.now_ms()
        assert query.trigger(1, gap_ms=0) == [Progress.BATCH]
        assert query.clock.now_ms() - before_ms < 2_000
        assert query.numbers()[-1:] == put


@pytest.mark.parametrize("position", ["LATEST", "TRIM_HORIZON"])
def test_row_59_every_iterator_expires(make_query: MakeQuery, position: str) -> None:
    """Also before the first record after LATEST: nothing is skipped, and nothing comes twice."""
    query = make_query(2, startingPosition=position)
    for _ in range(6):
        query.trigger(3, gap_ms=400_000)
        for number in (0, 1):
            query.put(query.shard(number), 3)
            query.fault("expired_iterator", "GetRecords", shard_id=query.shard(number))
        query.clock.advance(5_000)
        query.trigger(2, gap_ms=1_000)
    query.settle()
    query.check_complete()


def test_row_82_a_trigger_every_twenty_minutes(make_query: MakeQuery) -> None:
    """Longer than an iterator lives: what came in between is in the next batch, and while nothing
    comes there is none, but for the one in six hours that writes the read-until times down."""
    query = make_query(2)
    query.trigger()
    for count in (1, 0, 0, 90, 0, 2):
        put = query.put(query.shard(count % 2), count)
        (progress,) = query.trigger(1, gap_ms=1_200_000)
        assert progress is (Progress.BATCH if put else Progress.IDLE)
    assert query.trigger(72, gap_ms=1_200_000).count(Progress.BATCH) <= 4
    query.check_complete()


def test_row_83_memory_of_the_planner(make_query: MakeQuery) -> None:
    """What the connector itself holds on to does not grow with the number of triggers, be they idle
    or not, nor with the history of the shards."""
    query = make_query(2, shardFetchInterval="1s")

    def live_a_while(triggers: int) -> int:
        for count in range(triggers):
            if count % 20 == 0:
                child = query.kinesis.merge(STREAM, *query.kinesis.open_shards(STREAM))
                query.kinesis.split(STREAM, child)
            if count % 2:
                query.put(query.kinesis.open_shards(STREAM)[0], 3)
            query.trigger(1, gap_ms=HOUR_MS // 2)
        gc.collect()
        taken = tracemalloc.take_snapshot().filter_traces(CONNECTOR)
        return sum(statistic.size for statistic in taken.statistics("filename"))

    tracemalloc.start()
    try:
        before = live_a_while(400)
        after = live_a_while(400)
    finally:
        tracemalloc.stop()
    assert after - before < 100 * 400, "bytes, so less than an object a trigger"


#: Memory that the connector asked for, less that of the stream that it reads.
CONNECTOR = [
    tracemalloc.Filter(True, f"{kinesis_source.__path__[0]}/*"),
    tracemalloc.Filter(False, f"{kinesis_source.__path__[0]}/testing/*"),
]
