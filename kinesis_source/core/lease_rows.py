"""What a Spark offset says, in the KCL's form: the leases to write so that the KCL can go on.

* A shard read to a record: that record, with sub-sequence number 0. Which was the last user record
  of an aggregated one is not known here, so the KCL delivers the user records after the first
  of that one record again. Nothing is left out.
* A shard of which nothing has been read: TRIM_HORIZON, also where the query began it at a time. The
  KCL's AT_TIMESTAMP and LATEST carry no time, so whatever else is written would lose records or
  need a matching configuration; it reads again what the query was told to leave out.
* A finished shard: SHARD_END with its children, and those that have not been entered yet, which
  the KCL would otherwise start where its configuration says, at TRIM_HORIZON. With them come
  their other parents: the KCL takes a parent without a lease for finished.
* A shard that the offset no longer holds, since all that descends from it is there: it is finished,
  and is written as such if a child has not been read yet, or if the table has a lease of it or
  of an ancestor; else that lease would stay where some earlier write left it.

Rows are ordered with parents before children, and both parents of a merge are written at once: with
a lease of only one of them the KCL would start the other where its configuration says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kinesis_source.core.leases import Lease, LeaseCheckpoint, RecordCheckpoint, Sentinel
from kinesis_source.core.lineage import Lineage, Tracked, is_finished
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    AfterSequenceNumber,
    AtTimestamp,
    Position,
    ShardEnd,
    TrimHorizon,
)


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """One row to write. `expected`: what the table must hold of it until then, None for nothing."""

    lease: Lease
    expected: Lease | None

    @property
    def rewinds(self) -> bool:
        """The table's row says more than what is to be written: somebody else has read on."""
        if self.expected is None or self.lease.finished:
            return False
        match self.expected.checkpoint, self.lease.checkpoint:
            case RecordCheckpoint(old), RecordCheckpoint(new):
                return old > new
            case ((RecordCheckpoint() | Sentinel.SHARD_END), _):
                return True
        return False


def lease_rows(
    tracked: Tracked,
    lineage: Lineage,
    leased: Collection[str] = (),
    stream: str | None = None,
    expired: Collection[str] = (),
) -> list[Lease]:
    """The leases that say what the offset says, parents before children.

    `tracked`: the offset's shards. `leased`: shards of which the table holds leases. `stream`: the
    stream's identifier if the table is a multi-stream one. `expired`: shards for which the service
    answered ResourceNotFound; to be asked of those that are leased but neither tracked nor listed.
    Counters are 0, see `plan_lease_changes`.
    """
    rows = {i: _checkpoint(place.position) for i, place in tracked.items()}
    passed = lineage.ancestors(tracked) - tracked.keys()

    done = [i for i in tracked if is_finished(tracked[i])]
    unread = {c for i in done for c in lineage.children(i)} - tracked.keys() - passed
    unread |= (lineage.ancestors(unread) & lineage.shards.keys()) - tracked.keys() - passed
    rows |= dict.fromkeys(unread, Sentinel.TRIM_HORIZON)

    waiting = [
        lineage.shards[i]
        for i, checkpoint in rows.items()
        if checkpoint is Sentinel.TRIM_HORIZON and i in lineage.shards
    ]
    to_finish = {p for shard in waiting for p in shard.parent_ids if p in lineage.shards}
    to_finish |= set(leased)
    finished = passed & (to_finish | lineage.descendants(to_finish))
    # Who descends from a shard that does not exist any more may not be known. What the offset does
    # not hold of such a shard was read, or was reported as lost.
    finished |= (set(leased) & set(expired)) - tracked.keys()
    rows |= dict.fromkeys(finished, Sentinel.SHARD_END)
    # The service numbers shards in the order in which it makes them.
    return [_row(i, rows[i], lineage, stream) for i in sorted(rows)]


def plan_lease_changes(
    rows: Sequence[Lease], present: Mapping[str, Lease], tracked: Tracked
) -> list[tuple[LeaseChange, ...]]:
    """What must be written for the table to say `rows`, in order; each tuple at once.

    `present`: the table's leases of the stream by shard id. `tracked`: the offset's shards. A row
    that says the same already is left out. Owners are not looked at here: the write itself is
    refused where there is one.
    """
    changes = {}
    for row in rows:
        before = present.get(row.shard_id)
        if before is None or not (
            _says(before, row) or _has_started_there(before, tracked.get(row.shard_id))
        ):
            counter = 0 if before is None else before.counter + 1
            changes[row.shard_id] = LeaseChange(replace(row, counter=counter), before)
    partners = _merge_partners(rows)
    planned: list[tuple[LeaseChange, ...]] = []
    for shard_id, change in changes.items():
        others = [changes[p] for p in partners.get(shard_id, ()) if p in changes]
        # With the later of the two, as its own parents come before.
        if all(other.lease.shard_id < shard_id for other in others):
            planned.append((*others, change))
    return planned


def _merge_partners(rows: Sequence[Lease]) -> dict[str, set[str]]:
    """For each parent of a merge the other one."""
    partners: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for parent_id in row.parent_ids:
            partners[parent_id] |= row.parent_ids - {parent_id}
    return partners


def _says(before: Lease, row: Lease) -> bool:
    """A row inside the record that was read last stays: it says more than this can."""
    match before.checkpoint, row.checkpoint:
        case RecordCheckpoint(old), RecordCheckpoint(new):
            return old == new
        case old, new:
            return old == new and row.child_ids <= before.child_ids


def _has_started_there(before: Lease, place: TrackedShard | None) -> bool:
    """The query started inside a record, at the time of its arrival, and has read nothing yet: the
    KCL has no form for that but the row that it started from."""
    match before.checkpoint:
        case RecordCheckpoint(_, sub) if sub > 0:
            return place is not None and isinstance(place.position, AtTimestamp)
    return False


def _checkpoint(position: Position) -> LeaseCheckpoint:
    match position:
        case AfterSequenceNumber(sequence_number):
            return RecordCheckpoint(sequence_number)
        case TrimHorizon() | AtTimestamp():
            return Sentinel.TRIM_HORIZON
        case ShardEnd():
            return Sentinel.SHARD_END


def _row(shard_id: str, checkpoint: LeaseCheckpoint, lineage: Lineage, stream: str | None) -> Lease:
    shard = lineage.shards.get(shard_id)
    finished = checkpoint is Sentinel.SHARD_END
    return Lease(
        shard_id=shard_id,
        stream=stream,
        checkpoint=checkpoint,
        parent_ids=frozenset(shard.parent_ids if shard is not None else ()),
        child_ids=frozenset(lineage.children(shard_id) if finished else ()),
        hash_keys=shard.hash_keys if shard is not None else None,
    )
