"""One shard read page by page from a position, with nothing skipped in silence.

Both the planner's probes and the tasks read through `ShardCursor`. Its rules:

* A position with a sequence number is opened AT that number. If that very record comes first it is
  dropped, and what follows is all there is. AFTER the number would say nothing of a gap: for a
  trimmed number the service has been seen to answer with the oldest record left, with empty pages
  for ever, and with a refusal.
* Anything else (another record, a refusal, the tip, empty pages without end) is a doubt. The
  oldest record left decides: at or before the position, nothing was trimmed; past it, the
  position was trimmed, and reading goes on from there. Whether that is loss is decided by the
  read-until time alone. Where that record itself comes to the horizon before the iterator AFTER the
  position has given anything, it is asked for again.
* A kept iterator whose place has come to the horizon may have been carried over a gap: so it is
  opened again at the place, and where it was walking over empty pages, what it then returns is
  believed if the record of the place is still there, since trimming goes in order. The retention
  period may be lowered at any time, to a day at the least: this holds for all places older than
  that.
* AT_TIMESTAMP means the first record with that arrival time or a later one. An iterator that found
  none and waited would also return what arrives then with an earlier time, and a task's new
  iterator would not: so such a first record is taken only from a new one.
* The end of a shard is a complete answer without NextShardIterator that carries ChildShards or,
  without them, a second iterator after the last record that also ends.
* Only MillisBehindLatest 0 is the tip; an empty page is not.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from kinesis_source.aws.client import IteratorStart, KinesisClient, RecordsPage
from kinesis_source.aws.decode import Record
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.loss import Loss
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import AfterSequenceNumber, AtTimestamp, Position, ShardEnd
from kinesis_source.core.probes import Reached, SeenRecord
from kinesis_source.errors import (
    ExpiredIteratorError,
    InvalidArgumentError,
    TransientServiceError,
)

logger = logging.getLogger(__name__)

#: How often one `next_page` opens an iterator before it gives up for now.
_OPENINGS = 6
#: Empty pages before an iterator AT a known record that has not come is doubted.
_EMPTY_PAGES_AT_RECORD = 10
#: The same for an iterator AFTER a record; about 250 pages were counted on an idle shard.
_EMPTY_PAGES_AFTER_RECORD = 400
#: Pages in which a second iterator must end to confirm the end of a shard.
_PAGES_TO_CONFIRM_END = 3
#: The estimate of the service's clock may be a second behind it (whole-second Date headers).
CLOCK_ERROR_MS = 1_000
#: The shortest retention period that a stream can be given.
LEAST_RETENTION_MS = 24 * 3_600_000
#: Proofs that are outlived before they prove anything, until the place is taken for trimmed.
_PROOFS = 3
#: Iterators at a time that are given up for what arrived late.
_MOST_LATE_ARRIVALS = 3
#: Nothing left and no next iterator, but no ChildShards either: odd answers before it is believed.
_ODD_ENDS = 3


class _Proof(Enum):
    """What the first records of an iterator have still to show."""

    PLACE = auto()  # opened AT the record of the place: that very record must come first
    OLDEST = auto()  # opened at the oldest record left: is it past the place?
    AFTER = auto()  # opened AFTER the record of the place, which was just seen not to be trimmed


@dataclass(frozen=True, slots=True)
class CursorPage:
    """`records`: after the cursor's place, in sequence order, never one before it.
    `asked_ms`: the service's clock before the call, None if unknown.
    `has_child_shards`: the end is certain; without it a second iterator ended too."""

    records: list[Record]
    reached: Reached
    asked_ms: int | None
    has_child_shards: bool = False


class ShardCursor:
    """One caller at a time. Holds a shard iterator, no thread and no connection of its own."""

    def __init__(
        self,
        client: KinesisClient,
        guard: StreamGuard,
        shard_id: str,
        place: TrackedShard,
        on_loss: Callable[[Loss], None],
        first_record: int | None = None,
    ) -> None:
        """`place`: where to begin, not SHARD_END. `on_loss` raises, or returns to go on with the
        oldest record left. `first_record`: the number of the first record after the position where
        that has been seen before; opening AT it spares the walk over a gap."""
        if isinstance(place.position, ShardEnd):
            raise ValueError(f"{shard_id} is finished; there is nothing to read")
        self.shard_id = shard_id
        #: Everything that arrived before it lies before the place; None if that is not known.
        self.read_until_ms = place.read_until_ms
        #: How many iterators were opened.
        self.openings = 0
        #: How often a walk over empty pages was lost with its iterator, and began again.
        self.lost_walks = 0
        self._client = client
        self._guard = guard
        self._on_loss = on_loss
        self._start = place.position
        self._read = _sequence_number(place.position)  # the last record read
        self._first_record = first_record
        self._hint = first_record
        self._iterator: str | None = None
        self._unproven: _Proof | None = None
        self._proof_ms = 0  # arrival time of the oldest record left, when that proved the place
        self._outlived_proofs = 0
        self._empty_pages = 0
        self._odd_ends = 0
        self._is_new = False  # the iterator has not been used yet
        self._late_arrivals = 0
        self._has_moved = False  # the last page had records past the place
        self._held_page: RecordsPage | None = None  # fetched, and still to be believed
        self._pages_to_confirm_end = 0
        self._end: CursorPage | None = None

    @property
    def position(self) -> Position:
        """The place read to."""
        return self._start if self._read is None else AfterSequenceNumber(self._read)

    def next_page(self, limit: int) -> CursorPage:
        """One page of at most `limit` records (plus none that was read before): usually one call of
        the service, a few where an iterator must be opened or a doubt settled. A page may be empty
        with `Reached.MORE`.

        Raises `TransientServiceError` (call again later; nothing is skipped),
        `ResourceNotFoundError`, what `on_loss` raises, and what `StreamGuard.check` raises.
        """
        for _ in range(_OPENINGS):
            if self._end is not None:
                return self._end
            self._heed_age()
            asked_ms = self._client.service_clock.now_ms()
            try:
                if self._iterator is None:
                    self._open()
                    self._heed_age_of_start()
                assert self._iterator is not None
                page = self._held_page or self._client.get_records(
                    self.shard_id, self._iterator, limit
                )
                delivered = self._take(page, asked_ms)
            except ExpiredIteratorError:
                self._iterator = None
                self.lost_walks += bool(self._empty_pages)
                continue
            except InvalidArgumentError:
                self._guard.check()
                self._doubt_refusal()
                continue
            if delivered is not None:
                return delivered
        raise TransientServiceError(
            f"{self.shard_id}: none of {_OPENINGS} shard iterators in a row could be used",
            operation="GetShardIterator",
            shard_id=self.shard_id,
        )

    def move_to(self, record: Record, next_iterator: str | None) -> None:
        """Go on after `record`, a record past the place; `next_iterator` begins right after it."""
        self._advance(record)
        self._iterator = next_iterator
        self._unproven = None

    # Opening

    def _open(self) -> None:
        if self._guard.retention_ms is None:
            self._guard.check()
        if self._unproven is None and self._opens_at is not None:
            self._unproven = _Proof.PLACE
        self._held_page = None  # of another iterator
        self._iterator = self._client.get_shard_iterator(self.shard_id, self._iterator_start())
        self.openings += 1
        self._is_new = True

    @property
    def _opens_at(self) -> int | None:
        """The record that an iterator for the place is opened AT; None for a place without one."""
        return self._hint if self._hint is not None else self._read

    def _iterator_start(self) -> IteratorStart:
        match self._unproven:
            case _Proof.OLDEST:
                return IteratorStart.trim_horizon()
            case _Proof.AFTER if self._read is not None:
                return IteratorStart.after_sequence_number(self._read)
        if self._opens_at is not None:
            return IteratorStart.at_sequence_number(self._opens_at)
        if isinstance(self._start, AtTimestamp):
            return IteratorStart.at_timestamp(self._start.timestamp_ms)
        return IteratorStart.trim_horizon()

    # Age

    def _is_older_than(self, age_ms: int | None) -> bool:
        return self.read_until_ms is not None and self._is_older(self.read_until_ms, age_ms)

    def _is_older(self, time_ms: int, age_ms: int | None) -> bool:
        now_ms = self._client.service_clock.now_ms()
        return (
            now_ms is not None and age_ms is not None and time_ms < now_ms - age_ms + CLOCK_ERROR_MS
        )

    def _may_have_skipped(self, page: RecordsPage) -> bool:
        """True for records that a kept iterator may have found behind a gap: its place is old
        enough to have been trimmed since it was proven, and is no longer there."""
        if not page.records or self._read is None or not self._is_older_than(LEAST_RETENTION_MS):
            return False
        # If the service refuses for now, the page is kept: to fetch it again would use up as much
        # of the shard's rate as there is.
        self._held_page = page
        start = IteratorStart.at_sequence_number(self._read)
        try:
            iterator = self._client.get_shard_iterator(self.shard_id, start)
            records = self._client.get_records(self.shard_id, iterator, 1).records
        except (InvalidArgumentError, ExpiredIteratorError):
            records = []
        self._held_page = None
        return not records or records[0].sequence_number != self._read

    def _has_outlived_its_proof(self) -> bool:
        """True if the place may have been trimmed since the oldest record left proved that it was
        there: that record is as old as the horizon by now, and so is the read-until time."""
        if not self._is_older(self._proof_ms, LEAST_RETENTION_MS):
            return False
        self._guard.check()
        oldest_ms = max(self._proof_ms, self.read_until_ms or 0)
        return self._is_older(oldest_ms, self._guard.retention_ms)

    def _heed_age(self) -> None:
        """Before a page: a kept iterator whose place may be at the horizon proves it anew."""
        if self._opens_at is None:
            if self._iterator is not None:
                self._heed_age_of_start()
        elif self._has_moved and self._is_older_than(LEAST_RETENTION_MS):
            self._iterator, self._has_moved = None, False

    def _heed_age_of_start(self) -> None:
        """A place without a record has nothing to prove itself by: its read-until time decides."""
        if self._opens_at is None and self._is_older_than(LEAST_RETENTION_MS):
            self._guard.check()
            if self._is_older_than(self._guard.retention_ms):
                self._report_loss("the place where reading was to begin has been trimmed")

    # Doubt

    def _doubt(self) -> None:
        self._iterator, self._empty_pages = None, 0
        if self._hint is not None:
            self._hint = None  # begin with the place itself
            self._unproven = None
        else:
            self._unproven = _Proof.OLDEST

    def _doubt_refusal(self) -> None:
        """The service refused the iterator or what it was opened at; the stream is the same."""
        if self._unproven in (_Proof.PLACE, _Proof.AFTER):
            self._doubt()
        elif self._iterator is not None:
            self._iterator = None
        else:
            raise TransientServiceError(
                f"GetShardIterator refused {self._iterator_start()} for {self.shard_id}",
                operation="GetShardIterator",
                shard_id=self.shard_id,
            )

    def _take(self, page: RecordsPage, asked_ms: int | None) -> CursorPage | None:
        """What `page` proves, then its records; None if another iterator must be opened."""
        is_new, self._is_new = self._is_new, False
        first = page.records[0].sequence_number if page.records else None
        walking = first is None and page.next_iterator is not None and page.millis_behind > 0
        self._empty_pages = self._empty_pages + 1 if walking else 0
        if not walking:
            self.lost_walks = 0
        match self._unproven:
            case _Proof.PLACE if walking and self._empty_pages <= _EMPTY_PAGES_AT_RECORD:
                return self._walk_on(page, asked_ms)
            case _Proof.PLACE if first != self._opens_at:
                self._doubt()
                return None
            case _Proof.OLDEST if walking:
                return self._walk_on(page, asked_ms)
            case _Proof.OLDEST if (
                first is not None and self._read is not None and first <= self._read
            ):
                self._unproven, self._iterator, self._empty_pages = _Proof.AFTER, None, 0
                self._proof_ms = page.records[0].arrival_ms
                return None
            case _Proof.OLDEST if first is None and self._is_odd_end(page):
                self._iterator = None
                return None
            case _Proof.OLDEST:
                self._accept_trimmed()
            case _Proof.AFTER if walking and self._empty_pages > _EMPTY_PAGES_AFTER_RECORD:
                self._doubt()
                return None
            case _Proof.AFTER if walking:
                return self._walk_on(page, asked_ms)
            case _Proof.AFTER if self._has_outlived_its_proof():
                self._outlived_proofs += 1
                if self._outlived_proofs < _PROOFS:
                    self._unproven, self._iterator = _Proof.OLDEST, None
                    return None
                self._accept_trimmed()
            case None if not is_new and self._comes_before_the_start(page):
                self._iterator = None
                self._late_arrivals += 1
                return None
            case None if self._may_have_skipped(page):
                self._doubt()
                return None
        self._unproven = None
        return self._deliver(page, asked_ms)

    def _comes_before_the_start(self, page: RecordsPage) -> bool:
        """True for a first record that arrived before the time at which reading starts; not again
        and again, in case the service understands that time otherwise."""
        match self._start:
            case AtTimestamp(timestamp_ms) if self._read is None and page.records:
                early = page.records[0].arrival_ms < timestamp_ms
                return early and self._late_arrivals < _MOST_LATE_ARRIVALS
        return False

    def _is_odd_end(self, page: RecordsPage) -> bool:
        """An empty page that is neither the tip nor surely the end, and has not come often."""
        if page.next_iterator is not None or page.has_child_shards:
            return False
        self._odd_ends += 1
        return self._odd_ends < _ODD_ENDS

    def _walk_on(self, page: RecordsPage, asked_ms: int | None) -> CursorPage:
        self._iterator = page.next_iterator
        return CursorPage([], Reached.MORE, asked_ms)

    def _accept_trimmed(self) -> None:
        """The record of the place is gone, and all before it."""
        self._guard.check()
        if self.read_until_ms is None or self._is_older_than(self._guard.retention_ms):
            self._report_loss("the position has been trimmed")

    def _report_loss(self, reason: str) -> None:
        self._on_loss(
            Loss(
                stream=self._client.stream.name,
                shard_id=self.shard_id,
                position=self.position,
                reason=reason,
                read_until_ms=self.read_until_ms,
                until_ms=self._guard.told_until_ms,
            )
        )
        # All before the end of that span was told, all after it is promised. It lies before what
        # was read if the retention period was raised since.
        told_ms = self._guard.told_until_ms or 0
        self.read_until_ms, self._first_record = max(self.read_until_ms or 0, told_ms), None

    # Delivery

    def _deliver(self, page: RecordsPage, asked_ms: int | None) -> CursorPage:
        self._held_page = None
        records = _after(page.records, self._read)
        self._has_moved = bool(records)
        if records:
            self._check_first(records[0])
            self._advance(records[-1])
        self._iterator = page.next_iterator
        if page.next_iterator is not None:
            remaining = 0 if records else max(0, self._pages_to_confirm_end - 1)
            self._pages_to_confirm_end = remaining
            reached = Reached.TIP if page.millis_behind == 0 else Reached.MORE
        elif page.has_child_shards or (self._pages_to_confirm_end and _shows_nothing_more(page)):
            reached = Reached.END
            if self._first_record is not None:
                self._report_first_record_gone()
            self._end = CursorPage([], reached, asked_ms, page.has_child_shards)
        else:
            logger.debug("%s: NextShardIterator is missing; asking again", self.shard_id)
            self._pages_to_confirm_end = _PAGES_TO_CONFIRM_END
            reached = Reached.MORE
        return CursorPage(records, reached, asked_ms, page.has_child_shards)

    def _check_first(self, record: Record) -> None:
        """A record that was seen after the position must still be the first."""
        if self._first_record is not None and record.sequence_number > self._first_record:
            self._report_first_record_gone()

    def _report_first_record_gone(self) -> None:
        self._guard.check()
        self._report_loss("records seen when the batch was planned have been trimmed")

    def _advance(self, record: Record) -> None:
        self._read = record.sequence_number
        self._hint = self._first_record = None
        self.read_until_ms = max(self.read_until_ms or 0, record.arrival_ms)


def _shows_nothing_more(page: RecordsPage) -> bool:
    """Also a page that holds nothing but the record it was opened at may be cut off by its size."""
    return not page.records or page.millis_behind == 0


def seen(record: Record) -> SeenRecord:
    """A record as the planner keeps it: without its data."""
    return SeenRecord(record.sequence_number, record.arrival_ms, len(record.Data))


def _sequence_number(position: Position) -> int | None:
    return position.sequence_number if isinstance(position, AfterSequenceNumber) else None


def _after(records: list[Record], read: int | None) -> list[Record]:
    """The records past `read`; `records` are in sequence order."""
    if read is None or not records or records[0].sequence_number > read:
        return records
    return records[bisect_right(records, read, key=lambda r: r.sequence_number) :]
