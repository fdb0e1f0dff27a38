"""A clock that tests move by hand."""

from __future__ import annotations

import math
import threading

#: 2026-01-01T00:00:00Z. Late enough to give 56-digit sequence numbers, and a whole second.
DEFAULT_START_MS = 1_767_225_600_000


class ManualClock:
    """A `kinesis_source.clock.Clock` in which time passes only when told to. Thread-safe.

    `sleep` returns at once and moves the clock on by what was asked for, so code that waits
    runs through years of waiting in no time. With several sleeping threads their sleeps add up.
    """

    def __init__(self, now_ms: int = DEFAULT_START_MS) -> None:
        self._lock = threading.Lock()
        self._now_us = now_ms * 1000

    def now_ms(self) -> int:
        return self._now_us // 1000

    def monotonic(self) -> float:
        return self._now_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            with self._lock:
                self._now_us += math.ceil(seconds * 1_000_000)

    def advance(self, ms: int) -> None:
        """Move on by `ms` milliseconds (not negative)."""
        if ms < 0:
            raise ValueError(f"a clock does not go back: advance({ms})")
        with self._lock:
            self._now_us += ms * 1000
