"""Leases of the Kinesis Client Library (KCL): one row of its DynamoDB table, as a value.

All versions of the library are read: 1.x (also kinesis-asl's), 2.x, 3.x, the rows of multi-stream
applications, and the tables of 3.5 and later, which hold rows of other kinds beside the leases.
The attributes are those of the library's `DynamoDBLeaseSerializer` and, in 1.x,
`KinesisClientLeaseSerializer`. What a lease means for a start is decided in `core.lease_starts`,
what is written back in `core.lease_rows`.

A row says how far *records* were processed: `checkpoint` is the last one. A producer that
aggregates (KPL) packs many user records into one; `checkpointSubSequenceNumber` counts the user
records in it from 0, and is 0 for a plain record. kinesis-asl always writes 0 and means the whole
record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from kinesis_source.core.hashkeys import MAX_HASH_KEY, HashKeyRange
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import LeaseTableError


class Sentinel(Enum):
    """A checkpoint that is no record. `LATEST` and `AT_TIMESTAMP` carry no time: it stood in the
    configuration of the application."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"
    SHARD_END = "SHARD_END"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class RecordCheckpoint:
    """The last record processed; of an aggregated one, up to and including the user record
    `sub_sequence_number`."""

    sequence_number: int
    sub_sequence_number: int = 0

    def __str__(self) -> str:
        sub = f" (user record {self.sub_sequence_number})" if self.sub_sequence_number else ""
        return f"{self.sequence_number}{sub}"


LeaseCheckpoint = Sentinel | RecordCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One lease. `stream`: in a multi-stream table the stream's identifier,
    `account:name:creation epoch`, else None. `counter`: raised by each write of its owner.
    `owner`: the worker that has the lease or had it last; a stopped one leaves its name.
    `checkpoint_owner`: the worker that is handing it over. `hash_keys` and `child_ids`: not known
    to the library before 1.14 and 2.3."""

    shard_id: str
    checkpoint: LeaseCheckpoint
    stream: str | None = None
    counter: int = 0
    owner: str | None = None
    owner_switches: int = 0
    checkpoint_owner: str | None = None
    parent_ids: frozenset[str] = frozenset()
    child_ids: frozenset[str] = frozenset()
    hash_keys: HashKeyRange | None = None

    @property
    def lease_key(self) -> str:
        """The table's key."""
        return self.shard_id if self.stream is None else f"{self.stream}:{self.shard_id}"

    @property
    def finished(self) -> bool:
        return self.checkpoint is Sentinel.SHARD_END

    @property
    def owners(self) -> tuple[str, ...]:
        """The workers that may be writing to this row."""
        return tuple(o for o in (self.owner, self.checkpoint_owner) if o is not None)


_SHARD_ID = re.compile(r"shardId-\d{12}", re.ASCII)
_STREAM = re.compile(r"\d+:[^:]+:\d+", re.ASCII)
_DIGITS = re.compile(r"\d{1,128}", re.ASCII)


def parse_lease(item: Mapping[str, object]) -> Lease | None:
    """From a row's attributes, as str, int, set of str or bytes; None for a row that is no lease
    (the library keeps others in the same table since 3.5, with an `entityType` of their own).

    Attributes that a lease needs not are ignored, among them the pending checkpoint, which has not
    been processed. Raises `LeaseTableError` for a malformed lease.
    """
    entity = item.get("entityType")
    if entity not in (None, "LEASE") or (entity is None and "checkpoint" not in item):
        if "leaseKey" not in item:
            _malformed("a row", "leaseKey", None, "a lease table's rows to have this key")
        return None
    lease_key = _text(item, "leaseKey", "a row") or _malformed(
        "a row", "leaseKey", item.get("leaseKey"), "a shard id"
    )
    stream, shard_id = _stream_and_shard(item, lease_key)
    counter = _count(item, "leaseCounter", lease_key)
    if counter is None:
        _malformed(lease_key, "leaseCounter", None, "a number")
    return Lease(
        shard_id=shard_id,
        stream=stream,
        checkpoint=_checkpoint(item, lease_key),
        counter=counter,
        owner=_text(item, "leaseOwner", lease_key),
        # The library cannot read a row without it, but nothing here depends on it.
        owner_switches=_count(item, "ownerSwitchesSinceCheckpoint", lease_key) or 0,
        checkpoint_owner=_text(item, "checkpointOwner", lease_key),
        parent_ids=_shard_ids(item, "parentShardId", lease_key),
        child_ids=_shard_ids(item, "childShardIds", lease_key),
        hash_keys=_hash_keys(item, lease_key),
    )


def to_item(lease: Lease) -> dict[str, str | int | frozenset[str]]:
    """The row's attributes, the inverse of `parse_lease`; an attribute without a value is left out,
    as the library does: it refuses empty texts and sets."""
    match lease.checkpoint:
        case RecordCheckpoint(sequence_number, sub):
            checkpoint, sub_sequence_number = str(sequence_number), sub
        case sentinel:
            checkpoint, sub_sequence_number = sentinel.value, 0
    item: dict[str, str | int | frozenset[str]] = {
        "leaseKey": lease.lease_key,
        "leaseCounter": lease.counter,
        "ownerSwitchesSinceCheckpoint": lease.owner_switches,
        "checkpoint": checkpoint,
        "checkpointSubSequenceNumber": sub_sequence_number,
    }
    if lease.stream is not None:
        item |= {"streamName": lease.stream, "shardId": lease.shard_id}
    if lease.owner is not None:
        item["leaseOwner"] = lease.owner
    if lease.checkpoint_owner is not None:
        item["checkpointOwner"] = lease.checkpoint_owner
    if lease.parent_ids:
        item["parentShardId"] = lease.parent_ids
    if lease.child_ids:
        item["childShardIds"] = lease.child_ids
    if lease.hash_keys is not None:
        item["startingHashKey"] = str(lease.hash_keys.start)
        item["endingHashKey"] = str(lease.hash_keys.end)
    return item


