"""What is seen from outside: one line in the log for each batch, and the lag in the progress."""

from __future__ import annotations

import logging
import re

import pytest

from tests.support.engine import Progress
from tests.unit.planning.local_query import STREAM, LocalQuery, MakeQuery


def state(query: LocalQuery) -> dict[str, object]:
    report = query.engine.last_report
    assert isinstance(report, dict)
    assert set(report) == {
        "stream",
        "millisBehindLatest",
        "numTotalShards",
        "numClosedShards",
        "numAwsRateLimitErrors",
    }
    return report


def lag(query: LocalQuery) -> dict[str, object]:
    found = state(query)["millisBehindLatest"]
    assert isinstance(found, dict)
    assert set(found) == {"max", "total", "shards"}
    return found


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]


def test_the_line_of_a_batch(make_query: MakeQuery, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinesis_source")
    query = make_query(3)
    query.put(query.shard(0), 2)
    query.clock.advance(1_500)
    query.put(query.shard(1), 1)
    query.trigger()
    (line,) = lines(caplog)
    assert re.fullmatch(
        f"{STREAM}: batch planned in \\d+ ms; shards: 2 read, 0 waiting, 0 finished; records from "
        r"2026-01-01T00:00:00\.000Z to 2026-01-01T00:00:01\.500Z; 0 ms behind latest; calls: "
        r"DescribeStreamSummary 1, GetRecords \d, GetShardIterator 3, ListShards 1; throttles: 0",
        line,
    )


def test_the_line_of_a_batch_that_finishes_a_shard(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    query.settle()
    query.put(query.shard(), 2)
    query.kinesis.split(STREAM, query.shard())
    query.clock.advance(11_000)
    caplog.set_level(logging.INFO, "kinesis_source")
    query.trigger()
    assert "shards: 1 read, 2 waiting, 1 finished; records from" in lines(caplog)[0]


def test_no_line_while_nothing_happens(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    query.put(query.shard())
    query.settle()
    caplog.set_level(logging.INFO, "kinesis_source")
    assert set(query.trigger(30)) == {Progress.IDLE}
    assert lines(caplog) == []


def test_calls_and_throttles_of_idle_triggers_are_in_the_next_line(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query()
    query.settle()
    query.put(query.shard())
    query.fault("throttle", "GetRecords", times=2)
    caplog.set_level(logging.INFO, "kinesis_source")
    query.trigger(12)
    (line,) = lines(caplog)
    assert "throttles: 2" in line
    counted = re.search(r"GetRecords (\d+)", line)
    assert counted is not None
    assert int(counted[1]) >= 3


def test_the_lag_of_a_query_that_keeps_up_is_0(make_query: MakeQuery) -> None:
    query = make_query(2)
    query.put(query.shard(0), 3)
    query.settle()
    zero = {"max": 0, "total": 0, "shards": {query.shard(0): 0, query.shard(1): 0}}
    assert lag(query) == zero
    query.trigger(60, gap_ms=10_000)
    assert lag(query) == zero, "nothing was put for ten minutes, so nothing is behind"


def test_the_lag_of_a_query_under_a_limit(make_query: MakeQuery) -> None:
    query = make_query(2, maxRecordsPerTrigger="20")
    for _ in range(100):
        query.clock.advance(1_000)
        query.put(query.shard(0), 5)
    query.trigger(1, gap_ms=0)
    found = lag(query)
    shards = found["shards"]
    assert isinstance(shards, dict)
    assert 60_000 < shards[query.shard(0)] <= 100_000
    assert found["max"] == max(shards.values())
    assert found["total"] == sum(shards.values())


def test_the_lag_of_a_shard_that_cannot_be_read_grows(make_query: MakeQuery) -> None:
    """Though no batch is made that could report it."""
    query = make_query(2)
    for number in (0, 1):
        query.put(query.shard(number))
    query.settle()
    query.fault("throttle", "GetRecords", shard_id=query.shard(0), times=None)
    for _ in range(60):
        query.put(query.shard(0))
        query.trigger(1, gap_ms=5_000)
    shards = lag(query)["shards"]
    assert isinstance(shards, dict)
    assert shards[query.shard(0)] > 200_000
    assert shards[query.shard(1)] < 20_000


def test_the_lag_after_a_restart_names_the_shards(make_query: MakeQuery) -> None:
    query = make_query(2)
    query.put(query.shard(0))
    query.settle()
    query.stop()
    query.trigger()
    assert lag(query)["shards"] == {query.shard(0): 0, query.shard(1): 0}


def test_the_state_counts_shards_and_throttles(make_query: MakeQuery) -> None:
    query = make_query(2, shardFetchInterval="1s")
    query.put(query.shard(0))
    query.settle()
    told = {name: state(query)[name] for name in ("stream", "numTotalShards", "numClosedShards")}
    assert told == {"stream": STREAM, "numTotalShards": 2, "numClosedShards": 0}
    query.fault("throttle", "GetRecords", times=2)
    query.put(query.shard(0))
    query.kinesis.split(STREAM, query.shard(0))
    query.trigger(12)
    query.put(query.shard(1))
    query.trigger()
    # The split parent has left, its children are in its place.
    assert (state(query)["numTotalShards"], state(query)["numClosedShards"]) == (3, 0)
    assert state(query)["numAwsRateLimitErrors"] == 2
    query.kinesis.split(STREAM, query.shard(1))
    query.fault("throttle", "GetRecords", shard_id=query.shard(1), times=None)
    query.trigger(3)
    assert (state(query)["numTotalShards"], state(query)["numClosedShards"]) == (3, 1)


def test_nothing_is_reported_before_the_service_has_answered(make_query: MakeQuery) -> None:
    """A lag of 0 would be a lie."""
    query = make_query()
    query.put(query.shard())
    query.settle()
    query.stop()
    query.fault("internal", times=None)
    query.trigger(3)
    assert query.engine.last_report is None


def test_nothing_is_reported_before_anything_is_known(make_query: MakeQuery) -> None:
    reader = make_query().source().streamReader(make_query().source().schema())
    assert reader.reportLatestOffset() is None
