"""The stream's true history, as its own ledger tells it; nothing here asks the connector."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinesis_source.core.hashkeys import HashKeyRange
from kinesis_source.testing import Ledger, LedgerShard, Record


@dataclass(frozen=True, slots=True)
class TrueShard:
    """One shard of the ledger; records are named by their index in it."""

    shard_id: str
    parent_ids: tuple[str, ...]
    hash_keys: HashKeyRange
    created_ms: int
    closed_ms: int | None
    records: Sequence[Record]
    #: How many records, from the front, can no longer be read, and whether the shard is gone.
    trimmed: int
    expired: bool

    def index_of(self, sequence_number: int) -> int | None:
        """Index of the record with this number, None if there is none."""
        index = bisect_left(self.records, sequence_number, key=lambda r: r.sequence_number)
        if index < len(self.records) and self.records[index].sequence_number == sequence_number:
            return index
        return None

    def index_after(self, sequence_number: int) -> int:
        """Index of the first record past this number, whether or not a record has it."""
        return bisect_right(self.records, sequence_number, key=lambda r: r.sequence_number)

    def index_at_time(self, time_ms: int) -> int:
        """Index of the first record, in the shard's order, that arrived at `time_ms` or later."""
        for index, record in enumerate(self.records):
            if record.arrival_ms >= time_ms:
                return index
        return len(self.records)


class Truth:
    """All shards ever and their records, parents before children.

    `read_ledger` is asked again only after `changed()`: call that with every put and reshard, and
    when records may have been trimmed.
    """

    def __init__(self, read_ledger: Callable[[], Ledger]) -> None:
        self._read_ledger = read_ledger
        self._shards: dict[str, TrueShard] | None = None
        self._ancestors: dict[str, frozenset[str]] = {}
        #: Sequence number → how many puts came before, for records that their key placed.
        self.put_order: dict[int, int] = {}
        #: Sequence number → when it was put, where that is not its arrival time.
        self.put_ms: dict[int, int] = {}

    def changed(self) -> None:
        self._shards = None

    @property
    def created_ms(self) -> int:
        """When the stream was made."""
        return self.shards()[0].created_ms

    def shard(self, shard_id: str) -> TrueShard:
        return self._by_id()[shard_id]

    def shards(self) -> list[TrueShard]:
        return list(self._by_id().values())

    def put_at_ms(self, record: Record) -> int:
        """When the record was put; its arrival time may be earlier."""
        return self.put_ms.get(record.sequence_number, record.arrival_ms)

    def kin(self, shard_id: str) -> set[str]:
        """The shard, its ancestors and its descendants."""
        return {shard_id, *self.ancestors(shard_id), *self.descendants(shard_id)}

    def open_shards(self) -> list[TrueShard]:
        return [shard for shard in self.shards() if shard.closed_ms is None]

    def ancestors(self, shard_id: str) -> frozenset[str]:
        """Parents, their parents, and so on."""
        known = self._ancestors.get(shard_id)
        if known is None:
            parents = self.shard(shard_id).parent_ids
            known = frozenset(parents).union(*(self.ancestors(parent) for parent in parents))
            self._ancestors[shard_id] = known
        return known

    def descendants(self, shard_id: str) -> list[str]:
        return [s.shard_id for s in self.shards() if shard_id in self.ancestors(s.shard_id)]

    def depth(self) -> int:
        """The number of generations: shards in the longest line of descent."""
        depths: dict[str, int] = {}
        for shard in self.shards():
            depths[shard.shard_id] = 1 + max((depths[p] for p in shard.parent_ids), default=0)
        return max(depths.values())

    def _by_id(self) -> dict[str, TrueShard]:
        if self._shards is None:
            self._shards = {
                shard.shard_id: _true_shard(shard) for shard in self._read_ledger().shards.values()
            }
        return self._shards


def _true_shard(shard: LedgerShard) -> TrueShard:
    return TrueShard(
        shard.shard_id,
        shard.parents,
        shard.hash_range,
        shard.created_ms,
        shard.closed_ms,
        shard.records,
        shard.trimmed,
        shard.expired,
    )
