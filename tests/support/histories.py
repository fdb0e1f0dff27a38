"""A history: the steps that a world goes through. `run` plays one, and a failure tells all.

The same history plays the same down to the last call to the service.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.support.steps import Step
from tests.support.world import Setup, World


@dataclass(frozen=True, slots=True)
class History:
    """`prelude` happens before the query is first started."""

    setup: Setup
    prelude: tuple[Step, ...]
    steps: tuple[Step, ...]


class HistoryFailed(AssertionError):
    """A history broke an invariant or the query; prints how to see it again."""

    def __init__(self, history: History, done: list[Step], error: Exception) -> None:
        seed = history.setup.seed
        lines = "\n".join(f"  {i:3} {step}" for i, step in enumerate(done))
        super().__init__(
            f"{type(error).__name__}: {error}\nagain: python -m tests.support.soak --seeds "
            f"{seed}:{seed + 1}\n{history.setup}\nsteps so far:\n{lines}"
        )
        self.history = history
        self.error = error


def run(history: History) -> Counter[str]:
    """Play a history and settle it; what happened, counted. Raises `HistoryFailed`."""
    done: list[Step] = []
    with World(history.setup) as world:
        try:
            for step in (*history.prelude, *history.steps):
                done.append(step)
                world.tally["steps"] += 1
                step.apply(world)
            world.settle()
        except Exception as error:
            raise HistoryFailed(history, done, error) from error
        world.tally["histories"] += 1
        world.tally["calls"] += sum(world.kinesis.calls.values())
        world.tally["rewritten batches"] += world.engine.sink.replays
        for which, count in world.engine.replays.items():
            world.tally[f"replays of a {which}" if which[0] == "l" else f"replays of {which}"] += (
                count
            )
        world.tally["rows"] += sum(len(rows) for rows in world.engine.sink.batches.values())
        return world.tally
