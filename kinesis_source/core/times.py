"""Times and durations as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

#: 9999-12-31T23:59:59.999Z.
_LAST_MS = 253_402_300_799_999
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def format_ms(timestamp_ms: int | None) -> str:
    """ISO 8601 in UTC to the millisecond, or `an unknown time`; past the year 9999 the number."""
    if timestamp_ms is None:
        return "an unknown time"
    if not 0 <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ms since 1970"
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(
        microsecond=timestamp_ms % 1000 * 1000
    )
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(ms: int) -> str:
    """The two largest units that matter: `3 h 12 min`, `850 ms`; rounded down."""
    if ms < 0:
        return f"-{format_duration(-ms)}"
    for place, (size, name) in enumerate(_UNITS):
        if ms >= size:
            text = f"{ms // size} {name}"
            if place + 1 < len(_UNITS):
                smaller, smaller_name = _UNITS[place + 1]
                rest = ms % size // smaller
                text += f" {rest} {smaller_name}" if rest else ""
            return text
    return f"{ms} ms"
