"""The class that Spark calls: translates its calls to the planner and to the tasks' reading."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kinesis_source.aws.session import Connection, resolve_region
from kinesis_source.core.horizon import UNLIMITED, Limits
from kinesis_source.core.offset import INITIAL_OFFSET, Offset, parse_offset, serialize_offset
from kinesis_source.core.ranges import pack_ranges
from kinesis_source.errors import KinesisSourceError, OffsetFormatError
from kinesis_source.options import Options
from kinesis_source.planning.planner import StreamPlanner
from kinesis_source.reading.task import THREADS as READING_THREADS
from kinesis_source.reading.task import read_ranges
from kinesis_source.spark.partition import KinesisInputPartition

#: Shards probed at once. The SDK's CPU time, not the latency, bounds it beyond that.
PLANNING_THREADS = 16
#: Attempts of a task that give up after so long without any answer; later ones wait for ever.
_ATTEMPTS_CUT_OFF, _CUT_OFF_S = 2, 300.0


class KinesisStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Picklable and without I/O until a method is called; see `kinesis_source.spark.source` for
    which process calls which method."""

    def __init__(
        self,
        options: Options,
        connect: Callable[..., Connection],
        problem: KinesisSourceError | None = None,
    ) -> None:
        """`problem`: why the query cannot start. It is raised by the first method that plans: an
        error of the constructor would be hidden behind one of Spark's own."""
        self._problem = problem
        self._options = options
        self._connect = connect
        self._connection: Connection | None = None
        self._planner: StreamPlanner | None = None
        self._region: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None, "_planner": None}

    # The planner process

    def prepareForTriggerAvailableNow(self) -> None:
        self._stream_planner().freeze()

    def initialOffset(self) -> dict[str, Any]:
        return serialize_offset(INITIAL_OFFSET)

    def getDefaultReadLimit(self) -> ReadLimit:
        # Never ReadAllAvailable: so that limit, when it comes, means Trigger.Once.
        return ReadMaxBytes(self._options.max_bytes_per_trigger or sys.maxsize)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        planner = self._stream_planner()
        limits = self._limits(limit)
        if isinstance(limit, ReadAllAvailable):
            planner.freeze()  # Trigger.Once: one batch with all there is now
        begin = parse_offset(start)
        end = planner.latest_offset(begin, limits)
        # Spark compares offsets as text, so "nothing new" is the very same object.
        return start if end is begin else serialize_offset(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if self._planner is None or self._planner.state is None:
            return None
        return self._planner.state.as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planner = self._stream_planner()
        last = parse_offset(end)
        if not isinstance(last, Offset):
            raise OffsetFormatError(f"a batch ends at a complete offset, found {end!r}")
        ranges = planner.ranges(parse_offset(start), last)
        # Once: the file that says it may be missing while somebody rotates the keys in it.
        self._region = self._region or resolve_region(self._options)
        return [
            KinesisInputPartition(
                last.stream,
                planner.retention_ms,
                self._region,
                socket.gethostname(),
                tuple(packed),
            )
            for packed in pack_ranges(ranges, self._options.shards_per_task)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark's checkpoint is the only record of progress."""

    def stop(self) -> None:
        """May be called twice, or never: Spark often just ends the process."""
        if self._connection is not None:
            self._connection.close()

    def _stream_planner(self) -> StreamPlanner:
        if self._problem is not None:
            raise self._problem
        if self._planner is None:
            _log_to_stderr()
            self._connection = self._connect(self._options, "driver", threads=PLANNING_THREADS)
            self._planner = StreamPlanner(self._options, self._connection)
        return self._planner

    def _limits(self, limit: ReadLimit) -> Limits:
        if isinstance(limit, ReadAllAvailable):
            return UNLIMITED
        limits = Limits(
            self._options.max_records_per_trigger,
            self._options.max_bytes_per_trigger,
            self._options.max_bytes_per_shard_per_trigger,
        )
        match limit:
            case ReadMaxRows(max_rows):
                return replace(limits, max_records=_smaller(limits.max_records, max_rows))
            case ReadMaxBytes(max_bytes):
                return replace(limits, max_bytes=_smaller(limits.max_bytes, max_bytes))
        return limits

    # The executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KinesisInputPartition)
        connection = self._connect(
            self._options,
            "executor",
            region=partition.region,
            threads=min(READING_THREADS, len(partition.ranges)),
        )
        return read_ranges(
            self._options,
            connection,
            partition.stream,
            partition.retention_ms,
            partition.ranges,
            _cut_off_s(partition.driver_host),
        )


def _cut_off_s(driver_host: str) -> float | None:
    """How long this attempt of a task waits while nothing answers: the driver has just reached the
    service, so it is this machine, and another may do. The driver's own has no other, and an outage
    of everything must not use up the four attempts that a task has."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() >= _ATTEMPTS_CUT_OFF:
        return None
    return None if socket.gethostname() == driver_host else _CUT_OFF_S


def _smaller(one: int | None, other: int) -> int | None:
    smallest = other if one is None else min(one, other)
    return None if smallest == sys.maxsize else smallest


def _log_to_stderr() -> None:
    """The planner process starts without logging set up; what it writes to stderr is the driver's
    log. Nothing is touched where somebody has configured logging."""
    logger = logging.getLogger("kinesis_source")
    if logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S")
    )
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
