"""A lease table beside the shards of its stream, for `kinesis-source leases show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinesis_source.aws.lease_table import LeaseTable
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.cli.shard_listing import ShardSummary, summarize
from kinesis_source.core.lease_audit import Finding, audit_leases
from kinesis_source.core.lease_starts import moving_leases
from kinesis_source.core.leases import (
    Lease,
    LeaseCheckpoint,
    RecordCheckpoint,
    leases_of_stream,
)
from kinesis_source.core.shards import StreamSummary
from kinesis_source.planning.known_shards import KnownShards

#: A KCL worker writes to its leases every three seconds, with the default fail-over time.
LIVE_CHECK_S = 10


@dataclass(frozen=True, slots=True)
class LeaseSurvey:
    """`leases` by shard id. `moving`: those that were written to between two reads of the table,
    `LIVE_CHECK_S` apart; None if it was read once."""

    table: str
    stream: StreamSummary
    shards: Mapping[str, ShardSummary]
    leases: Mapping[str, Lease]
    findings: Sequence[Finding]
    moving: Sequence[Lease] | None

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        return {shard.shard_id: shard.parent_ids for shard in self.shards.values()}

    def as_json(self) -> dict[str, Any]:
        """Sequence numbers are text, as they do not fit a JSON number."""
        moving = None if self.moving is None else sorted(i.shard_id for i in self.moving)
        return {
            "table": self.table,
            "stream": {
                "name": self.stream.name,
                "arn": self.stream.identity.arn,
                "createdMs": self.stream.identity.created_ms,
            },
            "shards": [
                {
                    "shardId": shard.shard_id,
                    "state": shard.state,
                    "parents": list(shard.parent_ids),
                    "lease": lease_as_json(self.leases.get(shard.shard_id)),
                }
                for shard in self.shards.values()
            ],
            "findings": [
                {
                    "kind": str(finding.kind),
                    "shardIds": list(finding.shard_ids),
                    "sentence": finding.sentence,
                }
                for finding in self.findings
            ],
            "moving": moving,
        }


def lease_as_json(lease: Lease | None) -> dict[str, Any] | None:
    if lease is None:
        return None
    return {
        "leaseKey": lease.lease_key,
        **checkpoint_as_json(lease.checkpoint),
        "owner": lease.owner,
        "checkpointOwner": lease.checkpoint_owner,
        "counter": lease.counter,
        "children": sorted(lease.child_ids),
    }


def checkpoint_as_json(checkpoint: LeaseCheckpoint) -> dict[str, Any]:
    """As in the table's row."""
    match checkpoint:
        case RecordCheckpoint(sequence_number, sub):
            return {"checkpoint": str(sequence_number), "checkpointSubSequenceNumber": sub}
    return {"checkpoint": str(checkpoint), "checkpointSubSequenceNumber": 0}


def survey_leases(connection: Connection, table: LeaseTable, live: bool) -> LeaseSurvey:
    """Reads the table once, or with `live` a second time after `LIVE_CHECK_S`.

    Raises `ConfigurationError` and `ServiceError`.
    """
    guard = StreamGuard(connection.client)
    stream = guard.check()
    leases = leases_of_stream(table.read(), stream.identity)
    known = KnownShards(connection, guard, interval_ms=0)
    known.refresh(())
    shards = summarize(known, {lease.shard_id: lease.parent_ids for lease in leases})
    moving = None
    if live:
        connection.clock.sleep(LIVE_CHECK_S)
        moving = moving_leases(leases, leases_of_stream(table.read(), stream.identity))
    return LeaseSurvey(
        table.name,
        stream,
        shards,
        {lease.shard_id: lease for lease in leases},
        audit_leases(leases, known.lineage.shards, known.expired),
        moving,
    )
