"""A crash as a value: where in Spark's sequence of steps the processes die."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Die at the `nth` passing (from 1) of the step `step`, or of any step where it is empty.

    Steps: `before M` and `after M` for each method M that Spark calls on the planner's reader;
    `offset logged`; `record batch` (one arrived from a task); `tasks finished`; `sink written`;
    `batch committed`.
    """

    step: str = ""
    nth: int = 1


class Crashed(Exception):
    """The planner and all tasks are gone; only checkpoint and sink are left."""


class Fuse:
    """Counts steps and raises `Crashed` at the armed point, once."""

    def __init__(self) -> None:
        self._point: CrashPoint | None = None
        self._passed = 0

    def arm(self, point: CrashPoint | None) -> None:
        """Replace the armed point and count from here; None disarms."""
        self._point = point
        self._passed = 0

    def passing(self, step: str) -> None:
        if self._point is None or self._point.step not in ("", step):
            return
        self._passed += 1
        if self._passed == self._point.nth:
            self._point = None
            raise Crashed(step)
