"""Which shards are tracked and which of them may be read: pure rules over listing and offset.

A shard **enters** the offset, always at TRIM_HORIZON, when

1. it is not tracked and is not an ancestor of a tracked shard;
2. every parent it names is at SHARD_END in the offset, or is an ancestor of a tracked shard, or is
   known to be expired: the service itself answered that it does not exist. That a listing lacks
   it proves nothing. And no ancestor of it is tracked and unfinished, as a start may name both
   a parent and one of its children;
3. no tracked shard other than its own ancestors overlaps its hash-key range; those known to be
   expired do not count.

While a tracked shard is neither known nor expired, nothing enters: the listing is not whole.

A SHARD_END entry **leaves** when the batch's start already held it and the tracked shards that
descend from it cover its range.

A tracked shard is **readable** in a batch when the batch's start holds it unfinished and no
unfinished tracked shard of that start is, or might be, its ancestor. So a child's records always
come in a later batch than those of all its parents.

Simpler rules ("enters when no listed parent is unfinished", "leaves when its listed children are
tracked") read shards again or lose them when a listing lags, misses a shard, or when a generation
in the middle has expired; tests/unit/core/test_lineage.py has a history for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kinesis_source.core.hashkeys import WHOLE_KEY_SPACE, covers
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import SHARD_END, TRIM_HORIZON, ShardEnd
from kinesis_source.core.shards import Shard

Tracked = Mapping[str, TrackedShard]


class Lineage:
    """The graph of the shards known so far; parents may be named without being known."""

    def __init__(self, shards: Mapping[str, Shard]) -> None:
        self.shards = shards
        self._children: dict[str, list[str]] = defaultdict(list)
        for shard in shards.values():
            for parent_id in shard.parent_ids:
                self._children[parent_id].append(shard.shard_id)

    def ancestors(self, shard_ids: Iterable[str]) -> set[str]:
        """All ancestors of `shard_ids`, as far as named; not the shards themselves."""
        found: set[str] = set()
        waiting = list(shard_ids)
        while waiting:
            shard = self.shards.get(waiting.pop())
            if shard is not None:
                new = [p for p in shard.parent_ids if p not in found]
                found.update(new)
                waiting.extend(new)
        return found

    def children(self, shard_id: str) -> list[str]:
        return self._children.get(shard_id, [])

    def descendants(self, shard_ids: Iterable[str], stop_at: Collection[str] = ()) -> set[str]:
        """All known descendants of `shard_ids`; does not go on below a shard of `stop_at`."""
        found: set[str] = set()
        waiting = [child for shard_id in shard_ids for child in self.children(shard_id)]
        while waiting:
            shard_id = waiting.pop()
            if shard_id not in found:
                found.add(shard_id)
                if shard_id not in stop_at:
                    waiting.extend(self.children(shard_id))
        return found

    def leaves(self) -> list[Shard]:
        """The shards that no known shard names as a parent."""
        return [s for s in self.shards.values() if not self.children(s.shard_id)]


@dataclass(frozen=True, slots=True)
class Entries:
    """What may enter now, and the shards of which the service must say whether they still exist
    before more can."""

    entering: dict[str, TrackedShard] = field(default_factory=dict)
    to_ask: frozenset[str] = frozenset()


def is_finished(shard: TrackedShard | None) -> bool:
    return shard is not None and isinstance(shard.position, ShardEnd)


def missing_shards(lineage: Lineage, tracked: Tracked, expired: Collection[str]) -> set[str]:
    """Tracked shards that neither a listing has shown nor the service has called expired."""
    return {i for i in tracked if i not in lineage.shards and i not in expired}


def plan_entries(lineage: Lineage, tracked: Tracked, expired: Collection[str]) -> Entries:
    """Which shards enter the offset; rules 1 to 3 above.

    `expired`: shards for which the service answered ResourceNotFound. Call again with the answers
    for `to_ask`, if there are any, and after a shard was finished.
    """
    if missing_shards(lineage, tracked, expired):
        return Entries()
    settled = lineage.ancestors(tracked)
    unfinished = {i for i in tracked if not is_finished(tracked[i])} - set(expired)
    waiting = lineage.descendants(unfinished)
    to_ask: set[str] = set()
    candidates: list[Shard] = []
    for shard in lineage.shards.values():
        if shard.shard_id in waiting or shard.shard_id in expired:
            continue
        if shard.shard_id in tracked or shard.shard_id in settled:
            continue
        parents = [
            p
            for p in shard.parent_ids
            if not is_finished(tracked.get(p)) and p not in settled and p not in expired
        ]
        if not parents:
            candidates.append(shard)
        elif all(p not in lineage.shards for p in parents):
            to_ask.update(parents)

    entering: dict[str, TrackedShard] = {}
    overlapping = _overlaps(lineage, tracked, candidates)
    # Oldest first, so that of two that exclude each other the ancestor wins; the service numbers
    # shards in the order in which it makes them.
    for shard in sorted(candidates, key=lambda s: s.shard_id):
        others = {i for i in overlapping[shard.shard_id] if i in tracked or i in entering}
        strangers = others - lineage.ancestors([shard.shard_id]) - set(expired)
        if not strangers:
            entering[shard.shard_id] = TrackedShard(
                TRIM_HORIZON, _read_until_of_entry(shard, tracked, settled, others, expired)
            )
        elif all(is_finished(tracked.get(i)) for i in strangers):
            # Either older shards than this one, which expire before its parents did, or younger
            # ones, and then this one was read long ago.
            to_ask.update(strangers)
        else:
            # It is older than what is being read, or has expired since it was listed.
            to_ask.add(shard.shard_id)
    return Entries(entering, frozenset(to_ask))


def plan_leaving(
    lineage: Lineage, start: Tracked, tracked: Tracked, expired: Collection[str]
) -> set[str]:
    """Which SHARD_END entries of `tracked` leave. `start`: the offset the batch begins with."""
    leaving: set[str] = set()
    whole = None
    for shard_id in tracked:
        if not is_finished(tracked[shard_id]) or not is_finished(start.get(shard_id)):
            continue
        if shard_id in expired:
            # Who descends from it may no longer be known: it goes once all is covered without it.
            if whole is None:
                rest = [lineage.shards[i] for i in tracked if i in lineage.shards]
                ranges = [s.hash_keys for s in rest if s.shard_id not in expired]
                whole = covers(ranges, WHOLE_KEY_SPACE)
            if whole:
                leaving.add(shard_id)
        elif shard_id in lineage.shards:
            heirs = lineage.descendants([shard_id], stop_at=tracked)
            ranges = [lineage.shards[i].hash_keys for i in heirs if i in tracked]
            if covers(ranges, lineage.shards[shard_id].hash_keys):
                leaving.add(shard_id)
    return leaving


def readable_shards(lineage: Lineage, start: Tracked, expired: Collection[str]) -> set[str]:
    """The shards of `start` that a batch from it may read.

    Empty while a tracked shard is missing, since it might be anyone's ancestor.
    """
    if missing_shards(lineage, start, expired):
        return set()
    unfinished = {i for i in start if not is_finished(start[i]) and i not in expired}
    known = [lineage.shards[i] for i in unfinished]
    waiting = lineage.descendants(unfinished) & unfinished
    overlapping = _overlaps(lineage, unfinished, known)
    for shard_id in unfinished - waiting:
        # An overlap means that one descends from the other. Where the listing does not show which
        # is the parent (a generation between them is hidden), neither is read.
        if overlapping[shard_id] - lineage.descendants([shard_id]):
            waiting.add(shard_id)
    return unfinished - waiting


def finished(shard: TrackedShard) -> TrackedShard:
    """The entry at SHARD_END; its read-until time stays, for its children to take over."""
    return TrackedShard(SHARD_END, shard.read_until_ms)


def inherited_times(lineage: Lineage, tracked: Tracked) -> dict[str, TrackedShard]:
    """Shards that were named by the start beside their parents, and of which nothing has been read
    yet, with the read-until time that they would have entered with: once all those parents are
    finished."""
    inherited: dict[str, TrackedShard] = {}
    for shard_id, place in tracked.items():
        shard = lineage.shards.get(shard_id)
        if shard is None or place != TrackedShard(TRIM_HORIZON):
            continue
        parents = [tracked[p] for p in shard.parent_ids if p in tracked]
        times = [p.read_until_ms for p in parents if p.read_until_ms is not None]
        if times and all(is_finished(p) for p in parents):
            inherited[shard_id] = TrackedShard(TRIM_HORIZON, max(times))
    return inherited


def _read_until_of_entry(
    shard: Shard,
    tracked: Tracked,
    settled: Collection[str],
    finished_kin: set[str],
    expired: Collection[str],
) -> int | None:
    """The latest of its parents': nothing reached the shard before they closed. Where none is
    tracked, as a generation between has expired, the finished ancestors that overlap it stand for
    them.

    Where these are not known any more either, and where a parent expired before it or a child of it
    was tracked, whose loss only this time can tell: the earliest of all that may be its elders."""
    elders = finished_kin.intersection(tracked)
    kin = {p for p in shard.parent_ids if p in tracked} or elders
    untold = any(p not in tracked and p not in settled for p in shard.parent_ids)
    uncertain = shard.parent_ids and (untold or not kin)
    if uncertain:
        kin = kin | elders | {i for i in expired if is_finished(tracked.get(i))}
    times = [t for t in (tracked[i].read_until_ms for i in kin) if t is not None]
    return (min if uncertain else max)(times, default=None)


def _overlaps(
    lineage: Lineage, tracked: Iterable[str], candidates: Iterable[Shard]
) -> dict[str, set[str]]:
    """For each candidate the tracked shards and other candidates that share a hash key with it.

    One sweep over the sorted ranges: quick however many thousand shards there are, as each key
    belongs to few of them.
    """
    wanted = {shard.shard_id for shard in candidates}
    everyone = wanted.union(i for i in tracked if i in lineage.shards)
    ordered = sorted((lineage.shards[i].hash_keys, i) for i in everyone)
    result: dict[str, set[str]] = {i: set() for i in wanted}
    active: list[tuple[int, str]] = []
    for hash_keys, shard_id in ordered:
        active = [(end, other) for end, other in active if end >= hash_keys.start]
        for _, other in active:
            if shard_id in wanted:
                result[shard_id].add(other)
            if other in wanted:
                result[other].add(shard_id)
        active.append((hash_keys.end, shard_id))
    return result
