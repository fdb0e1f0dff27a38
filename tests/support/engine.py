"""Spark's micro-batch engine without a JVM: the calls that Spark makes on a Python source.

Follows MicroBatchExecution and pyspark/sql/streaming/python_streaming_source_runner.py (4.3.0):
offsets travel as JSON text and are compared as text; every object is pickled on every hop; the
planner's reader lives for one run; `commit(N)` comes only while batch N+1 is built; `stop()`
comes after an exception, not on a normal stop. `tests/unit/support/test_engine.py` holds the
order of the calls to the table that was recorded from real Spark.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import random
from collections import Counter
from collections.abc import Callable
from enum import Enum

from pyspark.sql.datasource import DataSource
from pyspark.sql.datasource_internal import ReadLimitRegistry, _streamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType, _parse_datatype_json_string

from tests.support.checkpoint import Checkpoint, Sink
from tests.support.crashes import Crashed, CrashPoint, Fuse
from tests.support.tasks import (
    NO_TASK_FAULTS,
    BrokenContract,
    ReadJob,
    TaskFaults,
    pickled,
    unpickled,
)

_READ_LIMITS = ReadLimitRegistry()


class Trigger(Enum):
    PROCESSING_TIME = "processing time"
    ONCE = "once"
    AVAILABLE_NOW = "available now"


class Progress(Enum):
    """What one trigger did."""

    BATCH = "batch"
    IDLE = "idle"
    TERMINATED = "terminated"


class QueryFailed(Exception):
    """The reader raised `original`: Spark ends the query and does not try again."""

    def __init__(self, method: str, original: Exception) -> None:
        super().__init__(f"{method}: {type(original).__name__}: {original}")
        self.method = method
        self.original = original


class _Planner:
    """The planner process of one run: one reader, called with text and giving text."""

    def __init__(self, data_source: bytes, schema: StructType, calls: list[str], fuse: Fuse):
        self._calls = calls
        self._fuse = fuse
        try:
            self._reader = _streamReader(unpickled(data_source), schema)
        except Exception as error:
            raise QueryFailed("streamReader", error) from error
        if len(inspect.signature(self._reader.latestOffset).parameters) < 2:
            raise BrokenContract("latestOffset must take start and limit")

    @property
    def supports_available_now(self) -> bool:
        return isinstance(self._reader, SupportsTriggerAvailableNow)

    def call(self, method: str, *offsets: str, limit: str | None = None) -> object:
        """Call `method` with each offset parsed from its text, as the runner process does."""
        self._fuse.passing(f"before {method}")
        self._calls.append(method)
        arguments: list[object] = [json.loads(text) for text in offsets]
        if limit is not None:
            arguments.append(_READ_LIMITS.get(json.loads(limit)))
        try:
            result = getattr(self._reader, method)(*arguments)
        except Exception as error:
            self._reader.stop()
            raise QueryFailed(method, error) from error
        self._fuse.passing(f"after {method}")
        return result


class SimulatedEngine:
    """One streaming query with one source, its checkpoint and its sink.

    `calls` lists the names of the planner methods called since it was last cleared; `replays`
    counts the batches that a later run read again, "batch 0" or "later batch". After a
    `QueryFailed` or `Crashed` nothing is running: `start` again, on the same checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint, sink: Sink, rng: random.Random) -> None:
        self.checkpoint = checkpoint
        self.sink = sink
        self.rng = rng
        self.calls: list[str] = []
        self.replays: Counter[str] = Counter()
        self.last_report: object = None
        self._fuse = Fuse()
        self._planner: _Planner | None = None

    @property
    def running(self) -> bool:
        return self._planner is not None

    def crash_at(self, point: CrashPoint | None) -> None:
        """Arm a crash, counted from now over this and later runs; None disarms."""
        self._fuse.arm(point)

    def start(
        self, make_source: Callable[[], DataSource], trigger: Trigger = Trigger.PROCESSING_TIME
    ) -> None:
        """Begin a run: a new planner, with what the checkpoint says. Reads no records yet."""
        assert self._planner is None, "stop or crash the run before starting another"
        self._trigger = trigger
        self._data_source: bytes = pickled(make_source())
        schema = unpickled(self._data_source).schema()
        parsed = _parse_datatype_json_string(schema.json())
        assert isinstance(parsed, StructType)
        self._schema = parsed
        self._read_job: ReadJob | None = None
        planner = _Planner(self._data_source, self._schema, self.calls, self._fuse)
        if trigger is Trigger.AVAILABLE_NOW:
            if not planner.supports_available_now:
                raise BrokenContract("without the mixin AvailableNow is one unbounded batch")
            planner.call("prepareForTriggerAvailableNow")
        limit = planner.call("getDefaultReadLimit")
        if trigger is Trigger.ONCE:
            limit = ReadAllAvailable()
        self._limit = json.dumps(
            dataclasses.asdict(limit) | {"_type": type(limit).__name__}  # type: ignore[call-overload]
        )
        self._recover()
        self._planner = planner

    def _recover(self) -> None:
        """MicroBatchExecution.populateStartOffsets."""
        log = self.checkpoint
        last = log.last_offset()
        self._constructed = False
        if last is None:
            self._batch_id, self._committed, self._available = 0, None, None
            return
        if log.is_committed(last):
            self._batch_id = last + 1
            self._committed = self._available = log.offsets[last]
        else:
            self._batch_id = last
            self._committed = log.offsets[last - 1] if last > 0 else None
            self._available = log.offsets[last]
            self._constructed = True
            self.replays["later batch" if last else "batch 0"] += 1

    def stop(self) -> None:
        """A normal stop: the planner gets SIGTERM and `stop()` is not called."""
        self._planner = None
        self._read_job = None

    def trigger(self, faults: TaskFaults = NO_TASK_FAULTS) -> Progress:
        """Run one trigger. Raises `Crashed`, `QueryFailed` and the contract's assertions, and
        then nothing runs any more."""
        assert self._planner is not None, "start the query first"
        try:
            progress = self._run_trigger(self._planner, faults)
        except BaseException:
            self.stop()
            raise
        if progress is Progress.TERMINATED or self._trigger is Trigger.ONCE:
            self.stop()
        return progress

    def run_available_now(self, make_source: Callable[[], DataSource], most_triggers: int) -> int:
        """A whole `Trigger.AvailableNow` run; the number of its batches.

        Raises `AssertionError` when it has not ended after `most_triggers` triggers.
        """
        self.start(make_source, Trigger.AVAILABLE_NOW)
        for batches in range(most_triggers):
            if self.trigger() is Progress.TERMINATED:
                return batches
        raise AssertionError(f"AvailableNow did not end within {most_triggers} triggers")

    def _run_trigger(self, planner: _Planner, faults: TaskFaults) -> Progress:
        if not self._constructed and not self._construct_batch(planner):
            if self._trigger is Trigger.PROCESSING_TIME:
                return Progress.IDLE
            return Progress.TERMINATED
        self._run_batch(planner, faults)
        return Progress.BATCH

    def _construct_batch(self, planner: _Planner) -> bool:
        start = self._available
        if start is None:
            start = json.dumps(planner.call("initialOffset"))
        end = json.dumps(planner.call("latestOffset", start, limit=self._limit))
        self._available = end
        self.last_report = json.loads(json.dumps(planner.call("reportLatestOffset")))
        if end == self._committed:
            return False
        self.checkpoint.offsets[self._batch_id] = end
        self._fuse.passing("offset logged")
        if self._batch_id > 0:
            planner.call("commit", self.checkpoint.offsets[self._batch_id - 1])
        self._constructed = True
        return True

    def _run_batch(self, planner: _Planner, faults: TaskFaults) -> None:
        assert self._available is not None
        start = self._committed
        if start is None:
            start = json.dumps(planner.call("initialOffset"))
        partitions = planner.call("partitions", start, self._available)
        assert isinstance(partitions, (list, tuple)), "partitions() needs a length and an order"
        shipped = [pickled(partition) for partition in partitions]
        try:
            if self._read_job is None:
                self._read_job = ReadJob(self._data_source, self._schema)
            rows = self._read_job.run(
                shipped, faults, self.rng, self._fuse.passing, self.sink.may_lack
            )
        except Exception as error:
            if isinstance(error, (Crashed, AssertionError)):
                raise
            raise QueryFailed("read", error) from error
        self._fuse.passing("tasks finished")
        self.sink.write(self._batch_id, rows)
        self._fuse.passing("sink written")
        self.checkpoint.commits[self._batch_id] = '{"nextBatchWatermarkMs":0}'
        self._committed = self._available
        self._batch_id += 1
        self._constructed = False
        self._fuse.passing("batch committed")
