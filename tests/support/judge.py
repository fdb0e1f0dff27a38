"""The judge: after every step, is what was committed right? Decided from the true history alone.

Named invariants, each checked incrementally over the committed batches:

* `rows`       each shard's rows, batch after batch, are the ledger's records: the first one where
               the starting position allows it, then one by one, equal in every column. So nothing
               is lost, repeated, invented or out of order within a shard.
* `lineage`    a shard's records come in later batches than those of all its ancestors.
* `keys`       the records of one partition key come in the order in which they were put.
* `forward`    positions never go back, and a shard that has left the offset never returns.
* `ends`       an end is a record that was read, exactly; SHARD_END only for a closed shard with
               nothing left.
* `tracked`    no shard but the open ones, those being drained, their direct parents (also of those
               that have still to enter), and those that were finished by this very batch.
* `read until` nothing that was put before a shard's read-until time lies past its position, and a
               shard of which something was read, or a child of such a one, has such a time.
* `loss`       what is missing is gone from the stream, and an alarm said so.
* `false alarm` no alarm speaks of loss where there was none (`losses.py` has the rules for both).
* `complete`   (at the end) everything that the start promises has been read, or was lost and told.

`World` and `AvailableNow` add `progress`, `quiet` and `available now`.

The judge reads the offset's text as KINESIS offsets are documented, and never the connector's
lineage code.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.support.checkpoint import Checkpoint, Row, Sink
from tests.support.losses import Alarm, Losses
from tests.support.offset_rules import OffsetRules
from tests.support.offsets import (
    AFTER_SEQUENCE_NUMBER,
    SHARD_END,
    Entries,
    parse_entries,
)
from tests.support.starts import Promise, Start, promise
from tests.support.truth import Truth
from tests.support.verdict import Verdict

#: Columns of the connector's schema.
PARTITION_KEY, DATA, STREAM, SHARD_ID, SEQUENCE_NUMBER, ARRIVAL = range(6)


@dataclass(frozen=True, slots=True)
class Window:
    """The instants between which LATEST was pinned, in milliseconds since the epoch.

    `listing_disturbed`: listings did not show all shards meanwhile, so a start may have been
    resolved on older shards than the true ones: their children then come whole, which is more
    than was promised but never less.
    """

    from_ms: int
    to_ms: int
    listing_disturbed: bool = False


@dataclass
class ShardRead:
    """How far the committed batches have read one shard, as indexes into its ledger."""

    first: int
    next: int
    first_batch: int
    last_batch: int


@dataclass
class Judge:
    """Judges one query on one stream, from batch 0 on."""

    stream: str
    truth: Truth
    start: Start
    checkpoint: Checkpoint
    sink: Sink
    losses: Losses
    reads: dict[str, ShardRead] = field(default_factory=dict)
    #: Rows committed so far.
    rows: int = 0
    _judged: int = 0
    #: What was promised when the batch that is judged began.
    _begin: Entries = field(default_factory=dict)
    _window: Window = Window(0, 0)
    _key_order: dict[str, int] = field(default_factory=lambda: defaultdict(lambda: -1))
    #: How many records each shard had when the start was resolved.
    _had: dict[str, int] = field(default_factory=dict)
    _listing_disturbed: bool = False

    def __post_init__(self) -> None:
        self._rules = OffsetRules(self.truth, frozenset(self.start.shards))

    @property
    def _offset(self) -> Entries:
        """The end of the last batch judged, or the starts of batch 0."""
        return self._rules.offset

    def pinned(self, window: Window) -> None:
        """Batch 0 was logged just now; its start was resolved within `window`."""
        self._window = window
        self._had = {shard.shard_id: len(shard.records) for shard in self.truth.shards()}

    def check(self, listing_disturbed: bool = False) -> None:
        """Judge the batches committed since the last call. Raises `Verdict`.

        `listing_disturbed`: a listing may have lacked shards. A shard that has ended then stays in
        the offset until it is listed; `check_complete` knows no such excuse.
        """
        self._listing_disturbed = listing_disturbed
        while self.checkpoint.is_committed(self._judged):
            batch_id = self._judged
            self._begin = self._offset
            rows = self.sink.batches[batch_id]
            by_shard: dict[str, list[Row]] = defaultdict(list)
            for row in rows:
                by_shard[str(row[SHARD_ID])].append(row)
            must, may = self._promises()
            if batch_id == 0:
                self._begin = self._rules.offset = parse_entries(
                    self.checkpoint.offsets[0], "starts"
                )
            for shard_id, shard_rows in by_shard.items():
                self._check_rows(batch_id, shard_id, shard_rows, must, may)
            self._check_lineage(batch_id, by_shard)
            self._check_keys(batch_id, by_shard)
            self._check_offset(batch_id, self.checkpoint.offsets[batch_id], must)
            self.rows += len(rows)
            self._judged += 1

    def check_alarm(self, alarm: Alarm, now_ms: int) -> None:
        """Raises `Verdict` if the connector spoke of loss where there was none."""
        begin, planned = self._offset, self.checkpoint.offsets.get(self._judged)
        if not begin:
            begin = parse_entries(planned, "starts") if planned else self.start.named_numbers()
        end = parse_entries(planned) if planned is not None else {}
        reason = self.losses.check_alarm(alarm, begin, end, self._done(), now_ms)
        if reason is not None:
            raise Verdict("false alarm", f"{alarm}: {reason}")

    def check_complete(self) -> None:
        """Raises `Verdict` unless all that the start promises has been read, or was lost and
        told."""
        unread = self.unread()
        if unread:
            raise Verdict("complete", f"not read: {unread}; last offset {self._last_offset()}")
        self._begin = self._offset
        for shard_id, done in self._done().items():
            if self.losses.promises(shard_id):
                count = len(self.truth.shard(shard_id).records)
                self._check_missing("the end", shard_id, done, count)
        self._rules.check_at_rest()

    def unread(self) -> dict[str, int]:
        """Promised records not yet committed and still there, by shard."""
        left: dict[str, int] = {}
        for shard_id, done in self._done().items():
            shard = self.truth.shard(shard_id)
            count = len(shard.records) - max(done, shard.trimmed)
            if count > 0:
                left[shard_id] = count
        return left

    def most_records(self) -> int:
        """How many records may still be read, promised or not."""
        _, may = self._promises()
        left = 0
        for shard_id, first in may.items():
            read = self.reads.get(shard_id)
            left += len(self.truth.shard(shard_id).records) - (read.next if read else first)
        return left

    def is_idle_at_the_tip(self) -> bool:
        """Everything was read, and all open shards are tracked."""
        open_ids = {shard.shard_id for shard in self.truth.open_shards()}
        return not self.unread() and open_ids <= self._offset.keys()

    def oldest_read_until_ms(self) -> int | None:
        """The earliest read-until time of an unfinished shard in the last committed offset."""
        times = [e.read_until_ms for e in self._offset.values() if not e.finished]
        return min((time for time in times if time is not None), default=None)

    def _done(self) -> dict[str, int]:
        """By promised shard, how many of its records were read or are not promised."""
        must, _ = self._promises()
        return {
            i: self.reads[i].next if i in self.reads else self._first_promised(i, must)
            for i in must
        }

    def _first_promised(self, shard_id: str, must: Promise) -> int:
        """Index of the first record that has to be read."""
        count = len(self.truth.shard(shard_id).records)
        return max(must.get(shard_id, count), self.losses.gone_before(shard_id))

    def read_up_to(self, shard_id: str) -> int:
        """Index in the ledger up to which the shard was read; 0 if nothing was."""
        read = self.reads.get(shard_id)
        return read.next if read else 0

    def must_read_from(self) -> Promise:
        return self._promises()[0]

    def _promises(self) -> tuple[Promise, Promise]:
        must = promise(self.start, self.truth, self._window.to_ms)
        if self._window.listing_disturbed:
            return must, {shard.shard_id: 0 for shard in self.truth.shards()}
        may = promise(self.start, self.truth, self._window.from_ms)
        # A record put later but with an arrival time before the start is read by an iterator
        # opened earlier, and not by one opened later: both are right.
        return must, {i: min(first, self._had.get(i, 0)) for i, first in may.items()}

    def _check_rows(
        self, batch_id: int, shard_id: str, rows: list[Row], must: Promise, may: Promise
    ) -> None:
        read = self.reads.get(shard_id)
        if read is None:
            number = int(str(rows[0][SEQUENCE_NUMBER]))
            first = self.truth.shard(shard_id).index_of(number)
            if first is None:
                raise Verdict("rows", f"batch {batch_id}: {shard_id} has no record {number}")
            earliest, latest = may.get(shard_id), self._first_promised(shard_id, must)
            if first > latest:
                self._check_missing(f"batch {batch_id}", shard_id, latest, first, begun=False)
            if earliest is None or first < earliest:
                raise Verdict(
                    "rows",
                    f"batch {batch_id}: {shard_id} begins with its record {first}, "
                    f"promised was one between {earliest} and {latest}",
                )
            read = self.reads[shard_id] = ShardRead(first, first, batch_id, batch_id)
        for row in rows:
            found = self._index_or_none(shard_id, row)
            if found is not None and found > read.next:
                self._check_missing(f"batch {batch_id}", shard_id, read.next, found)
                read.next = found
            expected = self._row(shard_id, read.next)
            if row != expected:
                raise Verdict(
                    "rows",
                    f"batch {batch_id}: {shard_id} expected its record {read.next} {expected}, "
                    f"found {row} (record {self._index_or_none(shard_id, row)})",
                )
            read.next += 1
        read.last_batch = batch_id

    def _check_missing(
        self, when: str, shard_id: str, first: int, end: int, begun: bool = True
    ) -> None:
        """Records `first` to before `end` were passed over. `begun`: some before were read."""
        if first >= end:
            return
        if end > self.truth.shard(shard_id).trimmed:
            raise Verdict("rows", f"{when}: {shard_id} lacks its records {first} to {end - 1}")
        entry = self._begin.get(shard_id)
        if not begun and (entry is None or entry.read_until_ms is None):
            return
        reason = self.losses.untold(shard_id, first, end)
        if reason is not None:
            raise Verdict(
                "loss", f"{when}: {shard_id} silently lacks {first} to {end - 1}: {reason}"
            )

    def _row(self, shard_id: str, index: int) -> Row | None:
        records = self.truth.shard(shard_id).records
        if index >= len(records):
            return None
        record = records[index]
        return (
            record.partition_key,
            record.data,
            self.stream,
            shard_id,
            str(record.sequence_number),
            record.arrival_ms * 1000,
        )

    def _index_or_none(self, shard_id: str, row: Row) -> int | None:
        return self.truth.shard(shard_id).index_of(int(str(row[SEQUENCE_NUMBER])))

    def _check_lineage(self, batch_id: int, by_shard: dict[str, list[Row]]) -> None:
        for shard_id in by_shard:
            for ancestor in self.truth.ancestors(shard_id):
                read = self.reads.get(ancestor)
                if read is not None and read.last_batch >= self.reads[shard_id].first_batch:
                    raise Verdict(
                        "lineage",
                        f"batch {batch_id} has rows of {ancestor}, but its descendant {shard_id} "
                        f"has been read since batch {self.reads[shard_id].first_batch}",
                    )
            for descendant in self.truth.descendants(shard_id):
                read = self.reads.get(descendant)
                if read is not None and read.first_batch <= batch_id:
                    raise Verdict(
                        "lineage",
                        f"batch {batch_id} has rows of {shard_id}, but its descendant "
                        f"{descendant} has been read since batch {read.first_batch}",
                    )

    def _check_keys(self, batch_id: int, by_shard: dict[str, list[Row]]) -> None:
        shard_of_key: dict[str, str] = {}
        for shard_id, rows in by_shard.items():
            for row in rows:
                put = self.truth.put_order.get(int(str(row[SEQUENCE_NUMBER])))
                key = row[PARTITION_KEY]
                if put is None or not isinstance(key, str):
                    continue  # no key, or the producer chose the shard itself
                other = shard_of_key.setdefault(key, shard_id)
                if put <= self._key_order[key] or other != shard_id:
                    raise Verdict(
                        "keys",
                        f"batch {batch_id}: key {key!r}, put {put} in {shard_id} comes after put "
                        f"{self._key_order[key]} (in this batch also in {other})",
                    )
                self._key_order[key] = put

    def _check_offset(self, batch_id: int, text: str, must: Promise) -> None:
        after = parse_entries(text)
        first_promised = {i: self._first_promised(i, must) for i in after}
        self._rules.check(batch_id, after, self.reads, first_promised, self._listing_disturbed)
        for shard_id, entry in after.items():
            self._check_end(batch_id, shard_id, entry.place, must, shard_id in self.start.shards)
        self.losses.anchor(after)

    def _check_end(
        self, batch_id: int, shard_id: str, place: tuple[int, int], must: Promise, named: bool
    ) -> None:
        rank, value = place
        shard = self.truth.shard(shard_id)
        read = self.reads.get(shard_id)
        if rank == AFTER_SEQUENCE_NUMBER:
            end = shard.index_after(value)
            if read is not None and read.next < end <= shard.trimmed:
                self._check_missing(f"batch {batch_id}", shard_id, read.next, end)
                read.next = end
            if read is None:
                if not named and shard.index_after(value) > shard.trimmed:
                    raise Verdict("ends", f"batch {batch_id}: {shard_id} is after {value}, unread")
            elif value != shard.records[read.next - 1].sequence_number:
                raise Verdict(
                    "ends",
                    f"batch {batch_id}: {shard_id} ends after {value} (record "
                    f"{shard.index_of(value)}), read was up to record {read.next - 1}",
                )
        elif rank == SHARD_END:
            done = read.next if read else self._first_promised(shard_id, must)
            begun = read is not None
            count = len(shard.records)
            if done < count <= shard.trimmed:
                self._check_missing(f"batch {batch_id}", shard_id, done, count, begun)
            elif shard.closed_ms is None or done < count:
                raise Verdict(
                    "ends",
                    f"batch {batch_id}: {shard_id} is at SHARD_END (closed: {shard.closed_ms}) "
                    f"with {done} of {len(shard.records)} records read",
                )
        elif read is not None:
            raise Verdict("ends", f"batch {batch_id}: {shard_id} was read and is at {place}")

    def _last_offset(self) -> str | None:
        last = self.checkpoint.last_offset()
        return None if last is None else self.checkpoint.offsets[last]
