"""What the listener hands on, says and survives, event by event."""

from __future__ import annotations

import logging
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
)

from kinesis_source.core.figures import QueryFigures
from kinesis_source.spark.listener import KinesisMetricsListener
from kinesis_source.testing import ManualClock

ROOT = Path(__file__).parents[3]
QUERY_ID, RUN_ID = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
OURS = (
    "kinesis_source.errors.TransientServiceError: GetRecords: throttled\n"
    "During handling of the above exception, another exception occurred:\n"
    "kinesis_source.errors.StreamNotFoundError: stream 'orders' was not found\n"
    " SQLSTATE: 38000\n\tat org.apache.spark"
)


def event(lag_ms: int = 0, throttles: int = 0, run_id: str = RUN_ID) -> QueryProgressEvent:
    """As Spark Connect makes it, out of JSON."""
    latest = {
        "millisBehindLatest": {"max": lag_ms, "total": lag_ms, "shards": {"shardId-0": lag_ms}},
        "stream": "orders",
        "numTotalShards": 1,
        "numClosedShards": 0,
        "numAwsRateLimitErrors": throttles,
    }
    rates = {"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "numInputRows": 20}
    source = {"description": "", "startOffset": {}, "endOffset": {}, "latestOffset": latest}
    return QueryProgressEvent.fromJson(
        {
            "progress": {
                "id": QUERY_ID,
                "runId": run_id,
                "name": None,
                "timestamp": "2026-12-01T10:58:18.655Z",
                "batchId": 3,
                "batchDuration": 1,
                "stateOperators": [],
                "sources": [source | rates],
                "sink": {"description": "", "numOutputRows": -1},
            }
        }
    )


def ended(exception: str | None) -> QueryTerminatedEvent:
    error_class = "PYTHON_EXCEPTION" if exception else None
    return QueryTerminatedEvent(uuid.UUID(QUERY_ID), uuid.UUID(RUN_ID), exception, error_class)


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == level]


def test_one_line_and_one_call_for_a_report(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    given: list[QueryFigures] = []
    listener = KinesisMetricsListener(given.append)
    listener.onQueryProgress(event(lag_ms=61_000, throttles=2))
    assert messages(caplog, logging.INFO) == [
        f"query {QUERY_ID}, batch 3: orders: avgMsBehindLatest 61000, maxMsBehindLatest 61000, "
        "minMsBehindLatest 61000, numTotalShards 1, numClosedShards 0, numProcessedRecords 20, "
        "numAwsRateLimitErrors 2"
    ]
    assert [f.sources[0].lag_ms for f in given] == [{"shardId-0": 61_000}]


def test_throttles_are_counted_within_a_run() -> None:
    given: list[QueryFigures] = []
    listener = KinesisMetricsListener(given.append)
    another = str(uuid.UUID(int=3))
    for throttles, run_id in ((5, RUN_ID), (1, another), (7, RUN_ID), (4, another)):
        listener.onQueryProgress(event(throttles=throttles, run_id=run_id))
    assert [f.figures["numAwsRateLimitErrors"] for f in given] == [5, 1, 2, 3]


def test_a_callback_that_raises_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()

    def broken(_: QueryFigures) -> None:
        raise OSError("no route to the metrics server")

    listener = KinesisMetricsListener(broken, clock=clock)
    for _ in range(180):
        listener.onQueryProgress(event())
        clock.advance(1_000)
    warnings = messages(caplog, logging.WARNING)
    assert len(warnings) == 3
    assert "callback for Kinesis figures: failed: OSError('no route to" in warnings[0]
    assert "(59 more since the last such warning)" in warnings[1]


def test_the_error_of_a_query_that_ended_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    listener = KinesisMetricsListener()
    listener.onQueryProgress(event())
    listener.onQueryTerminated(ended(OURS))
    assert messages(caplog, logging.ERROR) == [
        f"query {QUERY_ID} ended: StreamNotFoundError: stream 'orders' was not found"
    ]


@pytest.mark.parametrize("seen", [True, False])
def test_nothing_of_an_error_that_is_not_ours_is_passed_on(
    caplog: pytest.LogCaptureFixture, seen: bool
) -> None:
    listener = KinesisMetricsListener()
    if seen:
        listener.onQueryProgress(event())
    listener.onQueryTerminated(ended("SQLException: jdbc:postgresql://u:password@host"))
    assert messages(caplog, logging.ERROR) == (
        [f"query {QUERY_ID} ended by an error that is not of its Kinesis source (PYTHON_EXCEPTION)"]
        if seen
        else []
    )


def test_a_query_that_was_stopped_leaves_no_word(caplog: pytest.LogCaptureFixture) -> None:
    listener = KinesisMetricsListener()
    listener.onQueryProgress(event())
    listener.onQueryTerminated(ended(None))
    assert messages(caplog, logging.WARNING) == messages(caplog, logging.ERROR) == []


class Session:
    """What the listener asks of a session; its only query has one last report."""

    def __init__(self, last: QueryProgressEvent | Exception) -> None:
        self.streams = self
        self._last = last

    def get(self, query_id: str) -> Any:
        assert query_id == QUERY_ID
        return self

    @property
    def lastProgress(self) -> Any:
        if isinstance(self._last, Exception):
            raise self._last
        return self._last.progress


@pytest.mark.parametrize(("timestamp", "calls"), [("18.655Z", 1), ("19.655Z", 0)])
def test_an_idle_query_is_reported_once(timestamp: str, calls: int) -> None:
    """A report of another trigger comes with an event of its own."""
    given: list[QueryFigures] = []
    listener = KinesisMetricsListener(given.append)
    listener.spark = Session(event(lag_ms=5))  # type: ignore[assignment]
    listener.onQueryIdle(
        QueryIdleEvent(uuid.UUID(QUERY_ID), uuid.UUID(RUN_ID), f"2026-12-01T10:58:{timestamp}")
    )
    assert len(given) == calls


def test_a_session_that_fails_is_no_end_of_the_listener(caplog: pytest.LogCaptureFixture) -> None:
    listener = KinesisMetricsListener()
    listener.spark = Session(ConnectionError("the server has gone"))  # type: ignore[assignment]
    listener.onQueryIdle(QueryIdleEvent(uuid.UUID(QUERY_ID), uuid.UUID(RUN_ID), ""))
    (warning,) = messages(caplog, logging.WARNING)
    assert "ConnectionError('the server has gone')" in warning


def test_it_is_imported_without_the_sdk() -> None:
    """A client of Spark Connect has no use for it."""
    code = (
        "import sys; from kinesis_source.spark.listener import KinesisMetricsListener; "
        "print({'boto3', 'botocore', 'msgspec'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
