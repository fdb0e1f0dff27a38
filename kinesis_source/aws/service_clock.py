"""An estimate of the service's clock, from the Date header of its answers; never ahead of it.

Ages and times of records are the service's, so they are reckoned on its clock: a driver's own may
be minutes off, and the service refuses an AT_TIMESTAMP in its future.

A Date is the service's time cut down to whole seconds, seen a little after it was made. So
`Date + what has passed since it was seen` is at or behind the service's clock for every answer
ever seen, and the largest of them is the best: with a few answers a second it comes within
milliseconds. Only the last ten minutes' answers count, since the monotonic clock of a machine
that is being slewed runs up to 0.05 % fast.
"""

from __future__ import annotations

import threading
from email.utils import parsedate_to_datetime

from kinesis_source.clock import Clock

#: An answer counts for one to two of these periods.
_PERIOD_S = 300.0


def parse_date_ms(header: str) -> int | None:
    """A Date header as milliseconds since the epoch; None for a malformed one."""
    try:
        date = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if date.tzinfo is None else int(date.timestamp() * 1000)


class ServiceClock:
    """Thread-safe. One for each client; fed by every answer, errors too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last_header = ""
        self._period_start = clock.monotonic()
        # Service time minus monotonic time, ms: the best of this period and of the one before.
        self._offset: float | None = None
        self._previous_offset: float | None = None
        self._latest_ms: int | None = None

    def observe(self, date_header: str) -> None:
        """Take in the Date header (RFC 1123, whole seconds) of an answer just received.
        A malformed one is ignored."""
        with self._lock:
            if date_header == self._last_header:
                return  # the same second, seen later: says less than when it was seen first
            self._last_header = date_header
            date_ms = parse_date_ms(date_header)
            if date_ms is None:
                return
            seen = self._clock.monotonic()
            if seen - self._period_start >= _PERIOD_S:
                self._previous_offset, self._offset = self._offset, None
                self._period_start = seen
            offset = date_ms - seen * 1000
            self._offset = offset if self._offset is None else max(self._offset, offset)

    def now_ms(self) -> int | None:
        """The service's time, at or before the true one, milliseconds since the epoch; never less
        than an earlier result. None before the first answer."""
        with self._lock:
            offsets = [o for o in (self._offset, self._previous_offset) if o is not None]
            if not offsets:
                return None
            estimate = int(self._clock.monotonic() * 1000 + max(offsets))
            self._latest_ms = max(estimate, self._latest_ms or 0)
            return self._latest_ms
