"""Numbers and places as a person reads them."""

from __future__ import annotations

from kinesis_source.core.hashkeys import WHOLE_KEY_SPACE, HashKeyRange
from kinesis_source.core.leases import LeaseCheckpoint, RecordCheckpoint
from kinesis_source.core.positions import AfterSequenceNumber, AtTimestamp, Position
from kinesis_source.core.times import format_ms

#: Of a sequence number of 56 digits the last ones tell two records of a shard apart.
_DIGITS = 12


def share(keys: HashKeyRange) -> float:
    """Of the hash-key space, 0 … 1."""
    whole = WHOLE_KEY_SPACE.end - WHOLE_KEY_SPACE.start + 1
    return (keys.end - keys.start + 1) / whole


def percent(fraction: float) -> str:
    if 0 < fraction < 0.0001:
        return "<0.01 %"
    return f"{100 * fraction:.2f}".rstrip("0").rstrip(".") + " %"


def sequence_number(number: int, full: bool) -> str:
    """All of it, or the last digits."""
    text = str(number)
    return text if full or len(text) <= _DIGITS else f"…{text[-_DIGITS:]}"


def position(place: Position, full: bool) -> str:
    """As in an offset, but with a readable time and, unless `full`, a shortened number."""
    match place:
        case AfterSequenceNumber(number) if not full:
            return f"AFTER {sequence_number(number, full)}"
        case AtTimestamp(timestamp_ms) if not full:
            return f"AT {format_ms(timestamp_ms)}"
    return str(place)


def checkpoint(place: LeaseCheckpoint, full: bool) -> str:
    """A lease's."""
    match place:
        case RecordCheckpoint(number, sub):
            user_record = f" (user record {sub})" if sub else ""
            return f"{sequence_number(number, full)}{user_record}"
    return str(place)
