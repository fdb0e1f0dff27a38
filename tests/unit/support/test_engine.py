"""The simulated engine against the table of calls recorded from real Spark (4.2.1 and 4.3.0)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StructField, StructType

from tests.support.checkpoint import Checkpoint, ReplayDiffers, Sink
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, QueryFailed, SimulatedEngine, Trigger
from tests.support.tasks import BrokenContract, TaskFaults

ARROW_SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=True)])


class World:
    """The service behind the toy source: how many numbers there are, and what was asked."""

    available = 0
    marker = 0
    stops = 0
    fail_in: ClassVar[set[str]] = set()
    reads = 0
    drift = False
    arrow_type: ClassVar[pa.DataType] = pa.int64()
    latest_arguments: ClassVar[list[tuple[object, object]]] = []
    partitions_arguments: ClassVar[list[tuple[object, object]]] = []
    reader_ids: ClassVar[list[int]] = []


class Numbers(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


class CounterReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Numbers 1, 2, …; an offset is the last number read. Ten numbers a batch at most."""

    def __init__(self) -> None:
        self.target: int | None = None

    def _maybe_fail(self, method: str) -> None:
        if method in World.fail_in:
            raise ValueError(f"planted in {method}")

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = World.available

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(10)

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self._maybe_fail("latestOffset")
        World.latest_arguments.append((start, limit))
        World.reader_ids.append(id(self))
        top = World.available if self.target is None else self.target
        if isinstance(limit, ReadMaxRows):
            top = min(top, start["n"] + limit.max_rows)
        return {"n": max(top, start["n"])}

    def reportLatestOffset(self) -> dict[str, int]:
        return {"n": World.available}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        World.partitions_arguments.append((start, end))
        middle = (start["n"] + end["n"]) // 2
        return [Numbers(start["n"] + 1, middle), Numbers(middle + 1, end["n"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Numbers)
        World.reads += 1
        for n in range(partition.first, partition.last + 1):
            self._maybe_fail("read")
            value = n + (1000 * World.reads if World.drift else 0)
            yield pa.record_batch(
                [pa.array([value], World.arrow_type)],
                schema=pa.schema([pa.field("n", World.arrow_type)]),
            )

    def commit(self, end: dict[str, int]) -> None:
        pass

    def stop(self) -> None:
        World.stops += 1


class CounterSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "counter"

    def schema(self) -> StructType:
        return StructType([StructField("n", LongType(), True)])

    def streamReader(self, schema: StructType) -> CounterReader:
        return CounterReader()


def make_source() -> CounterSource:
    return CounterSource(options={})


@pytest.fixture(autouse=True)
def world() -> type[World]:
    World.available = World.stops = World.reads = 0
    World.drift = False
    World.arrow_type = pa.int64()
    World.fail_in = set()
    World.latest_arguments, World.partitions_arguments, World.reader_ids = [], [], []
    return World


@pytest.fixture
def engine() -> SimulatedEngine:
    return SimulatedEngine(Checkpoint(), Sink(), random.Random(1))


def calls_of_a_trigger(engine: SimulatedEngine) -> list[str]:
    engine.calls.clear()
    engine.trigger()
    return list(engine.calls)


FIRST_BATCH = ["initialOffset", "latestOffset", "reportLatestOffset", "initialOffset", "partitions"]
NEXT_BATCH = ["latestOffset", "reportLatestOffset", "commit", "partitions"]


def test_fresh_start(engine: SimulatedEngine) -> None:
    World.available = 5
    engine.start(make_source)
    assert engine.calls == ["getDefaultReadLimit"]
    assert calls_of_a_trigger(engine) == FIRST_BATCH
    World.available = 7
    assert calls_of_a_trigger(engine) == NEXT_BATCH
    assert engine.sink.batches == {0: [(n,) for n in range(1, 6)], 1: [(6,), (7,)]}


def test_idle_trigger_asks_and_reports_but_makes_no_batch(engine: SimulatedEngine) -> None:
    engine.start(make_source)
    assert engine.trigger() is Progress.BATCH  # batch 0 runs although it is empty
    assert calls_of_a_trigger(engine) == ["latestOffset", "reportLatestOffset"]
    assert list(engine.checkpoint.offsets) == [0]
    assert engine.last_report == {"n": 0}


def test_clean_restart_commits_the_last_batch_with_the_next_one(engine: SimulatedEngine) -> None:
    World.available = 5
    engine.start(make_source)
    engine.trigger()
    engine.stop()
    engine.calls.clear()
    engine.start(make_source)
    assert calls_of_a_trigger(engine) == ["latestOffset", "reportLatestOffset"]
    World.available = 6
    assert calls_of_a_trigger(engine) == NEXT_BATCH
    assert World.stops == 0


def test_replay_of_batch_0_asks_for_the_initial_offset_again(engine: SimulatedEngine) -> None:
    World.available = 5
    engine.crash_at(CrashPoint("sink written"))
    engine.start(make_source)
    with pytest.raises(Crashed):
        engine.trigger()
    World.available = 50
    engine.calls.clear()
    engine.start(make_source)
    engine.trigger()
    assert engine.calls == ["getDefaultReadLimit", "initialOffset", "partitions"]
    assert World.partitions_arguments[-1] == ({"n": 0}, {"n": 5})
    assert engine.sink.replays == 1


def test_replay_of_a_later_batch(engine: SimulatedEngine) -> None:
    World.available = 5
    engine.start(make_source)
    engine.trigger()
    World.available = 7
    engine.crash_at(CrashPoint("record batch", nth=2))
    with pytest.raises(Crashed):
        engine.trigger()
    engine.calls.clear()
    engine.start(make_source, Trigger.AVAILABLE_NOW)
    engine.trigger()
    assert engine.calls == ["prepareForTriggerAvailableNow", "getDefaultReadLimit", "partitions"]
    assert World.partitions_arguments[-1] == ({"n": 5}, {"n": 7})


def test_available_now_ends_at_its_target_and_leaves_out_the_last_commit(
    engine: SimulatedEngine,
) -> None:
    World.available = 25
    assert engine.run_available_now(make_source, most_triggers=10) == 3
    assert engine.calls[:2] == ["prepareForTriggerAvailableNow", "getDefaultReadLimit"]
    assert engine.calls.count("commit") == 2
    assert sorted(engine.checkpoint.commits) == [0, 1, 2]
    assert not engine.running


def test_once_is_one_batch_without_a_limit(engine: SimulatedEngine) -> None:
    World.available = 25
    engine.start(make_source, Trigger.ONCE)
    assert engine.trigger() is Progress.BATCH
    assert not engine.running
    assert len(engine.sink.batches[0]) == 25
    assert isinstance(World.latest_arguments[0][1], ReadAllAvailable)


def test_default_limit_comes_back_to_the_reader_as_an_object(engine: SimulatedEngine) -> None:
    World.available = 25
    engine.start(make_source)
    engine.trigger()
    assert World.latest_arguments == [({"n": 0}, ReadMaxRows(max_rows=10))]


def test_each_run_has_a_planner_of_its_own(engine: SimulatedEngine) -> None:
    readers: list[object] = []
    for _ in range(2):
        engine.start(make_source)
        readers.append(engine._planner)
        engine.trigger()
        engine.stop()
    assert readers[0] is not readers[1]


def all_crash_steps() -> list[str]:
    methods = ["getDefaultReadLimit", *FIRST_BATCH, *NEXT_BATCH]
    steps = {f"{when} {method}" for method in methods for when in ("before", "after")}
    return sorted(
        steps
        | {"offset logged", "record batch", "tasks finished", "sink written", "batch committed"}
    )


@pytest.mark.parametrize("step", all_crash_steps())
@pytest.mark.parametrize("nth", [1, 2])
def test_a_crash_at_any_step_loses_and_repeats_nothing(
    engine: SimulatedEngine, step: str, nth: int
) -> None:
    World.available = 30
    engine.crash_at(CrashPoint(step, nth))
    crashes = 0
    for _ in range(8):
        try:
            if not engine.running:
                engine.start(make_source)
            engine.trigger()
        except Crashed:
            crashes += 1
    if nth == 2 and step.endswith("getDefaultReadLimit"):
        assert crashes == 0  # called once a run
    else:
        assert crashes == 1
    committed = [
        row for batch in sorted(engine.checkpoint.commits) for row in engine.sink.batches[batch]
    ]
    assert committed == [(n,) for n in range(1, 31)]


def test_any_step_means_every_step_is_counted(engine: SimulatedEngine) -> None:
    World.available = 30
    seen = set()
    for nth in range(1, 60):
        fresh = SimulatedEngine(Checkpoint(), Sink(), random.Random(nth))
        fresh.crash_at(CrashPoint(nth=nth))
        try:
            fresh.start(make_source)
            for _ in range(20):
                fresh.trigger()
        except Crashed as crashed:
            seen.add(str(crashed))
    assert set(all_crash_steps()) == seen


def test_a_failing_reader_ends_the_query_and_is_stopped(engine: SimulatedEngine) -> None:
    World.available = 5
    World.fail_in = {"latestOffset"}
    engine.start(make_source)
    with pytest.raises(QueryFailed, match="planted in latestOffset") as failed:
        engine.trigger()
    assert isinstance(failed.value.original, ValueError)
    assert World.stops == 1
    assert not engine.running


def test_a_failing_task_ends_the_query_but_does_not_stop_the_planner(
    engine: SimulatedEngine,
) -> None:
    World.available = 5
    World.fail_in = {"read"}
    engine.start(make_source)
    with pytest.raises(QueryFailed, match="planted in read"):
        engine.trigger()
    assert World.stops == 0
    assert list(engine.checkpoint.offsets) == [0]
    assert not engine.checkpoint.commits


def test_failed_and_speculative_attempts_and_a_second_action_read_again(
    engine: SimulatedEngine,
) -> None:
    World.available = 10
    engine.start(make_source)
    engine.trigger(TaskFaults(failure_rate=1, speculation_rate=1, two_actions=True))
    assert World.reads > 8  # two partitions, two attempts each, two actions, and retries
    assert sorted(engine.sink.batches[0]) == [(n,) for n in range(1, 11)]


@pytest.mark.parametrize("faults", [TaskFaults(speculation_rate=1), TaskFaults(two_actions=True)])
def test_attempts_that_give_other_rows_are_found(
    engine: SimulatedEngine, faults: TaskFaults
) -> None:
    World.available = 4
    World.drift = True
    engine.start(make_source)
    with pytest.raises(ReplayDiffers):
        engine.trigger(faults)


def test_a_replay_that_gives_other_rows_is_found(engine: SimulatedEngine) -> None:
    World.available = 4
    engine.crash_at(CrashPoint("sink written"))
    engine.start(make_source)
    with pytest.raises(Crashed):
        engine.trigger()
    World.drift = True
    engine.start(make_source)
    with pytest.raises(ReplayDiffers, match="batch 0"):
        engine.trigger()


def test_a_record_batch_of_another_schema_is_refused(engine: SimulatedEngine) -> None:
    World.available = 4
    World.arrow_type = pa.int32()
    engine.start(make_source)
    with pytest.raises((QueryFailed, BrokenContract), match="int32"):
        engine.trigger()


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[list[tuple[object, ...]]]:
        engine = SimulatedEngine(Checkpoint(), Sink(), random.Random(seed))
        World.available = 30
        engine.start(make_source)
        for _ in range(4):
            engine.trigger(TaskFaults(failure_rate=0.5, speculation_rate=0.5))
        return list(engine.sink.batches.values())

    assert run(3) == run(3)
