"""Where a batch ends in one shard: decided before any task runs, from what the probes saw.

An end is a real record's sequence number, inclusive, or SHARD_END. Reading up to it twice gives
the same records, so replay, retry, speculation and a second action are all safe.

* The last record of a page is always a valid end; at the tip it is the exact one.
* A closed shard within the limit ends at SHARD_END without more requests.
* Where much lies behind the page, `JumpSearch` looks for a later record by its arrival time. What
  it finds is a record of the shard, so arrival times out of order change the size of a batch,
  never what is in it.
* A position without a sequence number ends only at or past the first record that its own iterator
  returned, which is why a shard of which no record was seen stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import SHARD_END, AfterSequenceNumber
from kinesis_source.core.probes import Reached, SeenRecord, ShardView, density_of

#: A jump aims this far before now: with less the answer is often empty.
JUMP_MARGIN_MS = 200
#: Iterators that one jump may open in a batch; each is one GetShardIterator and one GetRecords.
JUMP_TRIES = 3
#: Traffic this many times as dense as at the start of the slice makes a jump shorter.
_SWELLING = 1.5


@dataclass(frozen=True, slots=True)
class End:
    """`place`: the shard's entry in the batch's end offset. `exact`: nothing more was there."""

    place: TrackedShard
    record: SeenRecord | None = None


@dataclass(frozen=True, slots=True)
class Jump:
    """Look for a later end by time; `fallback` is the end if nothing better is found."""

    fallback: End


def choose_end(view: ShardView, horizon_ms: int | None) -> End | Jump | None:
    """The end of the batch in one shard; None if it stays where it is."""
    count = view.seen_until(horizon_ms)
    if not view.unread:
        return finish(view) if view.reached is Reached.END else None
    if count == 0:
        return None
    record = view.unread[count - 1]
    if count < len(view.unread):
        return end_at(view, record)
    if view.target is not None and view.reached is not Reached.MORE:
        return end_at(view, record)
    if view.target is not None and horizon_ms is None:
        return end_at(view, view.target)
    if view.reached is Reached.END or (view.closed and _takes_all(view, horizon_ms)):
        return finish(view)
    if view.reached is Reached.TIP:
        return end_at(view, record, view.open_until_ms)
    return Jump(fallback=end_at(view, record))


def finish(view: ShardView) -> End:
    """SHARD_END. The read-until time is that of the last record known, never later: the children
    take it over, and they have records from the moment the shard closed."""
    last = view.unread[-1].arrival_ms if view.unread else None
    return End(TrackedShard(SHARD_END, later(view.place.read_until_ms, last)))


def end_at(view: ShardView, record: SeenRecord, open_until_ms: int | None = None) -> End:
    """`open_until_ms`: a time when `record` was the tip of a shard that had not closed."""
    read_until_ms = later(later(view.place.read_until_ms, record.arrival_ms), open_until_ms)
    return End(TrackedShard(AfterSequenceNumber(record.sequence_number), read_until_ms), record)


class JumpSearch:
    """The search for a later end: aim at a time, take in the page found there, aim again.

    While `aim_ms` is not None the caller opens an iterator AT_TIMESTAMP `aim_ms` and hands what the
    first pages from it hold to `take`. Then `end` is the result.
    """

    def __init__(
        self,
        view: ShardView,
        jump: Jump,
        horizon_ms: int | None,
        now_ms: int,
        empty_from_ms: int | None = None,
    ) -> None:
        """`now_ms`: the service's clock. `empty_from_ms`: nothing was there from this time on when
        an earlier plan looked; after a burst and a long silence the search goes on below it."""
        self.end = jump.fallback
        #: The record whose page was taken as the end, if the jump found one.
        self.landed = False
        #: The earliest time from which on nothing was found; for the next plan.
        self.empty_from_ms = empty_from_ms
        self._view = view
        self._horizon_ms = horizon_ms
        self._tries = JUMP_TRIES
        self._low_ms = view.last_seen_ms
        latest_ms = now_ms - JUMP_MARGIN_MS
        self.aim_ms: int | None = self._aim(
            latest_ms if horizon_ms is None else min(latest_ms, horizon_ms)
        )

    def take(self, records: Sequence[SeenRecord], reached: Reached) -> None:
        """What an iterator at `aim_ms` returned; empty and MORE if the walk to it was too long."""
        assert self.aim_ms is not None
        aim_ms, self.aim_ms = self.aim_ms, None
        self._tries -= 1
        if not records and reached is Reached.MORE:
            return
        taken = self._up_to_horizon(records, aim_ms)
        if reached is Reached.END and len(taken) == len(records):
            self.end = finish(self._view)
            return
        if not taken:
            self.empty_from_ms = min(aim_ms, self.empty_from_ms or aim_ms)
            self.aim_ms = self._aim((self._low_ms + self.empty_from_ms) // 2)
            return
        last = taken[-1]
        if last.sequence_number <= self._view.unread[-1].sequence_number:
            return
        shorter_ms = self._shorter_aim(records, aim_ms)
        if shorter_ms is not None and self._tries:
            self.aim_ms = self._aim(shorter_ms)
            return
        self.landed = True
        self.end = end_at(self._view, last)
        if self.empty_from_ms is not None and last.arrival_ms >= self.empty_from_ms:
            self.empty_from_ms = None

    def _aim(self, at_ms: int) -> int | None:
        return at_ms if self._tries and at_ms > self._low_ms else None

    def _up_to_horizon(self, records: Sequence[SeenRecord], aim_ms: int) -> Sequence[SeenRecord]:
        """The records of the page that a batch may take: one past the horizon would drag the event
        times of the batch, and with them watermarks, over a gap that others have still to read."""
        if self._horizon_ms is None:
            return records
        # The first record at or after the aim is past it by the distance between two records.
        slack_ms = max(JUMP_MARGIN_MS, (aim_ms - self._low_ms) // 10)
        count = 0
        for record in records:
            if record.arrival_ms > self._horizon_ms + (slack_ms if count == 0 else 0):
                break
            count += 1
        return records[:count]

    def _shorter_aim(self, records: Sequence[SeenRecord], aim_ms: int) -> int | None:
        """Under a limit, where traffic has swelled: the aim that the density found here allows."""
        if self._horizon_ms is None or len(records) < 2:
            return None
        before = density_of(self._view.unread)
        here = density_of(records)
        swelling = here.records_per_ms / before.records_per_ms
        if before.bytes_per_ms:
            swelling = max(swelling, here.bytes_per_ms / before.bytes_per_ms)
        if swelling < _SWELLING:
            return None
        return self._low_ms + int((aim_ms - self._low_ms) / swelling)


def _takes_all(view: ShardView, horizon_ms: int | None) -> bool:
    return horizon_ms is None or (view.reached is Reached.TIP and horizon_ms >= view.last_seen_ms)


def later(one_ms: int | None, other_ms: int | None) -> int | None:
    """The later of two times, either of which may be unknown."""
    return max((t for t in (one_ms, other_ms) if t is not None), default=None)