def leases_of_stream(leases: Iterable[Lease], stream: StreamIdentity) -> list[Lease]:
    """The leases of one stream, by shard id: of a multi-stream table its own, of any other all.

    The creation epoch in a multi-stream key is whatever the application gave the library: seconds
    or milliseconds of the stream's creation are taken as this stream's. An empty table gives an
    empty list. Raises `LeaseTableError` if all leases are of other streams, or if a table has
    both kinds, since nobody can tell which counts.
    """
    everyone = sorted(leases, key=lambda lease: lease.lease_key)
    account, name = _account_and_name(stream)
    own_keys = {f"{account}:{name}:{epoch}" for epoch in (stream.created_ms, _seconds(stream))}
    own = [lease for lease in everyone if lease.stream in own_keys]
    single = [lease for lease in everyone if lease.stream is None]
    if own and single:
        raise LeaseTableError(
            f"found leases of {own[0].stream!r} and leases without a stream, such as "
            f"{single[0].lease_key!r}, in one lease table; expected one kind. Delete the rows of "
            "the application that is no longer used"
        )
    if everyone and not own and not single:
        found = sorted({str(lease.stream) for lease in everyone})
        raise LeaseTableError(
            f"the lease table holds leases of {', '.join(found)} only; expected "
            f"'{account}:{name}:{_seconds(stream)}'. Check table and stream. If the number at the "
            "end differs, the leases are of a stream that was deleted and made again, or the "
            "application made it up: then give the positions as startingPosition"
        )
    if len({lease.stream for lease in own}) > 1:
        raise LeaseTableError(
            f"found leases of this stream under {len({lease.stream for lease in own})} creation "
            "epochs, in seconds and in milliseconds; expected one. Delete the rows that are no "
            "longer used"
        )
    return own or single


def _account_and_name(stream: StreamIdentity) -> tuple[str, str]:
    parts = stream.arn.split(":")
    return parts[4], parts[5].removeprefix("stream/")


def _seconds(stream: StreamIdentity) -> int:
    return stream.created_ms // 1000


def _stream_and_shard(item: Mapping[str, object], lease_key: str) -> tuple[str | None, str]:
    stream, _, shard_id = lease_key.rpartition(":")
    if stream and not _STREAM.fullmatch(stream):
        _malformed(lease_key, "leaseKey", lease_key, "account:stream:creation epoch:shard id")
    if not _SHARD_ID.fullmatch(shard_id):
        _malformed(lease_key, "leaseKey", lease_key, "a shard id such as shardId-000000000000")
    # Multi-stream rows say both twice.
    for attribute, part in (("streamName", stream), ("shardId", shard_id)):
        found = _text(item, attribute, lease_key)
        if found not in (None, part):
            _malformed(lease_key, attribute, found, f"{part!r}, as in the key")
    return stream or None, shard_id


def _checkpoint(item: Mapping[str, object], lease_key: str) -> LeaseCheckpoint:
    text = _text(item, "checkpoint", lease_key)
    if text is not None and _DIGITS.fullmatch(text):
        sub = _count(item, "checkpointSubSequenceNumber", lease_key)
        return RecordCheckpoint(int(text), sub or 0)
    try:
        return Sentinel(text)
    except ValueError:
        words = ", ".join(sentinel.value for sentinel in Sentinel)
        _malformed(lease_key, "checkpoint", text, f"a sequence number or one of {words}")


def _text(item: Mapping[str, object], attribute: str, key: str) -> str | None:
    value = item.get(attribute)
    if value is not None and not isinstance(value, str):
        _malformed(key, attribute, value, "text")
    return value or None


def _count(item: Mapping[str, object], attribute: str, key: str) -> int | None:
    value = item.get(attribute)
    if value is not None and (not isinstance(value, int) or value < 0):
        _malformed(key, attribute, value, "a whole number, at least 0")
    return value


def _shard_ids(item: Mapping[str, object], attribute: str, key: str) -> frozenset[str]:
    value = item.get(attribute, frozenset())
    if not isinstance(value, set | frozenset) or not all(
        isinstance(i, str) and _SHARD_ID.fullmatch(i) for i in value
    ):
        _malformed(key, attribute, value, "a set of shard ids")
    return frozenset(value)


def _hash_keys(item: Mapping[str, object], key: str) -> HashKeyRange | None:
    start = _text(item, "startingHashKey", key)
    end = _text(item, "endingHashKey", key)
    if start is None or end is None:
        return None
    for attribute, text in (("startingHashKey", start), ("endingHashKey", end)):
        if not _DIGITS.fullmatch(text) or int(text) > MAX_HASH_KEY:
            _malformed(key, attribute, text, "a decimal number below 2**128")
    return HashKeyRange(int(start), int(end))


def _malformed(key: str, attribute: str, found: object, expected: str) -> NoReturn:
    raise LeaseTableError(
        f"lease table, {key}: found {found!r} as {attribute}; expected {expected}. No lease of the "
        "KCL looks like this: check that the table is a lease table, and who wrote the row"
    )
