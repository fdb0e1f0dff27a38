"""Queries on a local stream, what they have read, and what they should have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from kinesis_source.clock import SystemClock
from kinesis_source.testing import LocalKinesis

CLOCK = SystemClock()
#: Far more than anything here takes on a busy machine.
LIMIT_S = 60
STREAM = "orders"

#: Of the shared session's Python workers, and of its SQL.
WORKER_ZONE = "America/Los_Angeles"
SESSION_ZONE = "Asia/Tokyo"


class MovableClock(SystemClock):
    """The machine's clock, put forward by what a test says."""

    def __init__(self) -> None:
        self.forward_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.forward_ms


class Row(NamedTuple):
    """A row of the source. The arrival time is microseconds since the epoch, which no time zone
    can change on its way to the test."""

    partition_key: str | None
    data: bytes
    stream: str
    shard_id: str
    sequence_number: str
    arrival_us: int


def ledger_rows(kinesis: LocalKinesis, stream: str = STREAM) -> list[Row]:
    """What a correct query has read once all that was put has been, in the stream's own words."""
    rows = (
        Row(
            r.partition_key, r.data, stream, r.shard_id, str(r.sequence_number), r.arrival_ms * 1000
        )
        for r in kinesis.ledger(stream).records
    )
    return sorted(rows, key=row_order)


def row_order(row: Row) -> tuple[str, str, int]:
    return row.stream, row.shard_id, int(row.sequence_number)


def rows_in(frame: DataFrame) -> list[Row]:
    """The rows of a batch frame with the source's columns, in an order of their own."""
    plain = frame.withColumn(
        "approximateArrivalTimestamp", f.unix_micros("approximateArrivalTimestamp")
    )
    rows = [Row(r[0], bytes(r[1]), *r[2:]) for r in plain.collect()]
    return sorted(rows, key=row_order)


def options_of(kinesis: LocalKinesis, stream: str = STREAM, **options: Any) -> dict[str, str]:
    """The stream from its beginning, looked at as often as is allowed."""
    return {
        **kinesis.spark_options(stream),
        "startingPosition": "TRIM_HORIZON",
        "minFetchPeriod": "200ms",
        "shardFetchInterval": "200ms",
        **{name: str(value) for name, value in options.items()},
    }


def load(
    spark: SparkSession, kinesis: LocalKinesis, stream: str = STREAM, **options: Any
) -> DataFrame:
    """The frame of `options_of`."""
    settings = options_of(kinesis, stream, **options)
    return spark.readStream.format("kinesis").options(**settings).load()


class Batches:
    """A sink that keeps the rows of each batch by its number; a batch that comes again is put in
    the place of the first."""

    def __init__(self) -> None:
        self.by_id: dict[int, list[Row]] = {}
        self.runs: list[int] = []

    def start(self, frame: DataFrame, checkpoint: Path, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(self._take)
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def run_available(self, frame: DataFrame, checkpoint: Path) -> None:
        """One run with Trigger.AvailableNow, to its end."""
        finish(self.start(frame, checkpoint, availableNow=True))

    @property
    def rows(self) -> list[Row]:
        return sorted((row for rows in list(self.by_id.values()) for row in rows), key=row_order)

    @property
    def data(self) -> set[bytes]:
        return {row.data for row in self.rows}

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        self.by_id[batch_id] = rows_in(frame)
        self.runs.append(batch_id)


def finish(query: StreamingQuery, limit_s: float = LIMIT_S) -> None:
    """Wait for a query that ends by itself; raises what ended it."""
    assert query.awaitTermination(limit_s), f"still running after {limit_s} s: {query.status}"


def until(
    condition: Callable[[], object],
    what: str,
    query: StreamingQuery | None = None,
    limit_s: float = LIMIT_S,
) -> None:
    """Poll until it is so. Fails when it takes too long, and with the query's own error if that
    ends on the way."""
    deadline = CLOCK.monotonic() + limit_s
    while not condition():
        if query is not None and not query.isActive and not condition():
            raise query.exception() or AssertionError(f"the query ended before {what}")
        assert CLOCK.monotonic() < deadline, f"waited {limit_s} s in vain for {what}"
        CLOCK.sleep(0.02)


class DriverLog:
    """A growing log file from where it ends now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.restart()

    def restart(self) -> None:
        self._start = self._path.stat().st_size

    def text(self) -> str:
        with self._path.open("rb") as file:
            file.seek(self._start)
            return file.read().decode(errors="replace")

    def lines(self, part: str) -> list[str]:
        return [line for line in self.text().splitlines() if part in line]
