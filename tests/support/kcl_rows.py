"""Rows of lease tables as each version of the KCL writes them, in DynamoDB's wire form.

From the library's serializers: `KinesisClientLeaseSerializer` of v1.12.0 (kinesis-asl's version),
`DynamoDBLeaseSerializer` of v2.3.0, v3.0.0 and v3.5.1, `DynamoDBMultiStreamLeaseSerializer`, and
for the rows that are no leases `MigrationState`, `TableMigrationState`, `StreamInfo`, `LeaderLock`
and `WorkerMetricStats` of v3.5.1. https://github.com/awslabs/amazon-kinesis-client
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kinesis_source.core.hashkeys import HashKeyRange

Row = dict[str, dict[str, Any]]


def kcl_1(
    shard_id: str,
    checkpoint: str,
    *,
    sub: int = 0,
    counter: int = 41,
    owner: str | None = None,
    switches: int = 0,
    parents: Collection[str] = (),
) -> Row:
    """1.0 to 1.13, kinesis-asl among them: neither children nor hash keys."""
    row: Row = {
        "leaseKey": {"S": shard_id},
        "leaseCounter": {"N": str(counter)},
        "ownerSwitchesSinceCheckpoint": {"N": str(switches)},
        "checkpoint": {"S": checkpoint},
        "checkpointSubSequenceNumber": {"N": str(sub)},
    }
    if owner is not None:
        row["leaseOwner"] = {"S": owner}
    if parents:
        row["parentShardId"] = {"SS": sorted(parents)}
    return row


def kcl_2(
    shard_id: str,
    checkpoint: str,
    hash_keys: HashKeyRange,
    *,
    children: Collection[str] = (),
    pending: str | None = None,
    **rest: Any,
) -> Row:
    """1.14 and later, 2.3 and later. `pending`: a checkpoint that was prepared, not made."""
    row = kcl_1(shard_id, checkpoint, **rest)
    row["startingHashKey"] = {"S": str(hash_keys.start)}
    row["endingHashKey"] = {"S": str(hash_keys.end)}
    if children:
        row["childShardIds"] = {"SS": sorted(children)}
    if pending is not None:
        row["pendingCheckpoint"] = {"S": pending}
        row["pendingCheckpointSubSequenceNumber"] = {"N": "0"}
        row["pendingCheckpointState"] = {"B": b"\x00state"}
    return row


def kcl_3(
    shard_id: str,
    checkpoint: str,
    hash_keys: HashKeyRange,
    *,
    throughput: str = "12.5",
    checkpoint_owner: str | None = None,
    **rest: Any,
) -> Row:
    """3.0 to 3.4. `checkpoint_owner`: while the lease is handed from it to the owner."""
    row = kcl_2(shard_id, checkpoint, hash_keys, **rest)
    row["throughputKBps"] = {"N": throughput}
    if checkpoint_owner is not None:
        row["checkpointOwner"] = {"S": checkpoint_owner}
    return row


def kcl_3_5(shard_id: str, checkpoint: str, hash_keys: HashKeyRange, **rest: Any) -> Row:
    """3.5 and later."""
    return {**kcl_3(shard_id, checkpoint, hash_keys, **rest), "entityType": {"S": "LEASE"}}


def in_stream(row: Row, stream: str) -> Row:
    """`row` as a multi-stream application writes it; `stream`: `account:name:creation epoch`."""
    shard_id = row["leaseKey"]["S"]
    return {
        **row,
        "leaseKey": {"S": f"{stream}:{shard_id}"},
        "streamName": {"S": stream},
        "shardId": {"S": shard_id},
    }


def not_leases_of_3_5(worker: str = "worker-1") -> list[Row]:
    """What 3.5 keeps in the lease table beside the leases."""
    modified = {"mb": {"S": worker}, "mts": {"N": "1764585600000"}}
    return [
        {
            "leaseKey": {"S": "Migration3.0"},
            "entityType": {"S": "CLIENT_VERSION_MIGRATION"},
            "cv": {"S": "CLIENT_VERSION_3X"},
            "h": {"L": [{"M": {"cv": {"S": "CLIENT_VERSION_INIT"}, **modified}}]},
            **modified,
        },
        {
            "leaseKey": {"S": "TableMigration3.5"},
            "entityType": {"S": "TABLE_MIGRATION"},
            "tm": {"S": "TABLE_MIGRATION_STATUS_COMPLETE"},
            **modified,
        },
        {
            "leaseKey": {"S": "123456789012:orders:1764500000"},
            "entityType": {"S": "STREAM"},
            "streamId": {"S": "abcdef"},
        },
        {
            "leaseKey": {"S": "Leader"},
            "entityType": {"S": "LEADER"},
            "ownerName": {"S": worker},
            "leaseDuration": {"S": "30000"},
            "recordVersionNumber": {"S": "2d0bb9f5-3d3f-4d44-9c9e-3f5c1b1f8a11"},
        },
        {
            "leaseKey": {"S": worker},
            "entityType": {"S": "WORKER_METRIC_STATS"},
            "lut": {"N": "1764585600"},
            "sts": {"M": {"C": {"L": [{"N": "17.2"}, {"N": "18"}]}}},
            "opr": {"M": {"C": {"L": [{"N": "80"}]}}},
            "sup": {"N": "1"},
            "slu": {"N": "1764585600"},
        },
    ]


def plain(row: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """The attributes as Python values."""
    values: dict[str, object] = {}
    for name, typed in row.items():
        ((kind, value),) = typed.items()
        if kind == "N":
            value = float(value) if "." in value else int(value)
        values[name] = set(value) if kind == "SS" else value
    return values
