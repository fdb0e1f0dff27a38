"""Steps of histories in which records outlive the retention period."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.engine import Progress
from tests.support.losses import CLOCK_ERROR_MS
from tests.support.verdict import Verdict
from tests.support.world import World

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class SetRetention:
    """Raise or lower the stream's retention period."""

    hours: int

    def apply(self, world: World) -> None:
        world.set_retention(self.hours)


@dataclass(frozen=True, slots=True)
class Idle:
    """All faults stop, the query catches up, and then it runs for `hours` with a trigger every
    `gap_ms` while nothing happens: no rows, no alarm, and the read-until times are written down
    often enough that a restart would not raise one either."""

    hours: int
    gap_ms: int

    def apply(self, world: World) -> None:
        world.end_faults()
        if world.judge is None:
            world.trigger()
        for _ in range(world.most_triggers()):
            world.clock.advance(1_000)
            world.trigger()
        assert world.judge is not None
        if not world.judge.is_idle_at_the_tip():
            return  # a loss stopped it, or a limit holds it to a few records
        alarms = world.tally["stops at a loss"] + world.tally["losses logged"]
        rows = world.judge.rows
        for _ in range(self.hours * _HOUR_MS // self.gap_ms):
            world.clock.advance(self.gap_ms)
            if world.trigger() is Progress.BATCH:
                world.tally["idle batches"] += 1
        world.tally["idle hours"] += self.hours
        if world.tally["stops at a loss"] + world.tally["losses logged"] != alarms:
            raise Verdict("loss", "a query that idled at the tip spoke of loss")
        if world.judge.rows != rows:
            raise Verdict("rows", "an idle query read something")
        self._check_written_down(world)

    def _check_written_down(self, world: World) -> None:
        assert world.judge is not None
        oldest_ms = world.judge.oldest_read_until_ms()
        slack_ms = 3 * self.gap_ms + 60_000 + CLOCK_ERROR_MS
        due_ms = world.clock.now_ms() - world.losses.retention_ms // 4 - slack_ms
        began_ms = world.clock.now_ms() - self.hours * _HOUR_MS
        if oldest_ms is not None and oldest_ms < min(due_ms, began_ms):
            raise Verdict(
                "read until", f"idle for {self.hours} h, but only {oldest_ms} is written down"
            )
