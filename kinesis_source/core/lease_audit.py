"""What is wrong with a lease table, compared with the listing of its stream.

`OTHER_STREAM`     no leases, or only of shards that the stream does not list: then nothing else
`WEDGED_PARENT`    a closed shard whose lease is not at SHARD_END, and children that wait for it
`ORPHAN_CHILDREN`  at TRIM_HORIZON, though a parent that may still hold records has no lease
`HOLE`             hash keys that no unfinished lease covers, nor a shard that follows one
`OVERLAP`          unfinished leases of the same hash keys where neither descends from the other
`GONE_SHARD`       an unfinished lease of a shard that the stream does not list
`FINISHED_OPEN`    SHARD_END, though the shard is open
`NO_TIME`          LATEST or AT_TIMESTAMP, of which the table does not say when that was
`OWNED`            a worker's name in the rows: it is running, or it stopped without clearing it

A finding says what one reading of the table shows. Whether an owner is alive takes a second one
(`core.lease_starts.moving_leases`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kinesis_source.core.hashkeys import MAX_HASH_KEY, HashKeyRange
from kinesis_source.core.leases import Lease, RecordCheckpoint, Sentinel
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.shards import Shard


class FindingKind(StrEnum):
    OTHER_STREAM = "other-stream"
    WEDGED_PARENT = "wedged-parent"
    ORPHAN_CHILDREN = "orphan-children"
    HOLE = "hole"
    OVERLAP = "overlap"
    GONE_SHARD = "gone-shard"
    FINISHED_OPEN = "finished-open"
    NO_TIME = "no-time"
    OWNED = "owned"


#: Findings that lose nothing by themselves.
NOTICES = (FindingKind.OWNED, FindingKind.NO_TIME)


@dataclass(frozen=True, slots=True)
class Finding:
    """`shard_ids`: those it is about, sorted; of a hole none. `sentence`: for people."""

    kind: FindingKind
    shard_ids: tuple[str, ...]
    sentence: str


def audit_leases(
    leases: Sequence[Lease], listing: Mapping[str, Shard], expired: Collection[str] = ()
) -> list[Finding]:
    """All findings, in the order of the kinds. `leases`: of one stream, whose shards are
    `listing`. `expired`: shards for which the service answered ResourceNotFound."""
    leased = {lease.shard_id: lease for lease in sorted(leases, key=lambda i: i.shard_id)}
    if leased.keys().isdisjoint(listing):
        found = f"none of its {len(leased)} shards exists" if leased else "no leases"
        sentence = f"{found}: check whose table it is, and its name, region and account"
        return [Finding(FindingKind.OTHER_STREAM, tuple(leased), sentence)]
    lineage = Lineage(listing)
    return [
        *_wedged(leased, lineage),
        *_orphans(leased, lineage, expired),
        *_coverage(leased, lineage),
        *_single(leased, listing, expired),
        *_owned(leased.values()),
    ]


def _waits(lease: Lease) -> bool:
    return not lease.finished and not isinstance(lease.checkpoint, RecordCheckpoint)


def _wedged(leased: Mapping[str, Lease], lineage: Lineage) -> Iterable[Finding]:
    for shard_id, lease in leased.items():
        shard = lineage.shards.get(shard_id)
        children = [i for i in sorted(lineage.children(shard_id)) if i in leased]
        if lease.finished or shard is None or not shard.closed or not children:
            continue
        if all(_waits(leased[i]) for i in children):
            places = ", ".join(f"{i} at {leased[i].checkpoint}" for i in children)
            yield Finding(
                FindingKind.WEDGED_PARENT,
                (shard_id, *children),
                f"{shard_id} is closed and stands at {lease.checkpoint}, not at SHARD_END; until a "
                f"worker reads its last records its children wait: {places}",
            )


def _orphans(
    leased: Mapping[str, Lease], lineage: Lineage, expired: Collection[str]
) -> Iterable[Finding]:
    orphans: dict[str, list[str]] = defaultdict(list)
    for shard_id, lease in leased.items():
        shard = lineage.shards.get(shard_id)
        if shard is not None and lease.checkpoint is Sentinel.TRIM_HORIZON:
            for parent_id in shard.parent_ids:
                if parent_id not in leased and parent_id not in expired:
                    orphans[parent_id].append(shard_id)
    for parent_id, children in sorted(orphans.items()):
        there = "is still there" if parent_id in lineage.shards else "is not listed"
        yield Finding(
            FindingKind.ORPHAN_CHILDREN,
            tuple(children),
            f"{', '.join(children)} not read yet, but the parent {parent_id}, which {there}, has "
            "no lease: if its row was deleted before it was read to its end, its last records are "
            "skipped",
        )


def _coverage(leased: Mapping[str, Lease], lineage: Lineage) -> Iterable[Finding]:
    """Holes and overlaps of what is being read or will be: unfinished leases, and the shards
    without a lease that follow a leased one."""
    to_come = lineage.descendants(leased) - leased.keys()
    current = {i for i in leased if not leased[i].finished} | to_come
    ranges = {i: keys for i in current if (keys := _hash_keys(i, leased, lineage)) is not None}
    if len(ranges) < len(current):
        return  # gone, and of a version that did not write them: nothing can be said
    for hole in _holes(ranges.values()):
        share = (hole.end - hole.start + 1) / (MAX_HASH_KEY + 1)
        yield Finding(
            FindingKind.HOLE,
            (),
            f"no unfinished lease covers the hash keys {hole.start} to {hole.end} ({share:.1%} of "
            "all): records with these keys are read by nobody",
        )
    oldest = current - lineage.descendants(current)
    widest: tuple[int, str] | None = None
    for keys, shard_id in sorted((ranges[i], i) for i in oldest):
        if widest is not None and keys.start <= widest[0]:
            pair = sorted((widest[1], shard_id))
            yield Finding(
                FindingKind.OVERLAP,
                tuple(pair),
                f"{pair[0]} and {pair[1]} share hash keys and are both unfinished, and the stream "
                "does not show that one descends from the other: one of them was read to its end "
                "or is another stream's",
            )
        widest = max(widest or (0, ""), (keys.end, shard_id))


def _hash_keys(shard_id: str, leased: Mapping[str, Lease], lineage: Lineage) -> HashKeyRange | None:
    if shard_id in lineage.shards:
        return lineage.shards[shard_id].hash_keys
    return leased[shard_id].hash_keys


def _holes(ranges: Iterable[HashKeyRange]) -> Iterable[HashKeyRange]:
    next_key = 0
    for piece in sorted(ranges):
        if piece.start > next_key:
            yield HashKeyRange(next_key, piece.start - 1)
        next_key = max(next_key, piece.end + 1)
    if next_key <= MAX_HASH_KEY:
        yield HashKeyRange(next_key, MAX_HASH_KEY)


def _single(
    leased: Mapping[str, Lease], listing: Mapping[str, Shard], expired: Collection[str]
) -> Iterable[Finding]:
    """What one lease alone shows."""
    for shard_id, lease in leased.items():
        shard = listing.get(shard_id)
        if shard is None and not lease.finished:
            known = (
                "does not exist any more: the records after it are lost"
                if shard_id in expired
                else "is not listed: either the listing lags, or its records have expired"
            )
            yield Finding(
                FindingKind.GONE_SHARD,
                (shard_id,),
                f"{shard_id}, whose lease stands at {lease.checkpoint}, {known}",
            )
        if shard is not None and not shard.closed and lease.finished:
            yield Finding(
                FindingKind.FINISHED_OPEN,
                (shard_id,),
                f"{shard_id} is open, but its lease says SHARD_END: what arrives in it is read by "
                "nobody",
            )
        if lease.checkpoint in (Sentinel.LATEST, Sentinel.AT_TIMESTAMP):
            yield Finding(
                FindingKind.NO_TIME,
                (shard_id,),
                f"{shard_id} stands at {lease.checkpoint}: a time must be given to start from it",
            )


def _owned(leases: Iterable[Lease]) -> Iterable[Finding]:
    held: dict[str, list[str]] = defaultdict(list)
    for lease in leases:
        for owner in lease.owners:
            held[owner].append(lease.shard_id)
    for owner, shard_ids in sorted(held.items()):
        yield Finding(
            FindingKind.OWNED,
            tuple(shard_ids),
            f"worker {owner!r} holds {len(shard_ids)} leases: it is running, or it stopped without "
            "giving them back",
        )
