"""What the judge asks of the offsets alone: the invariants `forward`, `read until`, `tracked`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Set

from tests.support.offsets import (
    AFTER_SEQUENCE_NUMBER,
    AT_TIMESTAMP,
    SHARD_END,
    Entries,
    Entry,
)
from tests.support.truth import Truth
from tests.support.verdict import Verdict


class OffsetRules:
    """`offset` is the end of the last batch; before batch 0 set it to the starts."""

    def __init__(self, truth: Truth, named: frozenset[str]) -> None:
        """`named`: the shards that the start names."""
        self.truth = truth
        self.offset: Entries = {}
        self._named = named
        self._left: set[str] = set()

    def check(
        self,
        batch_id: int,
        after: Entries,
        reads: Container[str],
        first_promised: Mapping[str, int],
        listing_disturbed: bool,
    ) -> None:
        """A batch that ends at `after` was committed. `reads`: the shards of which something was
        read. `first_promised`: by shard, the index of the first record to be read."""
        before = self.offset
        for shard_id, entry in after.items():
            self._check_forward(batch_id, shard_id, before.get(shard_id), entry)
            self._check_read_until(batch_id, shard_id, entry, reads, first_promised[shard_id])
        for shard_id in before.keys() - after.keys():
            if not before[shard_id].finished and not self.truth.shard(shard_id).expired:
                raise Verdict("forward", f"batch {batch_id}: {shard_id} left the offset unfinished")
            self._left.add(shard_id)
        if batch_id == 0:
            before = {}  # what the start holds as finished is there for its children to see
        just_ended = {i for i, e in after.items() if e.finished and not _was_finished(before, i)}
        waiting = before.keys() if listing_disturbed else set()
        self._check_tracked(f"batch {batch_id}", after, just_ended | waiting)
        self.offset = after

    def check_at_rest(self) -> None:
        """Nothing has happened for a while, and listings are whole."""
        self._check_tracked("the end", self.offset, set())

    def _check_forward(
        self, batch_id: int, shard_id: str, before: Entry | None, entry: Entry
    ) -> None:
        if shard_id in self._left:
            raise Verdict("forward", f"batch {batch_id}: {shard_id} came back into the offset")
        if before is None:
            # It is new; its position was TRIM_HORIZON, and may be further within the same plan.
            return
        if entry.place < before.place:
            raise Verdict("forward", f"batch {batch_id}: {shard_id} went from {before} to {entry}")
        if (entry.read_until_ms or 0) < (before.read_until_ms or 0):
            raise Verdict("forward", f"batch {batch_id}: {shard_id} went from {before} to {entry}")

    def _check_read_until(
        self,
        batch_id: int,
        shard_id: str,
        entry: Entry,
        reads: Container[str],
        first_promised: int,
    ) -> None:
        shard = self.truth.shard(shard_id)
        if entry.read_until_ms is None:
            # Not where the start names it: its parents need not have been read before it.
            line = [shard_id] if shard_id in self._named else [shard_id, *shard.parent_ids]
            begun = [i for i in line if i in reads]
            if begun and not any(self.truth.shard(i).trimmed for i in (*begun, shard_id)):
                raise Verdict("read until", f"batch {batch_id}: {shard_id} has no such time")
            return
        kind, number = entry.place
        if kind == SHARD_END:
            return
        # What arrived before the start is nobody's, whatever is said of it.
        following = max(shard.trimmed, first_promised)
        if kind == AFTER_SEQUENCE_NUMBER:
            following = max(following, shard.index_after(number))
        elif kind == AT_TIMESTAMP:
            following = max(following, shard.index_at_time(number))
        if following < len(shard.records):
            put_ms = self.truth.put_at_ms(shard.records[following])
            if put_ms < entry.read_until_ms:
                raise Verdict(
                    "read until",
                    f"batch {batch_id}: {shard_id} claims to be read until {entry.read_until_ms}, "
                    f"but its record {following}, put at {put_ms}, is not read",
                )

    def _check_tracked(self, when: str, after: Entries, excused: Set[str]) -> None:
        ended = {i for i, entry in after.items() if entry.finished}
        # Open, being drained, or still to enter (a listing may not have shown it or its parents).
        live = {
            shard.shard_id
            for shard in self.truth.shards()
            if shard.shard_id not in ended and shard.shard_id not in self._left
            if shard.shard_id in after or not self.truth.ancestors(shard.shard_id).isdisjoint(after)
        }
        parents = {parent for i in live for parent in self.truth.shard(i).parent_ids}
        needless = after.keys() - live - parents - excused
        if needless:
            raise Verdict("tracked", f"{when} still tracks {sorted(needless)}, nobody's parents")


def _was_finished(before: Entries, shard_id: str) -> bool:
    return shard_id in before and before[shard_id].finished
