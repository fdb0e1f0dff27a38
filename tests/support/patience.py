"""A clock for histories that notices code which waits for ever."""

from __future__ import annotations

from kinesis_source.testing import ManualClock

#: The longest wait that a history can justify is a fault of ten minutes on several calls in turn.
LONGEST_WAIT_S = 6 * 3600


class StillWaiting(AssertionError):
    """Something slept for hours of the history's time without getting anywhere."""


class PatientClock(ManualClock):
    """A `ManualClock` on which the sleeps since `begin` may add up to `LONGEST_WAIT_S`."""

    def __init__(self) -> None:
        super().__init__()
        self._waited_s = 0.0

    def begin(self) -> None:
        """A new thing is being waited for."""
        self._waited_s = 0.0

    def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        # At least the clock's smallest step, or a loop until some instant would never get there.
        super().sleep(max(seconds, 1e-6))
        self._waited_s += seconds
        if self._waited_s > LONGEST_WAIT_S:
            raise StillWaiting(f"slept {self._waited_s:.0f} s")
