"""Warnings that repeat while something lasts are given once a minute."""

from __future__ import annotations

import logging
import threading

from kinesis_source.clock import Clock

_PERIOD_S = 60.0


class PacedWarnings:
    """One WARN a minute for each subject, with how often it was held back. Thread-safe."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}
        self._held_back: dict[str, int] = {}

    def warn(self, subject: str, message: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            last = self._last.get(subject)
            if last is not None and now - last < _PERIOD_S:
                self._held_back[subject] = self._held_back.get(subject, 0) + 1
                return
            self._last[subject] = now
            held_back = self._held_back.pop(subject, 0)
        repeated = f" ({held_back} more since the last such warning)" if held_back else ""
        self._logger.warning("%s: %s%s", subject, message, repeated)
