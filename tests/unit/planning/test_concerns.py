"""What a query says before it becomes an error: once a minute at most, naming the shard."""

from __future__ import annotations

import logging

import pytest

from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


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


def test_one_throttle_in_a_hundred_calls_is_no_concern(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            query.put(query.shard())
            query.fault("throttle", "GetRecords", times=1)
            query.trigger(50, gap_ms=1_000)
    assert told(caplog, "throttles") == []


def test_a_quiet_shard_that_was_not_looked_at_yet_is_no_concern(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    query.put(query.shard())
    query.settle()
    query.stop()
    query.clock.advance(20 * HOUR_MS)
    query.fault("throttle", "GetRecords", times=3)
    with caplog.at_level(logging.WARNING):
        query.trigger(10)
    assert told(caplog, "retention") == []


def test_a_loss_that_was_accepted_is_told_once(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    """Though a limit holds the shard back for longer than anything is remembered, and past the time
    of the option."""
    query = make_query(2, maxBytesPerShardPerTrigger="50k")
    busy, quiet = query.shard(0), query.shard(1)
    for shard_id in (busy, quiet):
        query.put(shard_id)
    query.settle()
    query.stop()
    query.clock.advance(60_000)
    lost = [query.put(busy)[0], query.put(quiet)[0]]
    for minute in range(30 * 60):
        query.clock.advance(60_000)
        query.put(busy, size=2_000)
        if minute > 29 * 60:
            query.put(quiet)
    query.options["acceptDataLossUntil"] = str(query.clock.now_ms() + 20 * 60_000)
    with caplog.at_level(logging.WARNING):
        query.trigger(120, gap_ms=30_000)
    losses = [r.getMessage() for r in caplog.records if "data loss in" in r.getMessage()]
    assert sum(busy in text for text in losses) == 1
    assert sum(quiet in text for text in losses) == 1
    query.stop()
    del query.options["acceptDataLossUntil"]
    query.settle(most=400)
    left = [r.sequence_number for r in query.kinesis.ledger(STREAM).shards[quiet].records[2:]]
    assert query.numbers(quiet)[1:] == left
    assert not set(lost) & set(query.numbers())


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
