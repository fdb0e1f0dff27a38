"""What a query says before it becomes an error: once a minute at most, naming the shard."""

from __future__ import annotations

import logging

import pytest

from tests.unit.planning.local_query import HOUR_MS, LocalQuery, MakeQuery


def told(caplog: pytest.LogCaptureFixture, subject: str) -> list[str]:
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno == logging.WARNING and r.getMessage().startswith(f"{subject}: ")
    ]


def backlog(query: LocalQuery, hours: int) -> None:
    """Read a record, then fall behind by so many hours, one record a minute."""
    query.put(query.shard(0))
    query.settle()
    for _ in range(hours * 60):
        query.clock.advance(60_000)
        query.put(query.shard(0))


def test_a_shard_that_nears_the_end_of_retention(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(2, maxRecordsPerTrigger="10")
    backlog(query, 17)
    with caplog.at_level(logging.WARNING):
        query.trigger(5)
        assert told(caplog, "retention") == [], "17 of 24 hours"
        query.clock.advance(5 * HOUR_MS)
        query.trigger(16, gap_ms=10_000)
    texts = told(caplog, "retention")
    assert 2 <= len(texts) <= 4, "one a minute"
    assert f"retention: {query.shard(0)} is 2" in texts[0]
    assert "the stream keeps records for 1 d" in texts[0]


def test_what_a_start_at_the_horizon_finds_is_no_concern(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    """TRIM_HORIZON promises what is left when it is read, no more."""
    query = make_query(maxRecordsPerTrigger="10")
    for _ in range(23):
        query.clock.advance(HOUR_MS)
        query.put(query.shard(0))
    query.fault("throttle", "GetRecords", times=3)
    with caplog.at_level(logging.WARNING):
        query.trigger(2)
    assert told(caplog, "retention") == []


def test_a_child_that_waits_for_long_is_named_with_its_parent(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(1, shardFetchInterval="1s")
    query.put(query.shard(0))
    query.settle()
    parent = query.shard(0)
    query.put(parent, 3)
    children = query.kinesis.split("orders", parent)
    query.fault("internal", "GetRecords", shard_id=parent, times=None)
    with caplog.at_level(logging.WARNING):
        query.trigger(28, gap_ms=10_000)
        assert told(caplog, "parents") == [], "not five minutes"
        query.trigger(12, gap_ms=10_000)
    texts = told(caplog, "parents")
    assert 1 <= len(texts) <= 3, "one a minute"
    assert any(f"parents: {child} has waited 5 min" in texts[0] for child in children)
    assert f" for {parent} (" in texts[0]
    assert "1 more shard is waiting too" in texts[0]
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()


def test_a_throttle_now_and_then_is_no_concern(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            query.put(query.shard())
            query.fault("throttle", "GetRecords", times=1)
            query.trigger(9, gap_ms=10_000)
    assert told(caplog, "throttles") == []


def test_throttles_between_answers_are_a_concern(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    """A noisy neighbour: every other call is refused, for minutes."""
    query = make_query()
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            query.put(query.shard())
            query.fault("throttle", "GetRecords", times=1)
            query.trigger(2, gap_ms=10_000)
    texts = told(caplog, "throttles")
    assert 3 <= len(texts) <= 8, "one a minute"
    assert f"throttles: {query.shard()} has been throttled for 1 min" in texts[0]
    query.settle()
    query.check_complete()


def test_an_outage_of_all_shards_is_one_line_a_minute(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(40)
    query.settle()
    query.fault("unavailable", times=None)
    with caplog.at_level(logging.WARNING):
        query.trigger(36, gap_ms=5_000)
    texts = told(caplog, "probe")
    assert 3 <= len(texts) <= 4
    assert f"probe: {query.shard(0)}, {query.shard(1)}, " in texts[0]
    assert "… could not be probed, will try again: GetRecords (stream orders, shard" in texts[0]
