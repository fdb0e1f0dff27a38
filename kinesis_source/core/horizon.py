"""Limits become one arrival-time horizon for all shards of a batch.

All shards are read up to the same time, so catching up does not spread event times: a shard whose
next record is past the horizon waits. The horizon is the latest time up to which the shards
together, and each by itself, hold no more than the limits allow: counted among the records that
the probes saw, beyond them estimated from how densely those arrived.

An estimate may be wrong where traffic swells behind the probe. So the horizon goes past the seen
records by at most `ESTIMATE_FACTOR` times what the limit would take at the service's write quota,
and `core.ends` looks at the density where the horizon falls.

Shards that wait for their parents count too: what they hold is read batches later, and event times
would spread if the others ran on to the tip meanwhile. So no shard but those parents is read past
the oldest record that waits.

The limits are soft: at most a page a shard beyond them where traffic is steady, and always the
oldest unread record, so that there is progress under any limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kinesis_source.core.probes import QUOTA_BYTES_PER_MS, QUOTA_RECORDS_PER_MS, ShardView

ESTIMATE_FACTOR = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Soft maxima of one batch; None is no limit."""

    max_records: int | None = None
    max_bytes: int | None = None
    max_bytes_per_shard: int | None = None


UNLIMITED = Limits()


def plan_horizon(views: Iterable[ShardView], limits: Limits, now_ms: int) -> int | None:
    """The latest arrival time to read, inclusive; None if the limits take all there is.

    `now_ms`: the service's clock; nothing is estimated past it.
    """
    unread = [view for view in views if view.unread]
    if not unread or limits == UNLIMITED:
        return None
    oldest_ms = min(view.unread[0].arrival_ms for view in unread)
    latest_ms = max(now_ms, max(view.last_seen_ms for view in unread))
    ceiling_ms = min(latest_ms, _estimate_ceiling(unread, limits))
    if ceiling_ms >= latest_ms and _within(unread, limits, latest_ms):
        return None
    # The volume grows with the time, so the latest time within the limits is found by bisection.
    low, high = oldest_ms, max(oldest_ms, ceiling_ms)
    while low < high:
        middle = (low + high + 1) // 2
        if _within(unread, limits, middle):
            low = middle
        else:
            high = middle - 1
    return low


def earlier(one_ms: int | None, other_ms: int | None) -> int | None:
    """The earlier of two horizons, None being none."""
    return min((t for t in (one_ms, other_ms) if t is not None), default=None)


def _within(views: Sequence[ShardView], limits: Limits, horizon_ms: int) -> bool:
    total_records = total_bytes = 0.0
    for view in views:
        records, size = view.volume_until(horizon_ms)
        if limits.max_bytes_per_shard is not None and size > limits.max_bytes_per_shard:
            return False
        total_records += records
        total_bytes += size
    return (limits.max_records is None or total_records <= limits.max_records) and (
        limits.max_bytes is None or total_bytes <= limits.max_bytes
    )


def _estimate_ceiling(views: Sequence[ShardView], limits: Limits) -> int:
    """No shard with more behind its seen records is read further past them than this."""
    slices = [
        limits.max_records / QUOTA_RECORDS_PER_MS if limits.max_records is not None else None,
        limits.max_bytes / QUOTA_BYTES_PER_MS if limits.max_bytes is not None else None,
        limits.max_bytes_per_shard / QUOTA_BYTES_PER_MS
        if limits.max_bytes_per_shard is not None
        else None,
    ]
    slice_ms = ESTIMATE_FACTOR * int(min(s for s in slices if s is not None))
    # The shard that is furthest behind decides; the others wait for it.
    unseen = [view.last_seen_ms for view in views if view.has_more]
    return min(unseen, default=2**63) + slice_ms
