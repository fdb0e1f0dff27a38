"""Plans batches: from the offset that Spark gives to the exact end of the next batch.

Lives in Spark's planner process as long as the query. What it keeps in memory (listing, cursors,
read-until times) only saves calls: every batch can be planned and read from its offsets alone.

One plan:

1. bring the listing up to date; resolve the starting positions, if this is batch 0
2. see which shards are readable (`core.lineage`), and probe them side by side (`watch`)
3. turn the limits into a horizon (`core.horizon`), choose each shard's end (`core.ends`)
4. finish what has ended, let children enter, let covered parents leave (`core.lineage`)

Nothing transient is raised out of here, since Spark does not call again: a shard that cannot be
probed keeps its position, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.ends import End, Jump, choose_end
from kinesis_source.core.horizon import UNLIMITED, Limits, plan_horizon
from kinesis_source.core.lineage import (
    finished,
    is_finished,
    missing_shards,
    plan_entries,
    plan_leaving,
    readable_shards,
)
from kinesis_source.core.loss import Loss, way_out
from kinesis_source.core.offset import InitialOffset, Offset, TrackedShard
from kinesis_source.core.positions import Position
from kinesis_source.core.probes import Reached, ShardView
from kinesis_source.core.ranges import ShardRange, plan_ranges
from kinesis_source.core.starts import (
    IncompleteListingError,
    ServiceTime,
    resolve_starts,
    timestamp_to_list,
)
from kinesis_source.errors import (
    ConfigurationError,
    DataLossError,
    ResourceNotFoundError,
    TransientServiceError,
)
from kinesis_source.options import Options
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.planning.report import BatchReport, Lag
from kinesis_source.planning.targets import Targets, add_tips, freeze_targets
from kinesis_source.planning.warnings import PacedWarnings
from kinesis_source.planning.watch import ShardWatch

logger = logging.getLogger(__name__)

#: DescribeStreamSummary is asked again this often, since the retention period may be changed.
_CHECK_PERIOD_S = 600.0
#: A query that never reached the service gives up after this; later it waits, however long.
_FIRST_CONTACT_S = 30.0
#: The longest wait inside one call: Spark cannot stop a query while a planner method runs.
_LONGEST_WAIT_S = 1.0
#: While all shards wait for others or for a listing there is no hurry.
_NOTHING_READABLE_S = 0.2


@dataclass(slots=True)
class _Plan:
    """The result of one plan. `moved`: something is to be read or lineage has changed.
    `pending`: shards that have to be read further before a run with targets may end."""

    shards: dict[str, TrackedShard]
    moved: bool
    pending: set[str]
    views: list[ShardView]
    ends: dict[str, End]


class StreamPlanner:
    """The decisions behind the methods that Spark calls; one thread, as they are called."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self._client = connection.client
        self._clock = connection.clock
        self._guard = StreamGuard(connection.client)
        self._known = KnownShards(connection, self._guard, options.shard_fetch_interval_ms)
        self._warnings = PacedWarnings(logger, connection.clock)
        self._watches: dict[str, ShardWatch] = {}
        self._first_records: dict[tuple[str, Position], int] = {}
        self._starts: dict[str, TrackedShard] | None = None
        self._pinned_ms: int | None = None
        self._targets: Targets | None = None
        self._checked_at: float | None = None
        self._began = self._clock.monotonic()
        self.lag = Lag({})

    # What Spark calls

    def freeze(self) -> None:
        """Trigger.AvailableNow: fix what there is now as the target of this run. Waits out throttles
        and outages."""
        while self._targets is None:
            try:
                self._check_stream(None)
                # LATEST is pinned before the tips, so that they are not before it.
                self._pinned_ms = self._service_now_ms()
                self._targets = freeze_targets(self._connection, self._guard)
            except TransientServiceError as error:
                self._outage(error, fresh=True)
                self._clock.sleep(_LONGEST_WAIT_S)

    def latest_offset(
        self, start: Offset | InitialOffset, limits: Limits
    ) -> Offset | InitialOffset:
        """The end of the next batch; `start` itself if there is nothing to read.

        Blocks until a shard may be probed again, a second at most; with targets until something
        moved or all are reached.
        """
        while True:
            began = self._clock.monotonic()
            try:
                plan = self._plan(start, limits)
            except TransientServiceError as error:
                self._outage(error, fresh=isinstance(start, InitialOffset))
                plan = None
            except IncompleteListingError as error:
                self._warnings.warn(
                    "ListShards", f"the listing is not whole, asking again: {error}"
                )
                plan = None
            if plan is not None:
                end = self._end(start, plan)
                if end is not start:
                    self._report(began, plan)
                    return end
                if not plan.pending:
                    return start
            elif self._targets is None and isinstance(start, Offset):
                self._clock.sleep(_LONGEST_WAIT_S)
                return start
            # Batch 0 waits, whatever lasts: it must pin the starting positions.
            self._clock.sleep(self._seconds_until_due())

    def ranges(self, start: Offset | InitialOffset, end: Offset) -> list[ShardRange]:
        """The shard ranges of a batch; a replay gets the same as the first run did."""
        if self._checked_at is None:
            try:
                self._check_stream(end)
            except TransientServiceError as error:
                logger.debug("the tasks will find out whether it is the same stream: %s", error)
        return plan_ranges(start, end, self._first_records)

    @property
    def retention_ms(self) -> int | None:
        """The stream's retention period, once the service has been asked."""
        return self._guard.retention_ms

    # One plan

    def _plan(self, start: Offset | InitialOffset, limits: Limits) -> _Plan:
        self._check_stream(start)
        if isinstance(start, InitialOffset):
            self._known.refresh(())
            places = self._resolved_starts()
        else:
            places = dict(start.shards)
            self._known.refresh(places)
        self._settle_missing(places)
        places = self._without_lost(places)
        readable = readable_shards(self._known.lineage, places, self._known.expired)
        if self._targets is not None:
            self._complete_targets(self._targets, places)
        self._wait_until_due(readable)
        views = self._probe(readable, places)
        ends = self._choose_ends(views, limits)
        self._first_records = {
            (view.shard_id, view.place.position): view.unread[0].sequence_number
            for view in views
            if view.unread
        }
        after = dict(places)
        for shard_id, end in ends.items():
            self._watches[shard_id].advance(end)
            after[shard_id] = end.place
        self._enter(after)
        for shard_id in plan_leaving(self._known.lineage, places, after, self._known.expired):
            del after[shard_id]
        self._known.lagging = self._waits_for_children(after) or any(
            w.doubts_end for w in self._watches.values()
        )
        self._watches = {i: w for i, w in self._watches.items() if i in after}
        pending: set[str] = set()
        if self._targets is not None:
            pending = self._targets.pending(self._known, after, views)
            pending |= missing_shards(self._known.lineage, after, self._known.expired)
        before = start.shards.keys() if isinstance(start, Offset) else set()
        moved = after.keys() != before or bool(ends)
        return _Plan(after, moved, pending, views, ends)

    def _check_stream(self, offset: Offset | InitialOffset | None) -> None:
        """It exists, is active and is the stream of the offset."""
        if isinstance(offset, Offset) and self._guard.identity != offset.stream:
            self._guard.identity, self._checked_at = offset.stream, None
        now = self._clock.monotonic()
        if self._checked_at is not None and now - self._checked_at < _CHECK_PERIOD_S:
            return
        try:
            self._guard.check()
        except TransientServiceError:
            if self._checked_at is None:
                raise
        self._checked_at = now

    def _resolved_starts(self) -> dict[str, TrackedShard]:
        """Resolved once a process: Spark may ask for the end of batch 0 more than once."""
        if self._starts is None:
            if self._pinned_ms is None:
                self._pinned_ms = self._service_now_ms()
            retention_ms = self._guard.retention_ms
            assert retention_ms is not None
            time = ServiceTime(self._pinned_ms, retention_ms)
            position = self._options.starting_position
            at_ms = timestamp_to_list(position, time)
            open_at = () if at_ms is None else self._client.list_shards(at_ms).keys()
            try:
                self._starts = resolve_starts(
                    position, self._known.lineage.shards, open_at, self._known.expired, time
                )
            except IncompleteListingError as error:
                self._known.ask(error.to_ask)
                self._known.lagging = True
                raise
        return dict(self._starts)

    def _complete_targets(self, targets: Targets, places: Mapping[str, TrackedShard]) -> None:
        """A tracked open shard that the frozen listing missed gets the tip it has now."""
        unknown = [
            i
            for i, place in places.items()
            if i not in targets.listed and i not in targets.tips and not is_finished(place)
            if not self._known.is_closed(i) and i in self._known.lineage.shards
        ]
        if unknown:
            add_tips(targets, self._connection, self._guard, unknown)

    def _settle_missing(self, places: Mapping[str, TrackedShard]) -> None:
        missing = missing_shards(self._known.lineage, places, self._known.expired)
        gone = [
            i
            for i, watch in self._watches.items()
            if i in places and isinstance(watch.failure, ResourceNotFoundError)
        ]
        if missing or gone:
            self._known.ask({*missing, *gone})
            missing = missing_shards(self._known.lineage, places, self._known.expired)
        if missing:
            self._known.lagging = True
            self._warnings.warn(
                "ListShards",
                f"{len(missing)} tracked shards are not listed but exist ({_some(missing)}); "
                "waiting for a listing that is whole",
            )

    def _without_lost(self, places: dict[str, TrackedShard]) -> dict[str, TrackedShard]:
        lost = [i for i in places if i in self._known.expired and not is_finished(places[i])]
        for shard_id in lost:
            place = places.pop(shard_id)
            self._on_loss(
                Loss(
                    stream=self._client.stream.name,
                    shard_id=shard_id,
                    position=place.position,
                    reason="the shard no longer exists and had not been read to its end",
                    read_until_ms=self._read_until_ms(shard_id, place),
                    until_ms=self._guard.horizon_ms,
                )
            )
        return places

    def _on_loss(self, loss: Loss) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{loss.describe()}. {way_out(True)}")
        logger.warning("%s. %s", loss.describe(), way_out(False))

    def _wait_until_due(self, shard_ids: Collection[str]) -> None:
        due = [self._watches[i].due for i in shard_ids if i in self._watches]
        if not shard_ids:
            self._clock.sleep(_NOTHING_READABLE_S)
        elif len(due) == len(shard_ids):
            self._clock.sleep(min(_LONGEST_WAIT_S, min(due) - self._clock.monotonic()))

    def _seconds_until_due(self) -> float:
        due = min((w.due for w in self._watches.values()), default=float("inf"))
        return max(0.05, min(_LONGEST_WAIT_S, due - self._clock.monotonic()))

    def _probe(
        self, readable: Collection[str], places: Mapping[str, TrackedShard]
    ) -> list[ShardView]:
        return self._connection.map(
            lambda shard_id: self._probe_one(shard_id, places[shard_id]), sorted(readable)
        )

    def _probe_one(self, shard_id: str, place: TrackedShard) -> ShardView:
        watch = self._watches.get(shard_id)
        if watch is None or watch.place.position != place.position:
            watch = ShardWatch(self._connection, self._guard, shard_id, place, self._on_loss)
            self._watches[shard_id] = watch
        target = self._targets.of(shard_id) if self._targets is not None else None
        # A shard that was open when the targets were frozen is read to its target, no further.
        closed = self._known.is_closed(shard_id) and target is None
        watch.probe(closed, self._options.min_fetch_period_ms / 1000)
        if isinstance(watch.failure, TransientServiceError):
            self._warnings.warn(shard_id, f"could not be probed, will try again: {watch.failure}")
        return watch.view(closed, target)

    def _choose_ends(self, views: list[ShardView], limits: Limits) -> dict[str, End]:
        now_ms = self._service_now_ms()
        horizon_ms = plan_horizon(views, limits, now_ms)
        ends: dict[str, End] = {}
        jumps: list[tuple[ShardView, Jump]] = []
        for view in views:
            match choose_end(view, horizon_ms):
                case End() as end:
                    ends[view.shard_id] = end
                case Jump() as jump:
                    jumps.append((view, jump))
        found = self._connection.map(
            lambda pair: self._watches[pair[0].shard_id].jump(*pair, horizon_ms, now_ms), jumps
        )
        for (view, _), end in zip(jumps, found, strict=True):
            ends[view.shard_id] = end
        return ends

    def _enter(self, after: dict[str, TrackedShard]) -> None:
        """Let children enter; those that are closed and hold nothing are finished at once, and
        theirs enter too."""
        while True:
            lineage, expired = self._known.lineage, self._known.expired
            entries = plan_entries(lineage, after, expired)
            entering = entries.entering
            if self._targets is not None:
                allowed = self._targets.eligible(lineage, after)
                entering = {i: entry for i, entry in entering.items() if i in allowed}
            after.update(entering)
            asked = self._known.ask(entries.to_ask)
            emptied = self._empty_shards(entering)
            for shard_id in emptied:
                after[shard_id] = finished(after[shard_id])
            if not asked and not emptied:
                return

    def _empty_shards(self, entering: Mapping[str, TrackedShard]) -> list[str]:
        closed = {i: entry for i, entry in entering.items() if self._known.is_closed(i)}
        return [
            view.shard_id
            for view in self._probe(closed, closed)
            if view.reached is Reached.END and not view.unread
        ]

    def _waits_for_children(self, after: Mapping[str, TrackedShard]) -> bool:
        """A finished shard of which no child is known yet: the listing lags behind."""
        return any(
            is_finished(place) and not self._known.lineage.children(shard_id)
            for shard_id, place in after.items()
            if shard_id not in self._known.expired
        )

    # The end of the batch

    def _end(self, start: Offset | InitialOffset, plan: _Plan) -> Offset | InitialOffset:
        if isinstance(start, Offset) and not plan.moved and not self._is_stale(plan.shards):
            return start
        identity = self._guard.identity
        assert identity is not None
        shards = {
            i: TrackedShard(place.position, self._read_until_ms(i, place))
            for i, place in plan.shards.items()
        }
        for shard_id, watch in self._watches.items():
            watch.place = shards[shard_id]
        starts = self._starts if isinstance(start, InitialOffset) else None
        return Offset(identity, shards, starts)

    def _is_stale(self, places: Mapping[str, TrackedShard]) -> bool:
        """True once a quarter of the retention period: an idle query's read-until times are written
        down, so that a restart knows that nothing was lost."""
        horizon_ms, retention_ms = self._guard.horizon_ms, self._guard.retention_ms
        if horizon_ms is None or retention_ms is None:
            return False
        stale_ms = horizon_ms + retention_ms * 3 // 4
        return any(
            place.read_until_ms is not None
            and place.read_until_ms < stale_ms
            and (self._read_until_ms(shard_id, place) or 0) > place.read_until_ms
            for shard_id, place in places.items()
            if not is_finished(place)
        )

    def _read_until_ms(self, shard_id: str, place: TrackedShard) -> int | None:
        watch = self._watches.get(shard_id)
        if watch is None or watch.place.position != place.position or is_finished(place):
            return place.read_until_ms
        times = [t for t in (watch.read_until_ms, place.read_until_ms) if t is not None]
        return max(times, default=None)

    # Outside

    def _service_now_ms(self) -> int:
        now_ms = self._client.service_clock.now_ms()
        assert now_ms is not None, "the stream has been checked, so the service has answered"
        return now_ms

    def _outage(self, error: TransientServiceError, fresh: bool) -> None:
        never_reached = self._client.service_clock.now_ms() is None
        waited_s = self._clock.monotonic() - self._began
        if fresh and never_reached and waited_s > _FIRST_CONTACT_S:
            raise ConfigurationError(
                f"Kinesis could not be reached for {waited_s:.0f} s: {error}. Expected an answer "
                "from the service: check region, endpointUrl and the network from the driver"
            )
        self._warnings.warn(error.operation or "Kinesis", f"no answer, will try again: {error}")

    def _report(self, began: float, plan: _Plan) -> None:
        now_ms = self._service_now_ms()
        self.lag = Lag({i: w.millis_behind(now_ms) for i, w in sorted(self._watches.items())})
        finished_now = [i for i, end in plan.ends.items() if is_finished(end.place)]
        times = [v.unread[0].arrival_ms for v in plan.views if v.unread and v.shard_id in plan.ends]
        last = [e.record.arrival_ms for e in plan.ends.values() if e.record is not None]
        report = BatchReport(
            stream=self._client.stream.name,
            read=len(plan.ends),
            waiting=sum(not is_finished(p) for i, p in plan.shards.items() if i not in plan.ends),
            finished=len(finished_now),
            first_ms=min(times, default=None),
            last_ms=max(last + times, default=None),
            behind_ms=self.lag.maximum,
            calls=self._client.counters.take(),
            planning_s=self._clock.monotonic() - began,
        )
        logger.info(report.line())


def _some(shard_ids: Collection[str]) -> str:
    """A few of them, for a message."""
    shown = sorted(shard_ids)[:5]
    return ", ".join(shown) + (", …" if len(shard_ids) > len(shown) else "")
