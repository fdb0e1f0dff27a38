"""The only place that reads the wall clock or sleeps; everything else is handed a `Clock`.

`tests/unit/test_architecture.py` fails when another module calls `time` or `datetime.now`.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the connector needs of time. Tests pass one that they move themselves."""

    def now_ms(self) -> int:
        """This machine's wall clock, milliseconds since the epoch. For logs and display only:
        ages and times are reckoned on the service's clock (`aws.service_clock`)."""

    def monotonic(self) -> float:
        """Seconds that never go backwards; the zero is arbitrary."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread; nothing for zero or less."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)
