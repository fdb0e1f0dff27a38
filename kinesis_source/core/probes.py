"""What the planner has seen of one shard past its position, as plain values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import accumulate
from typing import NamedTuple

from kinesis_source.core.offset import TrackedShard


class Reached(Enum):
    """Where a page ends: before more records, at the tip, or at the end of a closed shard."""

    MORE = auto()
    TIP = auto()
    END = auto()


class SeenRecord(NamedTuple):
    """A record that the planner saw but does not deliver."""

    sequence_number: int
    arrival_ms: int
    size_bytes: int


#: What a shard takes in at most (service quotas), as the density where nothing better is known.
QUOTA_RECORDS_PER_MS = 1.0
QUOTA_BYTES_PER_MS = 1048.576


@dataclass(frozen=True, slots=True)
class Density:
    records_per_ms: float
    bytes_per_ms: float


def density_of(records: Sequence[SeenRecord]) -> Density:
    """How densely records arrived, from a page of them; the quota where there is but one."""
    if len(records) < 2:
        return Density(QUOTA_RECORDS_PER_MS, QUOTA_BYTES_PER_MS)
    times = [r.arrival_ms for r in records]
    span_ms = max(1, max(times) - min(times))
    return Density((len(records) - 1) / span_ms, sum(r.size_bytes for r in records[1:]) / span_ms)


@dataclass(frozen=True, slots=True)
class ShardView:
    """One readable shard in one plan.

    `unread`: the first records after the position, in sequence order; empty where none was seen.
    `reached`: what lies behind them. `closed`: the listing says that the shard takes no more
    records. `open_until_ms`: a time at which the shard was at its tip and had not closed, so that
    all that arrived before it is among `unread` or was read earlier; None if none is known.
    `target`: with Trigger.AvailableNow the last record to read; `unread` stops at it, and then
    `reached` is TIP.
    """

    shard_id: str
    place: TrackedShard
    unread: Sequence[SeenRecord]
    reached: Reached
    closed: bool
    open_until_ms: int | None = None
    target: SeenRecord | None = None
    _latest: list[int] = field(init=False, repr=False, compare=False)
    _bytes: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The latest arrival so far, since arrival times may be out of order: so "all up to a time"
        # is a prefix in sequence order.
        latest = list(accumulate((r.arrival_ms for r in self.unread), max))
        object.__setattr__(self, "_latest", latest)
        object.__setattr__(self, "_bytes", list(accumulate(r.size_bytes for r in self.unread)))

    @property
    def has_more(self) -> bool:
        return self.reached is Reached.MORE

    @property
    def last_seen_ms(self) -> int:
        """The latest arrival time among `unread`, which must not be empty."""
        return self._latest[-1]

    def seen_until(self, horizon_ms: int | None) -> int:
        """How many of `unread` a batch takes that ends at `horizon_ms`, inclusive."""
        if horizon_ms is None:
            return len(self.unread)
        return bisect_right(self._latest, horizon_ms)

    def volume_until(self, horizon_ms: int) -> tuple[float, float]:
        """Records and bytes up to `horizon_ms`: counted as far as seen, estimated beyond."""
        count = self.seen_until(horizon_ms)
        if not count:
            return 0.0, 0.0
        records, size = float(count), float(self._bytes[count - 1])
        beyond_ms = horizon_ms - self.last_seen_ms
        if count == len(self.unread) and self.has_more:
            density = density_of(self.unread)
            records += density.records_per_ms * beyond_ms
            size += density.bytes_per_ms * beyond_ms
        return records, size
