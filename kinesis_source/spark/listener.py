"""Figures of running queries, to a callback and to the log.

    from kinesis_source.spark.listener import KinesisMetricsListener
    spark.streams.addListener(KinesisMetricsListener(callback=publish))

Runs in the driver, or in the client of Spark Connect. It hears of every query of the session and
speaks of those that read Kinesis.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kinesis_source.clock import Clock, SystemClock
from kinesis_source.core.figures import QueryFigures, SourceFigures, figures_of
from kinesis_source.planning.warnings import PacedWarnings

#: An error of this package in the text of one of Spark's; the last is the one that counts.
_OUR_ERROR = re.compile(r"kinesis_source\.errors\.(\w+: .+)")


class KinesisMetricsListener(StreamingQueryListener):
    """`kinesis_source.core.figures` lists the figures, by the names of Databricks' source, and what
    Databricks has and this does not.

    `callback` is given a `QueryFigures` for each batch of a query, and while a query is idle or
    cannot go on, one each `spark.sql.streaming.noDataProgressEventInterval` (10 s). It should be
    quick, as Spark calls one listener after the other. What it raises is a WARN, once a minute at
    most, and nothing else.

    `logger` gets a line for each of these at INFO (shown if the driver's logging shows INFO), and
    at ERROR the error that ended a query. By default it is this module's.

    `session`: the one whose queries it is told of, where that is not the driver's only one.
    """

    def __init__(
        self,
        callback: Callable[[QueryFigures], object] | None = None,
        logger: logging.Logger | None = None,
        clock: Clock | None = None,
        session: SparkSession | None = None,
    ) -> None:
        self._callback = callback
        self._session = session
        self._logger = logger or logging.getLogger(__name__)
        self._warnings = PacedWarnings(self._logger, clock or SystemClock())
        #: The last report of each run that has not ended.
        self._last: dict[str, QueryFigures] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._take(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Spark sends no progress with it, though the query keeps one. A query that is throttled
        all the time is idle, too, and its lag grows."""
        try:
            # Only Spark Connect tells a listener its session.
            session = self._session or self.spark or SparkSession.getActiveSession()
            query = session.streams.get(str(event.id)) if session is not None else None
            progress = query.lastProgress if query is not None else None
        except Exception as error:
            self._warnings.warn("an idle query", f"its progress is not known: {error!r}")
            return
        if query is None:
            self._warnings.warn(
                f"query {event.id}",
                "is idle, and the active session does not know it: give its own as "
                "KinesisMetricsListener(session=…)",
            )
        # A later one comes with an event of its own.
        elif progress is not None and progress.timestamp == event.timestamp:
            self._take(json.loads(progress.json))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        last = self._last.pop(str(event.runId), None)
        if event.exception is None:
            return
        ours = _OUR_ERROR.findall(event.exception)
        name = last.name if last is not None else None
        if ours:
            self._logger.error("%s ended: %s", _called(event.id, name), ours[-1].strip())
        elif last is not None:
            # Its text is not ours and may hold anything.
            self._logger.error(
                "%s ended by an error that is not of its Kinesis source (%s)",
                _called(event.id, name),
                event.errorClassOnException or "no error class",
            )

    def _take(self, progress: dict[str, Any]) -> None:
        run_id = progress["runId"]
        figures = figures_of(progress, self._last.get(run_id))
        if figures is None:
            return
        self._last[run_id] = figures
        self._logger.info("%s", _line(figures))
        if self._callback is not None:
            try:
                self._callback(figures)
            except BaseException as error:  # SystemExit would end Spark's thread of callbacks
                self._warnings.warn("the callback for Kinesis figures", f"failed: {error!r}")


def _called(query_id: object, name: str | None) -> str:
    return f"query {name}" if name else f"query {query_id}"


def _line(figures: QueryFigures) -> str:
    sources = "; ".join(_of_source(source) for source in figures.sources)
    return f"{_called(figures.query_id, figures.name)}, batch {figures.batch_id}: {sources}"


def _of_source(source: SourceFigures) -> str:
    """`orders: avgMsBehindLatest 12, …`, without what never changes."""
    shown = (
        f"{name} {value:.0f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in source.figures.items()
        if name not in ("mode", "numStreams")
    )
    return f"{source.stream}: {', '.join(shown)}"
