"""Trigger.AvailableNow: what was there when the query started, and whether it has been read.

The targets are one listing and the exact tip of each shard that was open in it. Shards of that
listing are read to them, generation by generation; what is put later, and shards that appear
later, are for the next run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.hashkeys import tiles
from kinesis_source.core.lineage import Lineage, is_finished
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import AfterSequenceNumber
from kinesis_source.core.probes import Reached, SeenRecord, ShardView
from kinesis_source.errors import ResourceNotFoundError
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.planning.tips import find_tip

#: Listings of a stream in the middle of a reshard before one is taken as it is.
_LISTINGS = 20

#: The target of a shard that held nothing: before every record.
NOTHING = SeenRecord(-1, 0, 0)


@dataclass(slots=True)
class Targets:
    """`tips`: the last record of each shard that was open, NOTHING for an empty one.
    `lineage`: the listing. `frozen_ms`: the service's time after it and before the tips, which
    LATEST means in this run."""

    tips: dict[str, SeenRecord]
    lineage: Lineage
    frozen_ms: int

    @property
    def listed(self) -> set[str]:
        return set(self.lineage.shards)

    def of(self, shard_id: str) -> SeenRecord | None:
        """The last record to read; None for a shard to be read to its end."""
        return self.tips.get(shard_id)

    def eligible(self, lineage: Lineage, tracked: Collection[str]) -> set[str]:
        """The shards that belong to this run."""
        return {*self.listed, *tracked} | lineage.ancestors(self.listed)

    def pending(
        self,
        known: KnownShards,
        tracked: Mapping[str, TrackedShard],
        views: Iterable[ShardView],
    ) -> set[str]:
        """The shards that have still to be read further. `views`: what the last plan saw."""
        exhausted = {v.shard_id for v in views if not v.unread and v.reached is not Reached.MORE}
        waiting = {
            shard_id
            for shard_id, place in tracked.items()
            if not is_finished(place) and not self._is_reached(shard_id, place, exhausted)
        }
        # Whatever was listed and is not behind the tracked shards is before them, though a later
        # listing may not show it.
        behind = known.lineage.ancestors(tracked) | self.lineage.ancestors(tracked)
        return waiting | self.listed - set(tracked) - behind - known.expired

    def _is_reached(self, shard_id: str, place: TrackedShard, exhausted: Collection[str]) -> bool:
        tip = self.tips.get(shard_id)
        if tip is None:
            return False
        if tip == NOTHING or shard_id in exhausted:
            return True
        match place.position:
            case AfterSequenceNumber(sequence_number):
                return sequence_number >= tip.sequence_number
        return False


def freeze_targets(connection: Connection, guard: StreamGuard) -> Targets:
    """List the stream and find the tips. `guard` has been asked before.

    Raises what `KinesisClient.list_shards` raises; waits out trouble with single shards.
    """
    for _ in range(_LISTINGS):
        lineage = Lineage(connection.client.list_shards())
        leaves = lineage.leaves()
        if tiles(shard.hash_keys for shard in leaves):
            break
        connection.clock.sleep(1)
    now_ms = connection.client.service_clock.now_ms()
    assert now_ms is not None
    targets = Targets({}, lineage, now_ms)
    add_tips(targets, connection, guard, [s.shard_id for s in leaves if not s.closed])
    return targets


def add_tips(
    targets: Targets, connection: Connection, guard: StreamGuard, shard_ids: Collection[str]
) -> None:
    """Find the tips of open shards and add them to `targets`."""
    now_ms, retention_ms = connection.client.service_clock.now_ms(), guard.retention_ms
    assert now_ms is not None
    assert retention_ms is not None

    def tip_of(shard_id: str) -> SeenRecord:
        try:
            return find_tip(connection, shard_id, now_ms, retention_ms) or NOTHING
        except ResourceNotFoundError:
            return NOTHING  # it has gone since; whether that is loss, the plan will say

    ids = sorted(shard_ids)
    targets.tips.update(zip(ids, connection.map(tip_of, ids), strict=True))
