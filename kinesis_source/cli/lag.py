"""How far behind a checkpoint is, and what may expire before it is read: asked of the service.

Costs one listing and, of each shard that is not finished, one to five of its five GetRecords a
second. The lag is what the query itself reports: how long the oldest unread record has waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.ends import later
from kinesis_source.core.lineage import is_finished
from kinesis_source.core.loss import Loss
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import TRIM_HORIZON
from kinesis_source.core.probes import Reached
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import ResourceNotFoundError
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.planning.watch import ShardWatch

#: Looks at one shard that fails, or gives only empty pages, before its lag is left unknown.
_LOOKS = 5
#: At risk is what expires within this part of the retention period.
_RISKY_PART = 4


@dataclass(frozen=True, slots=True)
class ShardLag:
    """`state`: `open`, `closed`, `gone` (the service answers that it does not exist) or
    `unlisted`. `behind_ms`: how long the oldest unread record has waited, 0 if all is read, None
    if that could not be learned. `expires_in_ms`: until the oldest unread record may be trimmed.
    `lost`: what is gone already, None for nothing. `waits_for`: ancestors to be read first."""

    state: str
    behind_ms: int | None
    expires_in_ms: int | None = None
    at_risk: bool = False
    lost: str | None = None
    waits_for: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "millisBehindLatest": self.behind_ms,
            "expiresInMs": self.expires_in_ms,
            "atRisk": self.at_risk,
            "lost": self.lost,
            "waitsFor": list(self.waits_for),
        }


@dataclass(frozen=True, slots=True)
class StreamLag:
    """`now_ms`: the service's clock. `shards`: those that are not finished; also those that the
    offset does not hold yet."""

    now_ms: int
    retention_ms: int
    shards: Mapping[str, ShardLag]

    def as_json(self) -> dict[str, Any]:
        return {
            "nowMs": self.now_ms,
            "retentionMs": self.retention_ms,
            "shards": {
                shard_id: self.shards[shard_id].as_json() for shard_id in sorted(self.shards)
            },
        }


def measure_lag(
    connection: Connection, stream: StreamIdentity, tracked: Mapping[str, TrackedShard]
) -> StreamLag:
    """`tracked`: where the query has read to. Raises `ConfigurationError`, `ServiceError`, and
    `StreamRecreatedError` where the stream is not that of the checkpoint."""
    guard = StreamGuard(connection.client, stream)
    retention_ms = guard.check().retention_ms
    known = KnownShards(connection, guard, interval_ms=0)
    known.refresh(tracked)
    lineage = known.lineage
    known.ask(shard_id for shard_id in tracked if shard_id not in lineage.shards)
    unfinished = {shard_id for shard_id in tracked if not is_finished(tracked[shard_id])}
    places = {shard_id: tracked[shard_id] for shard_id in unfinished}
    # With the parents of those: one that was never read may have gone.
    later_shards = lineage.shards.keys() - tracked.keys() - lineage.ancestors(tracked)
    unread = later_shards | lineage.ancestors(later_shards) - lineage.ancestors(tracked)
    known.ask(unread - lineage.shards.keys())
    for shard_id in unread - tracked.keys():
        kin = lineage.ancestors([shard_id]) & tracked.keys()
        read_until_ms = None
        for ancestor in kin:
            read_until_ms = later(read_until_ms, tracked[ancestor].read_until_ms)
        places[shard_id] = TrackedShard(TRIM_HORIZON, read_until_ms)

    def lag_of(shard_id: str) -> ShardLag:
        waits_for = tuple(sorted(lineage.ancestors([shard_id]) & unfinished))
        if shard_id in known.expired:
            return ShardLag("gone", None, lost=_GONE, waits_for=waits_for)
        state = "unlisted"
        if shard_id in lineage.shards:
            state = "closed" if known.is_closed(shard_id) else "open"
        losses: list[Loss] = []
        watch = ShardWatch(connection, guard, shard_id, places[shard_id], losses.append)
        behind_ms = _look(connection, watch, closed=state == "closed")
        if isinstance(watch.failure, ResourceNotFoundError):
            return ShardLag("gone", None, lost=_GONE, waits_for=waits_for)
        expires_in_ms = retention_ms - behind_ms if behind_ms else None
        return ShardLag(
            state,
            behind_ms,
            expires_in_ms,
            at_risk=expires_in_ms is not None and expires_in_ms < retention_ms // _RISKY_PART,
            lost=losses[0].describe() if losses else None,
            waits_for=waits_for,
        )

    ids = sorted(places)
    lags = dict(zip(ids, connection.map(lag_of, ids), strict=True))
    if any(lag.state == "gone" for lag in lags.values()):
        guard.check()  # the shards, not the stream
    now_ms = connection.client.service_clock.now_ms()
    assert now_ms is not None
    return StreamLag(now_ms, retention_ms, lags)


_GONE = "the service no longer has this shard"


def _look(connection: Connection, watch: ShardWatch, closed: bool) -> int | None:
    """Look until something is certain; how long the oldest unread record has waited."""
    for _ in range(_LOOKS):
        connection.clock.sleep(watch.due - connection.clock.monotonic())
        watch.probe(closed)
        if isinstance(watch.failure, ResourceNotFoundError):
            return None
        view = watch.view(closed)
        if watch.failure is None and (view.unread or view.reached is not Reached.MORE):
            now_ms = connection.client.service_clock.now_ms()
            assert now_ms is not None
            return watch.millis_behind(now_ms)
    return None
