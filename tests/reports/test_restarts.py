"""Reports of queries that could not be restarted, or that lost or repeated records when they were.

Each test is named after its row in docs/reports.md.
"""

from __future__ import annotations

import pytest

from kinesis_source.errors import AccessDeniedError
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, QueryFailed
from tests.support.tasks import ReadJob
from tests.unit.planning.local_query import STREAM, MakeQuery


def test_row_01_killed_between_the_end_of_the_tasks_and_the_commit(make_query: MakeQuery) -> None:
    """Twenty times in a row: the end of a batch is in Spark's log before any task runs, so there
    is nothing of its own that a restart could lack."""
    query = make_query(3)
    for kill in range(20):
        for number in range(3):
            query.put(query.shard(number), 1 + kill % 3)
        query.engine.crash_at(CrashPoint("tasks finished" if kill % 2 else "sink written"))
        with pytest.raises(Crashed):
            query.trigger(3)
    query.settle()
    query.check_complete()
    assert sum(query.engine.replays.values()) == 20


def test_row_03_an_idle_stream_after_a_restart(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.settle()
    for _ in range(3):
        query.stop()
        assert set(query.trigger(5)) == {Progress.IDLE}
        put = query.put(query.shard())
        assert query.trigger(3).count(Progress.BATCH) == 1
        assert query.numbers()[-1:] == put
    query.check_complete()


def test_row_05_a_batch_that_nobody_reads(
    make_query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`foreachBatch` with a function that ignores its DataFrame: no task runs at all, and the next
    batch starts right behind this one; so does a restart."""
    query = make_query(2)
    ignored = query.put(query.shard(0), 3)
    with monkeypatch.context() as ignoring:
        ignoring.setattr(ReadJob, "run", lambda *_: [])
        assert query.trigger() == [Progress.BATCH]
    put = query.put(query.shard(1), 2)
    query.trigger(2)
    query.stop()
    put += query.put(query.shard(0), 2)
    query.settle()
    assert query.numbers() == put
    assert not set(ignored) & set(put)


STEPS = range(1, 60, 2)


@pytest.mark.parametrize("step", STEPS)
def test_row_51_killed_at_any_step_of_a_split(make_query: MakeQuery, step: int) -> None:
    """Between the end of the parent and the first batch of its children there are several steps;
    at none of them is the event known to memory only."""
    query = make_query(shardFetchInterval="1s")
    query.put(query.shard(), 2)
    query.settle()
    query.put(query.shard(), 2)
    for child in query.kinesis.split(STREAM, query.shard()):
        query.put(child, 2)
    query.engine.crash_at(CrashPoint("", nth=step))
    with pytest.raises(Crashed):
        query.trigger(20)
    query.settle()
    query.check_complete()


def test_row_55_children_that_were_found_and_not_read_yet(make_query: MakeQuery) -> None:
    query = make_query(shardFetchInterval="1s")
    query.put(query.shard(), 2)
    query.settle()
    children = query.kinesis.split(STREAM, query.shard())
    while not set(children) <= query.offset().shards.keys():
        query.trigger()
    assert query.numbers(children[0]) == []
    query.stop()
    for child in children:
        query.put(child, 3)
    query.settle()
    query.stop()
    query.settle()
    query.check_complete()


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator", "ListShards"])
def test_row_63_a_permission_that_is_revoked_for_five_minutes(
    make_query: MakeQuery, operation: str
) -> None:
    """The query ends and names the action; it never goes past what it may not read."""
    query = make_query(2)
    query.settle()
    query.stop()
    until_ms = query.clock.now_ms() + 300_000
    query.fault("access_denied", operation, until_ms=until_ms)
    for number in (0, 1):
        query.put(query.shard(number), 3)
    while query.clock.now_ms() < until_ms:
        with pytest.raises(QueryFailed) as failed:
            query.trigger(2)
        assert isinstance(failed.value.original, AccessDeniedError)
        query.clock.advance(60_000)
    query.settle()
    query.check_complete()
