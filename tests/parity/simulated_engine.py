"""The situations on the simulated engine."""

from __future__ import annotations

import random
from pathlib import Path

from tests.parity import situations
from tests.parity.recording import RecordingSource
from tests.support.checkpoint import Checkpoint, Sink
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, QueryFailed, SimulatedEngine, Trigger

#: Far more than any situation takes.
MOST_TRIGGERS = 50


class SimulatedQuery:
    """A `situations.Query`. `folder` is not used: checkpoint and sink are objects."""

    def __init__(self, options: dict[str, str], folder: Path) -> None:
        self._options = options
        self._engine = SimulatedEngine(Checkpoint(), Sink(), random.Random(1))

    def start(self, trigger: situations.Trigger = situations.Trigger.PROCESSING_TIME) -> None:
        self._engine.start(lambda: RecordingSource(self._options), Trigger(trigger.value))

    def until_batch(self, batch: int) -> None:
        for _ in range(MOST_TRIGGERS):
            if self._engine.checkpoint.is_committed(batch):
                return
            self._engine.trigger()
        raise AssertionError(f"batch {batch} did not come in {MOST_TRIGGERS} triggers")

    def be_idle(self) -> None:
        for _ in range(3):
            assert self._engine.trigger() is Progress.IDLE

    def until_end(self) -> None:
        for _ in range(MOST_TRIGGERS):
            if not self._engine.running:
                return
            self._engine.trigger()
        raise AssertionError(f"still running after {MOST_TRIGGERS} triggers")

    def until_failure(self) -> None:
        try:
            for _ in range(MOST_TRIGGERS):
                self._engine.trigger()
        except (Crashed, QueryFailed):
            return
        raise AssertionError(f"no failure in {MOST_TRIGGERS} triggers")

    def stop(self) -> None:
        self._engine.stop()

    def fail_next_batch(self) -> None:
        self._engine.crash_at(CrashPoint("tasks finished"))
