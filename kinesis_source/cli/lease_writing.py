"""What a Spark checkpoint says, into a lease table, for `kinesis-source leases write`.

First the plan, which only reads; then the writes, each conditional on what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinesis_source.aws.lease_table import LeaseTable
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.cli.lease_survey import checkpoint_as_json
from kinesis_source.core.lease_rows import LeaseChange, lease_rows, plan_lease_changes
from kinesis_source.core.lease_starts import moving_leases
from kinesis_source.core.leases import Lease, leases_of_stream
from kinesis_source.core.offset import Offset
from kinesis_source.errors import KinesisSourceError, LeaseTableError
from kinesis_source.planning.known_shards import KnownShards

#: A worker whose leases have stood still for so long has stopped.
OWNER_GONE_S = 60


@dataclass(frozen=True, slots=True)
class WritingPlan:
    """`changes`: in order, each tuple at once. `same`: how many rows say the same already.
    `owned`: leases with owners, over which nothing is written."""

    table: str
    changes: Sequence[tuple[LeaseChange, ...]]
    same: int
    owned: Sequence[Lease]

    @property
    def rows(self) -> list[LeaseChange]:
        return [change for together in self.changes for change in together]

    def as_json(self, written: bool) -> dict[str, Any]:
        return {
            "table": self.table,
            "written": written,
            "changes": [
                {
                    "shardId": change.lease.shard_id,
                    "leaseKey": change.lease.lease_key,
                    "before": checkpoint_as_json(change.expected.checkpoint)
                    if change.expected is not None
                    else None,
                    "after": checkpoint_as_json(change.lease.checkpoint),
                    "rewinds": change.rewinds,
                }
                for change in self.rows
            ],
            "unchanged": self.same,
            "owners": sorted({owner for lease in self.owned for owner in lease.owners}),
        }


def plan_writing(
    connection: Connection, offset: Offset, table: LeaseTable, leases: Sequence[Lease]
) -> WritingPlan:
    """`offset`: the end of the last committed batch. `leases`: all of the table.

    Raises `ConfigurationError`, `ServiceError`, and `StreamRecreatedError` where the stream is not
    that of the checkpoint.
    """
    guard = StreamGuard(connection.client, offset.stream)
    guard.check()
    known = KnownShards(connection, guard, interval_ms=0)
    known.refresh(offset.shards)
    present = {lease.shard_id: lease for lease in leases_of_stream(leases, offset.stream)}
    known.ask(present.keys() - offset.shards.keys() - known.lineage.shards.keys())
    stream = next((lease.stream for lease in present.values()), None)
    rows = lease_rows(
        offset.shards, known.lineage, leased=present.keys(), expired=known.expired, stream=stream
    )
    changes = plan_lease_changes(rows, present, offset.shards)
    changed = sum(len(together) for together in changes)
    owned = [lease for lease in present.values() if lease.owners]
    return WritingPlan(table.name, changes, len(rows) - changed, owned)


def release(connection: Connection, table: LeaseTable, owned: Sequence[Lease]) -> None:
    """Take the owners out of `owned`, if none of these leases moves for `OWNER_GONE_S`.

    Raises `LeaseTableError`, with nothing changed, if one does.
    """
    connection.clock.sleep(OWNER_GONE_S)
    keys = {lease.lease_key for lease in owned}
    moving = moving_leases(owned, [lease for lease in table.read() if lease.lease_key in keys])
    if moving:
        lease = moving[0]
        who = lease.owners[0] if lease.owners else "somebody"
        raise LeaseTableError(
            f"lease table {table.name}: {who} has written to {lease.lease_key} within the last "
            f"{OWNER_GONE_S} s; expected no running KCL application. Nothing was written: stop it "
            "first"
        )
    for lease in owned:
        table.release(lease)


def check_owners(plan: WritingPlan) -> None:
    """Raises `LeaseTableError` if a lease has an owner."""
    if plan.owned:
        owners = sorted({owner for lease in plan.owned for owner in lease.owners})
        raise LeaseTableError(
            f"lease table {plan.table}: {len(plan.owned)} leases have owners "
            f"({', '.join(owners[:3])}); expected none. Nothing was written. Stop the KCL "
            "application; the names that it leaves are taken out with --release-owners"
        )


def write(table: LeaseTable, plan: WritingPlan) -> None:
    """Raises `LeaseTableError` where a row is not as it was read; the rows before it are written
    then, and say no more than what is committed."""
    done = 0
    for together in plan.changes:
        try:
            table.write_together(together)
        except KinesisSourceError as error:
            if not done:
                raise
            raise type(error)(
                f"{error} (Before that, {done} of {len(plan.rows)} rows were written; the same "
                "command goes on from there)"
            ) from None
        done += len(together)
