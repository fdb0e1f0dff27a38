"""Where a query starts that takes over from a KCL application: from leases to starting positions.

A lease says of its shard: TRIM_HORIZON and SHARD_END what they say; a record's number, after that
record. `LATEST` and `AT_TIMESTAMP` need a time from the user, since the row has none.

A lease *inside* an aggregated record (a sub-sequence number above 0) has user records of it left.
Records are not taken apart here, so the whole record is read again, and its first user records come
twice: the shard must start before it. Sub-sequence number 0 is taken as the whole record: so
plain records have it, and so kinesis-asl writes it for aggregates too. A KCL application that
checkpointed the very first user record of an aggregate looks the same; what it lacks of that
one record is not read.

What has no lease:

* An ancestor of a leased shard is finished: the library deletes a lease once the shard is
  read and its children have begun. But one that itself descends from an unfinished lease has not
  been read: TRIM_HORIZON.
* A descendant of leased shards waits for them.
* Shards related to no listed lease (their ancestors' leases name shards that are gone, or the
  table has a hole): TRIM_HORIZON if a leased shard is gone, as they may descend from it; else they
  are left to the caller's default, and named as `unleased`.

What has a lease but is not listed: the service is asked (`to_ask`). If it does not exist, a
finished lease is forgotten, and an unfinished one is data loss (`gone`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kinesis_source.core.leases import Lease, RecordCheckpoint, Sentinel
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
    Position,
)
from kinesis_source.core.shards import Shard
from kinesis_source.core.starting_position import PerShard, StreamStart
from kinesis_source.errors import LeaseTableError


@dataclass(frozen=True, slots=True)
class LeaseStarts:
    """`shards`: where they start. `inside`: shards that start at this record, inclusive, as they
    stand inside it; not in `shards`. `to_ask`: ask the service whether they exist and plan
    again. `gone`: unfinished leases of shards that do not exist any more. `unleased`: the oldest
    of the shards that no lease says anything of."""

    shards: dict[str, Position]
    inside: dict[str, int]
    to_ask: frozenset[str]
    gone: tuple[Lease, ...]
    unleased: frozenset[str]

    def per_shard(self, default: StreamStart, before: Mapping[str, Position]) -> PerShard:
        """As the value of `startingPosition`. `default`: for `unleased`. `before`: for each shard
        of `inside` a position after which that record is the next."""
        return PerShard(default, {**self.shards, **{i: before[i] for i in self.inside}})


def plan_lease_starts(
    leases: Sequence[Lease],
    listing: Mapping[str, Shard],
    expired: Collection[str],
    time: AtTimestamp | None,
) -> LeaseStarts:
    """`leases`: of this stream. `expired`: shards for which the service answered
    ResourceNotFound. `time`: for leases that carry none.

    Raises `LeaseTableError`: no leases, none of this stream's shards, or `time` is needed.
    """
    if not leases:
        raise LeaseTableError(
            "the lease table holds no leases of the stream; expected one for each shard. Check the "
            "table's name (it is the KCL application's), region and account, or start without it"
        )
    listed = {lease.shard_id: lease for lease in leases if lease.shard_id in listing}
    unlisted = [lease for lease in leases if lease.shard_id not in listing]
    to_ask = frozenset(lease.shard_id for lease in unlisted) - frozenset(expired)
    if not listed and not to_ask:
        raise LeaseTableError(
            f"none of the {len(leases)} leased shards exists in the stream (such as "
            f"{leases[0].shard_id}); expected the stream's own leases. The table is another "
            "stream's, or has not been written for longer than the retention period: then start "
            "with startingPosition=TRIM_HORIZON and without the table"
        )
    _check_times(list(listed.values()), time)

    lineage = Lineage(listing)
    shards = {i: _position(lease, time) for i, lease in listed.items() if _inside(lease) is None}
    inside = {i: n for i, lease in listed.items() if (n := _inside(lease)) is not None}
    unfinished = [i for i, lease in listed.items() if not lease.finished]
    skipped = lineage.ancestors(listed) & lineage.descendants(unfinished)
    shards |= {i: TRIM_HORIZON for i in skipped if i in listing and i not in listed}

    related = lineage.ancestors(listed) | lineage.descendants(listed) | set(listed)
    others = Lineage({i: s for i, s in listing.items() if i not in related})
    oldest = {
        i for i, s in others.shards.items() if not any(p in others.shards for p in s.parent_ids)
    }
    if unlisted:
        shards |= dict.fromkeys(oldest, TRIM_HORIZON)
        oldest = set()
    gone = [lease for lease in unlisted if lease.shard_id in expired and not lease.finished]
    return LeaseStarts(shards, inside, to_ask, tuple(gone), frozenset(oldest))


def moving_leases(before: Sequence[Lease], after: Sequence[Lease]) -> list[Lease]:
    """The leases of `after` that somebody has written to since `before`, or has made: the library
    raises the counter at least every third of its fail-over time, by default every 3 seconds."""
    counters = {lease.lease_key: lease.counter for lease in before}
    return [lease for lease in after if counters.get(lease.lease_key) != lease.counter]


def _check_times(leases: Sequence[Lease], time: AtTimestamp | None) -> None:
    untimed = [i for i in leases if i.checkpoint in (Sentinel.LATEST, Sentinel.AT_TIMESTAMP)]
    if untimed and time is None:
        raise LeaseTableError(
            f"leases stand at {untimed[0].checkpoint} ({len(untimed)}, such as "
            f"{untimed[0].lease_key}): nothing was checkpointed since the application started "
            "there, and a lease does not say when that was. Give the time from which to read: "
            "startingPosition=AT_TIMESTAMP <time>"
        )


def _inside(lease: Lease) -> int | None:
    match lease.checkpoint:
        case RecordCheckpoint(sequence_number, sub) if sub > 0:
            return sequence_number
    return None


def _position(lease: Lease, time: AtTimestamp | None) -> Position:
    match lease.checkpoint:
        case RecordCheckpoint(sequence_number):
            return AfterSequenceNumber(sequence_number)
        case Sentinel.TRIM_HORIZON:
            return TRIM_HORIZON
        case Sentinel.SHARD_END:
            return SHARD_END
        case Sentinel.LATEST | Sentinel.AT_TIMESTAMP:
            assert time is not None  # checked before
            return time
