"""One batch: what is readable, where it ends in each shard, and which shards enter and leave.

1. see which shards are readable (`core.lineage`), and probe them side by side (`watch`)
2. turn the limits into a horizon (`core.horizon`), choose each shard's end (`core.ends`)
3. finish what has ended, let children enter, let covered parents leave (`core.lineage`)

The decisions are the core's; here are the calls they need. A shard that cannot be probed keeps its
position, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kinesis_source.aws.cursor import ShardCursor
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.concerns import Throttle, Wait
from kinesis_source.core.ends import End, Jump, choose_end, later
from kinesis_source.core.horizon import Limits, earlier, plan_horizon
from kinesis_source.core.lineage import (
    finished,
    inherited_times,
    is_finished,
    missing_shards,
    plan_entries,
    plan_leaving,
    readable_shards,
)
from kinesis_source.core.loss import Loss, loss_policy
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import SHARD_END, TRIM_HORIZON
from kinesis_source.core.probes import Reached, ShardView
from kinesis_source.core.starts import IncompleteListingError
from kinesis_source.errors import ResourceNotFoundError, TransientServiceError
from kinesis_source.options import Options
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.planning.targets import Targets, add_tips
from kinesis_source.planning.warnings import PacedWarnings
from kinesis_source.planning.watch import ShardWatch

logger = logging.getLogger(__name__)

Places = Mapping[str, TrackedShard]

#: A shard that waits for its parents, and held nothing, is looked at again after this.
_PEEK_S = 5.0


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """`shards`: the tracked shards after the batch. `views`: what was seen of the readable ones.
    `ends`: where the batch ends in those of which it reads something or that have ended.
    `pending`: shards that must be read further before a run with targets is over.
    `waits`: the shards that wait for their parents. `throttles`: of those whose calls are refused
    for rate again and again. `unseen`: shards for which there has been no answer yet.
    `due`: the monotonic time from which the service's budget allows to look at the readable shards
    again; those that failed wait for longer by themselves."""

    shards: dict[str, TrackedShard]
    views: list[ShardView]
    ends: dict[str, End]
    pending: Collection[str]
    waits: Collection[Wait]
    throttles: Mapping[str, Throttle]
    unseen: Collection[str]
    due: float


@dataclass(frozen=True, slots=True)
class _Waiting:
    """`parents`: the readable shards that others wait for. `oldest_ms`: the arrival time of the
    oldest record seen in those that wait."""

    parents: Collection[str]
    oldest_ms: int | None


class BatchPlanner:
    """Plans batch after batch; what it keeps in between (listing, cursors) only saves calls."""

    def __init__(
        self,
        options: Options,
        connection: Connection,
        guard: StreamGuard,
        warnings: PacedWarnings,
    ) -> None:
        self.known = KnownShards(connection, guard, options.shard_fetch_interval_ms)
        self._on_loss = loss_policy(options, connection.client.service_clock.now_ms, logger)
        self._connection = connection
        self._client = connection.client
        self._clock = connection.clock
        self._guard = guard
        self._warnings = warnings
        self._watches: dict[str, ShardWatch] = {}
        #: Arrival time of the first record of shards that wait for their parents, None where there
        #: was none, and when that was looked up.
        self._peeked: dict[str, tuple[int | None, float]] = {}
        #: Since when shards have waited for their parents.
        self._waiting_since: dict[str, float] = {}

    def plan(
        self, start: Places, limits: Limits, targets: Targets | None, now_ms: int
    ) -> BatchPlan:
        """The batch after `start`. `now_ms`: the service's clock. Raises `DataLossError`, and what
        `StreamGuard.check` raises; `IncompleteListingError` if no shard is left to go on with."""
        places = self._without_lost(start)
        missing = self._missing(places)
        if targets is not None:
            self._complete_targets(targets, places)
        readable = readable_shards(self.known.lineage, places, self.known.expired)
        views = self._probe({i: places[i] for i in readable}, targets)
        ends = self._choose_ends(views, limits, now_ms, self._waiting(places, readable, targets))
        after = dict(places)
        for shard_id, end in ends.items():
            self._watches[shard_id].advance(end)
            after[shard_id] = end.place
        self._enter(after, targets)
        after |= inherited_times(self.known.lineage, after)
        for shard_id in plan_leaving(self.known.lineage, places, after, self.known.expired):
            del after[shard_id]
        self._watches = {
            i: w for i, w in self._watches.items() if i in after and not is_finished(after[i])
        }
        self._warn_of_failures()
        self._expect_listing(after, missing)
        if not after:
            raise IncompleteListingError("no shard of the offset exists any more, nor a known heir")
        pending = targets.pending(self.known, after, views) if targets is not None else ()
        due = max((w.due for w in self._watches.values() if w.failure is None), default=0.0)
        throttles = {i: w.throttle for i, w in self._watches.items() if w.throttle is not None}
        unseen = [i for i, w in self._watches.items() if not w.has_answered]
        return BatchPlan(after, views, ends, pending, self._waits(after), throttles, unseen, due)

    def read_until_ms(self, shard_id: str, place: TrackedShard) -> int | None:
        """The read-until time of `place`, moved on while the shard was idle."""
        watch = self._watches.get(shard_id)
        if watch is None or watch.place.position != place.position:
            return place.read_until_ms
        return later(place.read_until_ms, watch.read_until_ms)

    def millis_behind(self, now_ms: int) -> dict[str, int]:
        """How far behind its tip each shard is that was probed, in milliseconds."""
        return {i: self._watches[i].millis_behind(now_ms) for i in sorted(self._watches)}

    # Lost and missing shards

    def _without_lost(self, start: Places) -> dict[str, TrackedShard]:
        """`start`, where unfinished shards that the service no longer knows are finished: their
        loss was told up to some time, and what came later, to their heirs, is promised."""
        failed = {i: self._watches[i].failure for i in self._watches.keys() & start.keys()}
        self.known.ask(i for i, e in failed.items() if isinstance(e, ResourceNotFoundError))
        self.known.ask(missing_shards(self.known.lineage, start, self.known.expired))
        lost = {i for i in start if i in self.known.expired and not is_finished(start[i])}
        for shard_id in sorted(lost):
            self._on_loss(
                Loss(
                    stream=self._client.stream.name,
                    shard_id=shard_id,
                    position=start[shard_id].position,
                    reason="the shard no longer exists and had not been read to its end",
                    read_until_ms=self.read_until_ms(shard_id, start[shard_id]),
                    until_ms=self._guard.told_until_ms,
                )
            )
        told_ms = self._guard.told_until_ms
        return {
            i: TrackedShard(SHARD_END, later(place.read_until_ms, told_ms)) if i in lost else place
            for i, place in start.items()
        }

    def _missing(self, places: Places) -> set[str]:
        missing = missing_shards(self.known.lineage, places, self.known.expired)
        if missing:
            self._warnings.warn(
                "ListShards",
                f"tracked shards exist but are not listed ({some_of(missing)}); "
                "nothing is read until a listing is whole",
            )
        return missing

    def _complete_targets(self, targets: Targets, places: Places) -> None:
        """A tracked open shard that the frozen listing missed gets the tip it has now."""
        add_tips(
            targets,
            self._connection,
            self._guard,
            [
                i
                for i in places.keys() & self.known.lineage.shards.keys()
                if i not in targets.listed and i not in targets.tips
                if not is_finished(places[i]) and not self.known.is_closed(i)
            ],
        )

    # Probing and ends

    def _probe(self, places: Places, targets: Targets | None) -> list[ShardView]:
        return self._connection.map(
            lambda shard_id: self._probe_one(shard_id, places[shard_id], targets), sorted(places)
        )

    def _probe_one(self, shard_id: str, place: TrackedShard, targets: Targets | None) -> ShardView:
        watch = self._watches.get(shard_id)
        if watch is None or watch.place.position != place.position:
            watch = ShardWatch(self._connection, self._guard, shard_id, place, self._on_loss)
            self._watches[shard_id] = watch
        target = targets.of(shard_id) if targets is not None else None
        closed = self.known.is_closed(shard_id)
        watch.probe(closed)
        # A shard that was open when the targets were frozen is read to its target, no further.
        return watch.view(closed and target is None, target)

    def _warn_of_failures(self) -> None:
        """But not of long throttles, which are a concern of their own."""
        failed = {
            i: w.failure
            for i, w in self._watches.items()
            if isinstance(w.failure, TransientServiceError)
            if w.throttle is None or not w.throttle.is_long
        }
        if failed:
            self._warnings.warn(
                "probe",
                f"{some_of(failed)} could not be probed, will try again: {failed[min(failed)]}",
            )

    def _choose_ends(
        self, views: list[ShardView], limits: Limits, now_ms: int, waiting: _Waiting
    ) -> dict[str, End]:
        # Nobody waits for what waits behind a parent, unless that parent gets on.
        gets_on = any(
            view.unread or view.reached is Reached.END
            for view in views
            if view.shard_id in waiting.parents
        )
        waiting_ms = waiting.oldest_ms if gets_on else None
        caps = {v.shard_id: None if v.shard_id in waiting.parents else waiting_ms for v in views}
        # The limits are for those that may move; else the two could hold up each other.
        may_move = [v for v in views if not v.unread or v.seen_until(caps[v.shard_id])]
        limit_ms = plan_horizon(may_move, limits, now_ms)
        horizons = {shard_id: earlier(limit_ms, cap_ms) for shard_id, cap_ms in caps.items()}
        ends: dict[str, End] = {}
        jumps: list[tuple[ShardView, Jump]] = []
        for view in views:
            match choose_end(view, horizons[view.shard_id]):
                case End() as end:
                    ends[view.shard_id] = end
                case Jump() as jump:
                    jumps.append((view, jump))
        found = self._connection.map(
            lambda pair: self._watches[pair[0].shard_id].jump(
                *pair, horizons[pair[0].shard_id], now_ms
            ),
            jumps,
        )
        return ends | {view.shard_id: end for (view, _), end in zip(jumps, found, strict=True)}

    # Lineage

    def _waiting(
        self, places: Places, readable: Collection[str], targets: Targets | None
    ) -> _Waiting:
        """What waits behind the readable shards: their known children, and tracked shards that are
        not readable. Nothing while one of the parents cannot be probed: the others go on."""
        lineage = self.known.lineage
        children = {c for i in readable for c in lineage.children(i)} - places.keys()
        if targets is not None:
            children &= targets.eligible(lineage, places)
        blocked = {i for i in places if not is_finished(places[i])} - set(readable)
        waiting = {i: TrackedShard(TRIM_HORIZON) for i in children - self.known.expired}
        waiting |= {i: places[i] for i in blocked}
        parents = lineage.ancestors(waiting) & set(readable)
        now = self._clock.monotonic()
        self._waiting_since = {i: self._waiting_since.get(i, now) for i in waiting}
        self._peeked = {i: t for i, t in self._peeked.items() if i in waiting}
        if any(self._watches[i].failure is not None for i in parents):
            return _Waiting(parents, None)
        known = {i for i, (t, at) in self._peeked.items() if t is not None or now - at < _PEEK_S}
        unknown = sorted(waiting.keys() - known)
        found = self._connection.map(lambda i: self._first_arrival_ms(i, waiting[i]), unknown)
        self._peeked |= {i: (t, now) for i, t in zip(unknown, found, strict=True)}
        arrivals = [t for t, _ in self._peeked.values() if t is not None]
        return _Waiting(parents, min(arrivals, default=None))

    def _first_arrival_ms(self, shard_id: str, place: TrackedShard) -> int | None:
        """When the first record after `place` arrived, if there is one that can be seen at once."""
        cursor = ShardCursor(self._client, self._guard, shard_id, place, lambda _: None)
        try:
            records = cursor.next_page(1).records
        except (TransientServiceError, ResourceNotFoundError):
            return None
        return records[0].arrival_ms if records else None

    def _waits(self, after: Places) -> list[Wait]:
        now, lineage = self._clock.monotonic(), self.known.lineage
        unfinished = {i for i, place in after.items() if not is_finished(place)}
        return [
            Wait(shard_id, tuple(sorted(parents)), int((now - since) * 1000))
            for shard_id, since in self._waiting_since.items()
            if (parents := lineage.ancestors([shard_id]) & unfinished)
        ]

    def _enter(self, after: dict[str, TrackedShard], targets: Targets | None) -> None:
        """Let children enter; those that are closed and hold nothing are finished at once, and
        theirs enter too."""
        while True:
            lineage = self.known.lineage
            entries = plan_entries(lineage, after, self.known.expired)
            entering = entries.entering
            if targets is not None:
                eligible = targets.eligible(lineage, after)
                entering = {i: entry for i, entry in entering.items() if i in eligible}
            after.update(entering)
            closed = {i: entry for i, entry in entering.items() if self.known.is_closed(i)}
            emptied = [
                view.shard_id
                for view in self._probe(closed, targets)
                if view.reached is Reached.END and not view.unread
            ]
            after.update({i: finished(after[i]) for i in emptied})
            learned = self.known.ask(entries.to_ask)
            if not emptied and not learned:
                return

    def _expect_listing(self, after: Places, missing: set[str]) -> None:
        """Say whether the listing lags behind what is known, so that it is asked for again soon."""
        childless = {
            i
            for i, place in after.items()
            if is_finished(place) and not self.known.lineage.children(i)
        } - self.known.expired
        doubtful = {i for i, watch in self._watches.items() if watch.doubts_end}
        self.known.expect_news(bool(childless or doubtful or missing))
        if childless and self.known.is_overdue:
            self._warnings.warn(
                "ListShards",
                f"shards have ended, but their children are not listed yet ({some_of(childless)}); "
                "their part of the stream waits",
            )


def some_of(shard_ids: Collection[str]) -> str:
    """A few of them, for a message."""
    shown = sorted(shard_ids)[:5]
    return ", ".join(shown) + (", …" if len(shard_ids) > len(shown) else "")
