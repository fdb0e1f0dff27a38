"""One stream: its shards, their lineage and their records. Pure state: no lock, clock or I/O.

Rules:

* A shard's records are kept for ever in `Shard.records`, as the ledger; retention only moves
  `Shard.horizon`, the index of the first record that can still be read. A place in a shard is
  an index into that list, so a place that was trimmed simply moves up to the horizon.
* Retention removes a prefix: it stops at the first record young enough, so a record that
  arrived out of order never vanishes before its time.
* A closed shard whose retention has passed since it closed has expired: it is as if absent.
* A child's sequence numbers start above everything in its parents, also when they are created
  within the same second.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from typing import Literal, NamedTuple

from kinesis_source.core.hashkeys import MAX_HASH_KEY, HashKeyRange
from kinesis_source.testing.sequence_numbers import END_INDEX, SequenceNumbers, SequenceParts

MAX_PAGE_RECORDS = 10_000
MAX_PAGE_BYTES = 10 * 1024 * 1024
_HOUR_MS = 3_600_000
_MAX_GAP = 4

TrimmedAnswer = Literal["horizon", "spin", "refuse", "random"]


class Record(NamedTuple):
    """A record as the stream accepted it. `partition_key` is None where the producer gave none."""

    shard_id: str
    sequence_number: int
    partition_key: str | None
    data: bytes
    arrival_ms: int

    @property
    def size(self) -> int:
        """Bytes that count against the limits: data and key."""
        key = self.partition_key
        return len(self.data) + (len(key.encode()) if key else 0)


class Shard:
    """A shard and everything it ever accepted."""

    def __init__(
        self,
        index: int,
        hash_range: HashKeyRange,
        parents: tuple[Shard, ...],
        created_ms: int,
        created_s: int,
        numbers: SequenceNumbers,
    ) -> None:
        self.index = index
        self.shard_id = f"shardId-{index:012d}"
        self.hash_range = hash_range
        self.parents = parents
        self.children: list[Shard] = []
        self.created_ms = created_ms
        self.created_s = created_s
        self.closed_ms: int | None = None
        self.starting = numbers.encode(SequenceParts(created_s, 0, created_s, index))
        self.ending: int | None = None
        #: Retention has passed since it closed.
        self.expired = False
        self.records: list[Record] = []
        self.horizon = 0
        self.last_index = 0
        #: The records as JSON, filled by the HTTP face when first read; empty until then.
        self.fragments: list[bytes] = []
        self._size_up_to: list[int] = []
        self._latest_arrival_up_to: list[int] = []

    def append(self, record: Record, record_index: int) -> None:
        self.last_index = record_index
        self.records.append(record)
        self.fragments.append(b"")
        sizes, arrivals = self._size_up_to, self._latest_arrival_up_to
        sizes.append((sizes[-1] if sizes else 0) + record.size)
        arrivals.append(max(arrivals[-1], record.arrival_ms) if arrivals else record.arrival_ms)

    def page_end(self, start: int, limit: int) -> int:
        """Index after the last record of a page from `start`: at most `limit` records and
        10 MiB. No record is larger than that, so there is one on it if there is one at all."""
        end = min(start + limit, len(self.records))
        if end <= start + 1:
            return end
        before = self._size_up_to[start - 1] if start else 0
        return bisect_right(self._size_up_to, before + MAX_PAGE_BYTES, start, end)

    def page_bytes(self, start: int, end: int) -> int:
        if end <= start:
            return 0
        return self._size_up_to[end - 1] - (self._size_up_to[start - 1] if start else 0)

    def index_at(self, sequence_number: int) -> int:
        """Index of the first record with this sequence number or a later one."""
        return bisect_left(self.records, sequence_number, key=_sequence_number)

    def index_at_time(self, time_ms: int) -> int:
        """Index of the first record, trimmed or not, that arrived at `time_ms` or later."""
        return bisect_left(self._latest_arrival_up_to, time_ms)

    def trim(self, cutoff_ms: int) -> None:
        """Records that arrived before `cutoff_ms`, up to the first that did not, are gone."""
        records, horizon = self.records, self.horizon
        while horizon < len(records) and records[horizon].arrival_ms < cutoff_ms:
            horizon += 1
        self.horizon = horizon

    def closed_by(self, time_ms: int) -> bool:
        return self.closed_ms is not None and self.closed_ms <= time_ms


class RecordsPage(NamedTuple):
    """The records of one GetRecords answer: those of a shard from `start` up to before `end`."""

    shard: Shard
    start: int
    end: int


def _sequence_number(record: Record) -> int:
    return record.sequence_number


class Stream:
    """A stream and all its shards, expired ones too."""

    def __init__(
        self,
        name: str,
        arn: str,
        uid: int,
        shard_count: int,
        created_ms: int,
        rng: random.Random,
        *,
        sequence_digits: Literal[55, 56] = 56,
        retention_hours: int = 24,
        max_record_kib: int = 1024,
        null_keys: bool = False,
        trimmed_answer: TrimmedAnswer | None = None,
    ) -> None:
        self.name = name
        self.arn = arn
        self.uid = uid
        self.created_ms = created_ms
        self.retention_hours = retention_hours
        self.max_record_kib = max_record_kib
        self.null_keys = null_keys
        self.trimmed_answer = trimmed_answer
        self.forced_status: str | None = None
        self.creating_until_ms = created_ms
        self.updating_until_ms = created_ms
        self.deleted_from_ms: int | None = None
        #: For how many more listings a shard is left out, or looks open though closed.
        self.hidden: dict[str, int] = {}
        self.looks_open: dict[str, int] = {}
        #: Empty pages before the first record of a fresh iterator: in all, or for each iterator.
        self.empty_pages: dict[str, int] = {}
        self.empty_pages_each: dict[str, int] = {}
        self._rng = rng
        self._numbers = SequenceNumbers(created_ms // 1000, sequence_digits)
        self.shards: list[Shard] = []
        self.open: list[Shard] = []
        width = (MAX_HASH_KEY + 1) // shard_count
        for index in range(shard_count):
            last = index == shard_count - 1
            end = MAX_HASH_KEY if last else width * (index + 1) - 1
            self._add_shard(HashKeyRange(width * index, end), (), created_ms)

    @property
    def retention_ms(self) -> int:
        return self.retention_hours * _HOUR_MS

    def status(self, now_ms: int) -> str:
        if self.forced_status is not None:
            return self.forced_status
        if self.deleted_from_ms is not None:
            return "DELETING"
        if now_ms < self.creating_until_ms:
            return "CREATING"
        return "UPDATING" if now_ms < self.updating_until_ms else "ACTIVE"

    # Shards

    def shard(self, shard_id: str, now_ms: int) -> Shard | None:
        """The shard, trimmed to `now_ms`; None if unknown or expired."""
        prefix, _, digits = shard_id.partition("-")
        if prefix != "shardId" or not digits.isdecimal() or int(digits) >= len(self.shards):
            return None
        return self.shard_by_index(int(digits), now_ms)

    def shard_by_index(self, index: int, now_ms: int) -> Shard | None:
        shard = self.shards[index]
        return None if self.trim(shard, now_ms) else shard

    def trim(self, shard: Shard, now_ms: int) -> bool:
        """Apply retention; True if the shard has expired altogether."""
        cutoff_ms = now_ms - self.retention_ms
        if shard.expired or (shard.closed_ms is not None and shard.closed_ms < cutoff_ms):
            shard.expired = True
            shard.horizon = len(shard.records)
            return True
        shard.trim(cutoff_ms)
        return False

    def change_retention(self, hours: int, now_ms: int) -> None:
        """What is trimmed or expired by now stays so."""
        for shard in self.shards:
            self.trim(shard, now_ms)
        self.retention_hours = hours

    def split(self, parent: Shard, at: int, now_ms: int) -> tuple[Shard, Shard]:
        """`at` is the first hash key of the second child."""
        low, high = parent.hash_range.start, parent.hash_range.end
        self._close(parent, now_ms)
        return (
            self._add_shard(HashKeyRange(low, at - 1), (parent,), now_ms),
            self._add_shard(HashKeyRange(at, high), (parent,), now_ms),
        )

    def merge(self, first: Shard, second: Shard, now_ms: int) -> Shard:
        """`second` begins at the hash key after `first`."""
        self._close(first, now_ms)
        self._close(second, now_ms)
        union = HashKeyRange(first.hash_range.start, second.hash_range.end)
        return self._add_shard(union, (first, second), now_ms)

    def rescale(self, count: int, now_ms: int) -> None:
        """Uniform ranges: every open shard is cut at the new borders, then the pieces within
        each new range are merged. Most of the shards made on the way are closed at once, as
        the API reference warns of UpdateShardCount."""
        width = (MAX_HASH_KEY + 1) // count
        borders = [width * number for number in range(1, count)]
        for border in borders:
            shard = self.shard_for(border)
            if shard.hash_range.start != border:
                self.split(shard, border, now_ms)
        for start in (0, *borders):
            shard = self.shard_for(start)
            end = MAX_HASH_KEY if start == width * (count - 1) else start + width - 1
            while shard.hash_range.end < end:
                shard = self.merge(shard, self.shard_for(shard.hash_range.end + 1), now_ms)

    def shard_for(self, hash_key: int) -> Shard:
        """The open shard that takes this hash key."""
        return self.open[bisect_right(self.open, hash_key, key=_first_key) - 1]

    def _close(self, shard: Shard, now_ms: int) -> None:
        shard.closed_ms = now_ms
        shard.ending = self._numbers.encode(
            SequenceParts(shard.created_s, END_INDEX, now_ms // 1000, shard.index)
        )
        self.open.remove(shard)

    def _add_shard(
        self, hash_range: HashKeyRange, parents: tuple[Shard, ...], now_ms: int
    ) -> Shard:
        created_s = max([now_ms // 1000, *(parent.created_s + 1 for parent in parents)])
        shard = Shard(len(self.shards), hash_range, parents, now_ms, created_s, self._numbers)
        self.shards.append(shard)
        for parent in parents:
            parent.children.append(shard)
        self.open.insert(bisect_right(self.open, hash_range.start, key=_first_key), shard)
        return shard

    # Records

    def put(self, shard: Shard, data: bytes, partition_key: str | None, arrival_ms: int) -> Record:
        """Append to an open shard; the new number leaves a gap of a few to the last one."""
        index = shard.last_index + 1 + self._rng.randrange(_MAX_GAP)
        number = self._numbers.encode(
            SequenceParts(shard.created_s, index, max(arrival_ms, 0) // 1000, shard.index)
        )
        record = Record(shard.shard_id, number, partition_key, data, arrival_ms)
        shard.append(record, index)
        return record

    def any_open_shard(self) -> Shard:
        """Where a record without a key goes."""
        return self._rng.choice(self.open)

    def parse_sequence_number(self, number: int) -> SequenceParts | None:
        return self._numbers.decode(number)


def _first_key(shard: Shard) -> int:
    return shard.hash_range.start
