"""A stream's shards as the service tells of them, for `kinesis-source shards`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kinesis_source.aws.cursor import ShardCursor, seen
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.cli.words import share
from kinesis_source.core.hashkeys import HashKeyRange, tiles
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import TRIM_HORIZON
from kinesis_source.core.probes import Reached, SeenRecord
from kinesis_source.core.shards import StreamSummary
from kinesis_source.errors import ResourceNotFoundError, TransientServiceError
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.planning.tips import find_tip

#: Empty pages followed on the way to a shard's oldest record.
_PAGES = 20
_CALL_PERIOD_S = 0.22


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """`state`: `open`, `closed`; of a shard that is only named as a parent `gone`, if the service
    answers that it does not exist, else `unlisted`. `hash_keys` is None where it is not listed.
    `oldest`, `newest`: its first and last record, None for an empty shard and where not asked."""

    shard_id: str
    state: str
    parent_ids: tuple[str, ...] = ()
    hash_keys: HashKeyRange | None = None
    oldest: SeenRecord | None = None
    newest: SeenRecord | None = None


@dataclass(frozen=True, slots=True)
class StreamListing:
    """`with_records`: whether the shards' first and last records were asked for."""

    stream: StreamSummary
    shards: Mapping[str, ShardSummary]
    with_records: bool

    def count(self, state: str) -> int:
        return sum(shard.state == state for shard in self.shards.values())

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        return {shard.shard_id: shard.parent_ids for shard in self.shards.values()}

    @property
    def is_whole(self) -> bool:
        """Whether the listed shards without children cover every hash key once."""
        parents = {p for shard in self.shards.values() for p in shard.parent_ids}
        leaves = [s for s in self.shards.values() if s.hash_keys and s.shard_id not in parents]
        return tiles(s.hash_keys for s in leaves if s.hash_keys is not None)

    def as_json(self) -> dict[str, Any]:
        """Hash keys and sequence numbers are text: they do not fit a JSON number."""
        children: dict[str, list[str]] = {shard_id: [] for shard_id in self.shards}
        for shard in self.shards.values():
            for parent in shard.parent_ids:
                children[parent].append(shard.shard_id)
        return {
            "stream": {
                "name": self.stream.name,
                "arn": self.stream.identity.arn,
                "createdMs": self.stream.identity.created_ms,
                "status": self.stream.status,
                "retentionMs": self.stream.retention_ms,
            },
            "coversKeySpaceOnce": self.is_whole,
            "shards": [
                self._shard_as_json(self.shards[shard_id], sorted(children[shard_id]))
                for shard_id in sorted(self.shards)
            ],
        }

    def _shard_as_json(self, shard: ShardSummary, children: list[str]) -> dict[str, Any]:
        keys = shard.hash_keys
        value: dict[str, Any] = {
            "shardId": shard.shard_id,
            "state": shard.state,
            "parents": list(shard.parent_ids),
            "children": children,
            "hashKeys": {"start": str(keys.start), "end": str(keys.end)} if keys else None,
            "share": share(keys) if keys else None,
        }
        if self.with_records:
            value["oldest"] = _record_as_json(shard.oldest)
            value["newest"] = _record_as_json(shard.newest)
        return value


def _record_as_json(record: SeenRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"sequenceNumber": str(record.sequence_number), "arrivalMs": record.arrival_ms}


def list_stream(connection: Connection, with_records: bool) -> StreamListing:
    """One listing. `with_records` also reads each shard's first and last record, which costs about
    ten of its five GetRecords a second.

    Raises `ConfigurationError` and `ServiceError`.
    """
    guard = StreamGuard(connection.client)
    stream = guard.check()
    known = KnownShards(connection, guard, interval_ms=0)
    known.refresh(())
    listed = known.lineage.shards
    shards = summarize(known)
    if with_records:
        for shard_id, (oldest, newest) in _ends(connection, guard, listed).items():
            shards[shard_id] = replace(shards[shard_id], oldest=oldest, newest=newest)
    return StreamListing(stream, shards, with_records)


def summarize(
    known: KnownShards, leased: Mapping[str, Collection[str]] | None = None
) -> dict[str, ShardSummary]:
    """The listed shards, the parents they name, and `leased` ones with their parents. Asks the
    service of those that are not listed whether they exist."""
    listed = known.lineage.shards
    parents = {shard.shard_id: shard.parent_ids for shard in listed.values()}
    for shard_id, parent_ids in (leased or {}).items():
        parents.setdefault(shard_id, tuple(sorted(parent_ids)))
    for parent_id in {p for named in parents.values() for p in named}:
        parents.setdefault(parent_id, ())
    known.ask(parents.keys() - listed.keys())
    return {
        shard_id: ShardSummary(
            shard_id,
            _state(shard_id, known),
            parents[shard_id],
            listed[shard_id].hash_keys if shard_id in listed else None,
        )
        for shard_id in sorted(parents)
    }


def _state(shard_id: str, known: KnownShards) -> str:
    if shard_id in known.lineage.shards:
        return "closed" if known.lineage.shards[shard_id].closed else "open"
    return "gone" if shard_id in known.expired else "unlisted"


Ends = tuple[SeenRecord | None, SeenRecord | None]


def _ends(
    connection: Connection, guard: StreamGuard, shard_ids: Collection[str]
) -> dict[str, Ends]:
    """The first and last record of each shard."""
    now_ms, retention_ms = connection.client.service_clock.now_ms(), guard.retention_ms
    assert now_ms is not None
    assert retention_ms is not None

    def ends_of(shard_id: str) -> Ends:
        try:
            oldest = _oldest(connection, guard, shard_id)
            if oldest is None:
                return None, None
            return oldest, find_tip(connection, shard_id, now_ms, retention_ms)
        except ResourceNotFoundError:
            return None, None  # it has gone since it was listed

    ids = sorted(shard_ids)
    return dict(zip(ids, connection.map(ends_of, ids), strict=True))


def _oldest(connection: Connection, guard: StreamGuard, shard_id: str) -> SeenRecord | None:
    """The oldest record left; None without one."""
    place = TrackedShard(TRIM_HORIZON)
    cursor = ShardCursor(connection.client, guard, shard_id, place, lambda loss: None)
    for _ in range(_PAGES):
        page = cursor.next_page(limit=1)
        connection.clock.sleep(_CALL_PERIOD_S)
        if page.records:
            return seen(page.records[0])
        if page.reached is not Reached.MORE:
            return None
    raise TransientServiceError(
        f"{shard_id}: {_PAGES} empty pages before its oldest record; try again",
        operation="GetRecords",
        shard_id=shard_id,
    )
