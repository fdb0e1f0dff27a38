"""Progress reports, as Spark writes them, to figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kinesis_source.core.figures import figures_of

LAG = ("avgMsBehindLatest", "maxMsBehindLatest", "minMsBehindLatest")


def kinesis(
    stream: str,
    shards: dict[str, int],
    *,
    total: int | None = None,
    closed: int = 0,
    throttles: int = 0,
    rows: int = 0,
    as_text: bool = False,
) -> dict[str, Any]:
    """A Kinesis source's part of a report."""
    latest = {
        "millisBehindLatest": {
            "max": max(shards.values(), default=0),
            "total": sum(shards.values()),
            "shards": shards,
        },
        "stream": stream,
        "numTotalShards": len(shards) if total is None else total,
        "numClosedShards": closed,
        "numAwsRateLimitErrors": throttles,
    }
    return {
        "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonMicro…",
        "latestOffset": json.dumps(latest) if as_text else latest,
        "numInputRows": rows,
        "metrics": {},
    }


RATE = {"description": "RateStreamV2[…]", "latestOffset": "12", "numInputRows": 7, "metrics": {}}
KAFKA = {"latestOffset": {"orders": {"0": 349706672}}, "numInputRows": 7}
PYTHON = {"latestOffset": None, "numInputRows": 7}
ODD = {"latestOffset": "not JSON", "numInputRows": 7}


def progress(*sources: dict[str, Any], **changed: object) -> dict[str, Any]:
    return {
        "id": "5b5dbf9a",
        "runId": "1e8a1e8a",
        "name": "hourly",
        "timestamp": "2026-12-01T10:58:18.655Z",
        "batchId": 12,
        "sources": list(sources),
        **changed,
    }


@pytest.mark.parametrize("as_text", [False, True])
def test_the_figures_of_one_source(as_text: bool) -> None:
    lags = {"shardId-0": 1_000, "shardId-1": 4_000, "shardId-2": 0}
    source = kinesis("orders", lags, total=5, closed=2, throttles=3, rows=120, as_text=as_text)
    found = figures_of(progress(source), None)
    assert found is not None
    assert (found.query_id, found.run_id, found.name) == ("5b5dbf9a", "1e8a1e8a", "hourly")
    assert (found.batch_id, found.timestamp) == (12, "2026-12-01T10:58:18.655Z")
    assert found.figures == {
        "avgMsBehindLatest": 5_000 / 3,
        "maxMsBehindLatest": 4_000,
        "minMsBehindLatest": 0,
        "mode": "polling",
        "numStreams": 1,
        "numTotalShards": 5,
        "numClosedShards": 2,
        "numProcessedRecords": 120,
        "numAwsRateLimitErrors": 3,
    }
    (only,) = found.sources
    assert (only.place, only.stream, only.lag_ms) == (0, "orders", lags)
    assert only.figures == found.figures


def test_sources_are_kept_apart_and_put_together() -> None:
    one = kinesis("orders", {"shardId-0": 900, "shardId-1": 300}, rows=10, throttles=1)
    # Shard ids say nothing about the stream.
    two = kinesis("refunds", {"shardId-0": 0}, total=3, closed=2, rows=5, throttles=4)
    found = figures_of(progress(RATE, one, KAFKA, two), None)
    assert found is not None
    assert [(s.place, s.stream) for s in found.sources] == [(1, "orders"), (3, "refunds")]
    assert [s.figures["maxMsBehindLatest"] for s in found.sources] == [900, 0]
    assert [s.figures["numProcessedRecords"] for s in found.sources] == [10, 5]
    assert found.figures == {
        "avgMsBehindLatest": 400,
        "maxMsBehindLatest": 900,
        "minMsBehindLatest": 0,
        "mode": "polling",
        "numStreams": 2,
        "numTotalShards": 5,
        "numClosedShards": 2,
        "numProcessedRecords": 15,
        "numAwsRateLimitErrors": 5,
    }


def test_one_stream_read_twice_is_one_stream() -> None:
    source = kinesis("orders", {"shardId-0": 600})
    found = figures_of(progress(source, source), None)
    assert found is not None
    assert (found.figures["numStreams"], found.figures["numTotalShards"]) == (1, 2)


@pytest.mark.parametrize("source", [RATE, KAFKA, PYTHON, ODD, kinesis("orders", {})])
def test_other_sources_and_one_that_knows_nothing_yet_have_no_figures(source: Any) -> None:
    assert figures_of(progress(source), None) is None


def test_nothing_is_behind_where_every_shard_has_been_read_to_its_end() -> None:
    found = figures_of(progress(kinesis("orders", {}, total=2, closed=2)), None)
    assert found is not None
    assert [found.figures[name] for name in LAG] == [0, 0, 0]


def test_throttles_are_those_since_the_report_before() -> None:
    throttles, before, counted = (0, 4, 4, 9), None, []
    for so_far in throttles:
        sources = (kinesis("refunds", {"shardId-0": 0}, throttles=so_far // 2), RATE)
        sources += (kinesis("orders", {"shardId-0": 0}, throttles=so_far),)
        before = figures_of(progress(*sources), before)
        assert before is not None
        counted.append([s.figures["numAwsRateLimitErrors"] for s in before.sources])
    assert counted == [[0, 0], [2, 4], [0, 0], [2, 5]]


def test_every_figure_but_the_mode_is_a_number() -> None:
    found = figures_of(progress(kinesis("orders", {"shardId-0": 5}, as_text=True)), None)
    assert found is not None
    numbers = {n for n, value in found.figures.items() if isinstance(value, (int, float))}
    assert numbers == found.figures.keys() - {"mode"}
