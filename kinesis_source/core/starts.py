"""From the option `startingPosition` to a position for each shard to start with.

A start is a *cut*: shards that cover the hash-key space once, so that every record after it
descends through them. If a listing gives no such cut it is not whole, and is asked for again.

`TRIM_HORIZON`   the oldest listed generation, at what is left when it is read; the service must
                 have said that its parents do not exist, for a listing may hide one
`LATEST`         the shards without listed children, at the service's time
`AT_TIMESTAMP`   the shards open at that instant less those that descend from another of them;
                 a time before the retention period is TRIM_HORIZON. Of a shard that was open then
                 and has expired, since the period was shorter, the heirs from their beginning
JSON map         the named shards at their positions. Ancestors of a named shard are finished,
                 descendants wait, and the default applies to the shards unrelated to any
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kinesis_source.core.hashkeys import tiles
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
    Position,
    ShardEnd,
    TrimHorizon,
)
from kinesis_source.core.shards import Shard
from kinesis_source.core.starting_position import Latest, PerShard, ShardStart, StartingPosition
from kinesis_source.core.times import format_ms
from kinesis_source.errors import OptionError


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """The service's clock when the query starts, and how far back its records go, both in
    milliseconds."""

    now_ms: int
    retention_ms: int

    @property
    def horizon_ms(self) -> int:
        return self.now_ms - self.retention_ms


class IncompleteListingError(Exception):
    """The listing gives no cut. `to_ask`: unlisted parents of which the service must say whether
    they still exist; without any, list again."""

    def __init__(self, reason: str, to_ask: Collection[str] = ()) -> None:
        super().__init__(reason)
        self.to_ask = frozenset(to_ask)


def timestamp_to_list(start: StartingPosition, time: ServiceTime) -> int | None:
    """The instant at which the open shards must be listed for `resolve_starts`, if any.

    Raises `OptionError` for a time in the future.
    """
    default = start.default if isinstance(start, PerShard) else start
    values = [default, *start.shards.values()] if isinstance(start, PerShard) else [default]
    for value in values:
        if isinstance(value, AtTimestamp) and value.timestamp_ms > time.now_ms:
            raise OptionError(
                f"startingPosition: AT_TIMESTAMP {format_ms(value.timestamp_ms)} has not come; "
                f"the service's clock is at {format_ms(time.now_ms)}. Expected a past time"
            )
    if isinstance(default, AtTimestamp) and default.timestamp_ms > time.horizon_ms:
        return default.timestamp_ms
    return None


def resolve_starts(
    start: StartingPosition,
    listing: Mapping[str, Shard],
    open_at: Collection[str],
    expired: Collection[str],
    time: ServiceTime,
) -> dict[str, TrackedShard]:
    """The tracked shards to start with.

    `open_at`: ids of the shards open at the instant of `timestamp_to_list`, else empty.
    `expired`: shards for which the service answered ResourceNotFound.
    Raises `IncompleteListingError`, and `OptionError` for a map that cannot be met.
    """
    lineage = Lineage(listing)
    default = start.default if isinstance(start, PerShard) else start
    cut = _default_cut(default, lineage, open_at, expired, time)
    heirs: dict[str, TrackedShard] = {}
    if not tiles(listing[i].hash_keys for i in cut):
        heirs = _heirs(lineage, cut, expired)
    if not isinstance(start, PerShard) or not start.shards:
        return cut | heirs

    unlisted = _unlisted_parents(lineage) - set(expired)
    if unlisted:
        raise IncompleteListingError("which shards descend from which is not known", unlisted)
    named = {i: _named_start(i, value, listing, time) for i, value in start.shards.items()}
    related = lineage.ancestors(named) | lineage.descendants(named) | set(named)
    unrelated = Lineage({i: s for i, s in listing.items() if i not in related})
    cut = _default_cut(default, unrelated, set(open_at) - related, {*expired, *related}, time)
    heirs = {i: place for i, place in heirs.items() if i not in related}
    if open_at:
        # What closed before the time of the default is finished, even if the only child it has
        # waits for a named shard.
        later = set(open_at) | lineage.descendants(open_at)
        later |= heirs.keys() | lineage.descendants(heirs)
        earlier = unrelated.shards.keys() - later - lineage.ancestors({*cut, *named})
        cut |= {i: TrackedShard(SHARD_END) for i in earlier}
    return {**cut, **heirs, **named}


def _default_cut(
    start: ShardStart,
    lineage: Lineage,
    open_at: Collection[str],
    gone: Collection[str],
    time: ServiceTime,
) -> dict[str, TrackedShard]:
    """The cut of all shards in `lineage`. `gone`: parents that need not be listed."""
    if isinstance(start, AtTimestamp) and start.timestamp_ms > time.horizon_ms:
        unlisted = set(open_at) - set(lineage.shards)
        if unlisted:
            raise IncompleteListingError(f"open at that time but not listed: {sorted(unlisted)}")
        ids = set(open_at) - lineage.descendants(open_at)
        return {i: _tracked(start, time) for i in ids}
    if isinstance(start, Latest):
        return {s.shard_id: _tracked(start, time, s.closed) for s in lineage.leaves()}
    roots = [
        s for s in lineage.shards.values() if not any(p in lineage.shards for p in s.parent_ids)
    ]
    hidden = {p for s in roots for p in s.parent_ids} - set(gone)
    if hidden:
        raise IncompleteListingError("older shards may be hidden", hidden)
    return {s.shard_id: _tracked(start, time) for s in roots}


def _named_start(
    shard_id: str, start: ShardStart, listing: Mapping[str, Shard], time: ServiceTime
) -> TrackedShard:
    shard = listing.get(shard_id)
    if shard is None:
        raise OptionError(
            f"startingPosition names {shard_id!r}, which the stream does not list; "
            "expected a shard that exists. Take it out of the map"
        )
    if isinstance(start, ShardEnd) and not shard.closed:
        raise OptionError(
            f"startingPosition: {shard_id} is open, so it has no SHARD_END yet; expected LATEST, "
            "TRIM_HORIZON, AT_TIMESTAMP or AFTER_SEQUENCE_NUMBER"
        )
    return _tracked(start, time, shard.closed)


def _tracked(start: ShardStart, time: ServiceTime, may_have_closed: bool = False) -> TrackedShard:
    """`may_have_closed`: before the time of `start`, which then says nothing of its children."""
    position: Position = AtTimestamp(time.now_ms) if isinstance(start, Latest) else start
    match position:
        case AtTimestamp(timestamp_ms) if timestamp_ms > time.horizon_ms:
            return TrackedShard(position, None if may_have_closed else timestamp_ms)
        case AtTimestamp() | TrimHorizon():
            # No read-until time: TRIM_HORIZON promises what is left when it is read, no more.
            return TrackedShard(TRIM_HORIZON)
        case AfterSequenceNumber() | ShardEnd():
            return TrackedShard(position)


def _heirs(
    lineage: Lineage, cut: Mapping[str, TrackedShard], expired: Collection[str]
) -> dict[str, TrackedShard]:
    """What to start with besides where a cut has gaps.

    Gaps are accepted only where a shard that was there has expired: every parent that is not listed
    is known to be gone, and the shards without children are still whole. A cut at a time then lacks
    only what the heirs of such shards fill: made after that time, they are read whole. A cut of the
    oldest shards lacks what waits for others."""
    reason = "the starting shards do not tile the hash-key space"
    to_ask = _unlisted_parents(lineage) - set(expired)
    if not lineage.shards or to_ask or not tiles(s.hash_keys for s in lineage.leaves()):
        raise IncompleteListingError(reason, to_ask)
    if cut and all(isinstance(place.position, TrimHorizon) for place in cut.values()):
        return {}
    taken = [lineage.shards[i].hash_keys for i in cut]
    closed_before = {p for i in cut for p in lineage.shards[i].parent_ids}
    heirs = [
        shard
        for shard in lineage.shards.values()
        if shard.parent_ids and not any(p in lineage.shards for p in shard.parent_ids)
        if closed_before.isdisjoint(shard.parent_ids)
        if not any(
            shard.hash_keys.start <= keys.end and keys.start <= shard.hash_keys.end
            for keys in taken
        )
    ]
    if not tiles([*taken, *(shard.hash_keys for shard in heirs)]):
        raise IncompleteListingError(reason)
    return {shard.shard_id: TrackedShard(TRIM_HORIZON) for shard in heirs}


def _unlisted_parents(lineage: Lineage) -> set[str]:
    parents = {p for s in lineage.shards.values() for p in s.parent_ids}
    return parents - set(lineage.shards)
