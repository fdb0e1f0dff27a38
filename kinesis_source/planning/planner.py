"""From the offset that Spark gives to the exact end of the next batch.

Lives in Spark's planner process as long as the query. What it keeps in memory only saves calls:
every batch can be planned and read from its offsets alone.

Nothing transient is raised out of here, since Spark does not call again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kinesis_source.aws.lease_table import LeaseTable, open_lease_table
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.horizon import Limits
from kinesis_source.core.lineage import is_finished
from kinesis_source.core.loss import MOST_ACCEPTED_AHEAD_MS
from kinesis_source.core.offset import InitialOffset, Offset, TrackedShard
from kinesis_source.core.positions import Position
from kinesis_source.core.ranges import ShardRange, plan_ranges
from kinesis_source.core.starts import (
    IncompleteListingError,
    ServiceTime,
    resolve_starts,
    timestamp_to_list,
)
from kinesis_source.core.times import format_ms
from kinesis_source.errors import (
    ConfigurationError,
    OptionError,
    ResourceNotFoundError,
    TransientServiceError,
)
from kinesis_source.options import Options
from kinesis_source.planning.batch import BatchPlan, BatchPlanner, some_of
from kinesis_source.planning.lease_start import LeaseStart
from kinesis_source.planning.lease_writer import LeaseWriter
from kinesis_source.planning.report import StreamState, batch_line, concerns
from kinesis_source.planning.targets import Targets, freeze_targets
from kinesis_source.planning.warnings import PacedWarnings

logger = logging.getLogger(__name__)

#: DescribeStreamSummary is asked again this often, since the retention period may be changed.
_CHECK_PERIOD_S = 600.0
#: A new query that never reached the service gives up after this; later it waits, however long.
_FIRST_CONTACT_S = 30.0
#: The longest wait inside one call, so that a query can be stopped.
_LONGEST_WAIT_S = 1.5
#: Before a new attempt after an answer that did not come.
_RETRY_S = 1.0
#: The search for the tips may have used up a shard's five calls a second.
_PAUSE_AFTER_TIPS_S = 1.0
#: A run with targets that does not move for longer says why.
_USUAL_RUN_S = 30.0


class StreamPlanner:
    """The decisions behind the methods that Spark calls; one thread, as they are called."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self._client = connection.client
        self._clock = connection.clock
        self._guard = StreamGuard(connection.client)
        self._warnings = PacedWarnings(logger, connection.clock)
        self._batches = BatchPlanner(options, connection, self._guard, self._warnings)
        self._lease_start: LeaseStart | None = None
        self._lease_writer: LeaseWriter | None = None
        if options.start_from_lease_table is not None:
            open_table = self._lease_table(options.start_from_lease_table)
            self._lease_start = LeaseStart(options, connection, self._guard, open_table)
        if options.write_lease_table is not None:
            open_table = self._lease_table(options.write_lease_table)
            self._lease_writer = LeaseWriter(open_table, connection.clock, self._warnings)
        self._first_records: dict[tuple[str, Position], int] = {}
        self._starts: dict[str, TrackedShard] | None = None
        self._targets: Targets | None = None
        self._checked_at: float | None = None
        self._began = self._clock.monotonic()
        self._next_plan = self._began
        #: By the service's clock; 0 before the first plan.
        self._planning_since_ms = 0
        #: As of the last plan; None before the first.
        self.state: StreamState | None = None

    def freeze(self) -> None:
        """Trigger.AvailableNow: fix what there is now as the target of this run. Waits out
        throttles and outages."""
        while self._targets is None:
            try:
                self._check_stream(None)
                self._targets = freeze_targets(self._connection, self._guard)
                self._next_plan = self._clock.monotonic() + _PAUSE_AFTER_TIPS_S
            except TransientServiceError as error:
                self._warn_of_outage(error, fresh=True)
                self._clock.sleep(_RETRY_S)
            except ResourceNotFoundError as error:
                self._doubt_stream(error)
                self._clock.sleep(_RETRY_S)

    def latest_offset(
        self, start: Offset | InitialOffset, limits: Limits
    ) -> Offset | InitialOffset:
        """The end of the next batch; `start` itself if there is nothing to read.

        Blocks for a second or two at most, so that shards are not polled too often: "nothing new"
        must not be said of shards that were not looked at, or `processAllAvailable` would return
        too early. With a longer `minFetchPeriod` it is said between two looks. Batch 0 waits as
        long as it takes to pin the starting positions, and a run with targets until something has
        moved or all of them are reached.
        """
        began = self._clock.monotonic()
        while True:
            wait_s = self._next_plan - self._clock.monotonic()
            self._clock.sleep(min(wait_s, _LONGEST_WAIT_S))
            if wait_s <= _LONGEST_WAIT_S:
                end, plan = self._try_plan(start, limits)
                if end is not start or (plan is not None and not plan.pending):
                    return end
                if plan is not None and self._clock.monotonic() - began > _USUAL_RUN_S:
                    self._warnings.warn(
                        "Trigger.AvailableNow", f"still to be read: {some_of(plan.pending)}"
                    )
            if isinstance(start, Offset) and self._targets is None:
                return start

    def ranges(self, start: Offset | InitialOffset, end: Offset) -> list[ShardRange]:
        """The shard ranges of a batch; a replay gets the same as the first run did."""
        while True:
            try:
                self._check_stream(end)
                break
            except TransientServiceError as error:
                self._warn_of_outage(error, fresh=False)
                self._clock.sleep(_RETRY_S)
        return plan_ranges(start, end, self._first_records)

    @property
    def retention_ms(self) -> int | None:
        """The stream's retention period, once the service has been asked."""
        return self._guard.retention_ms

    # Planning

    def _try_plan(
        self, start: Offset | InitialOffset, limits: Limits
    ) -> tuple[Offset | InitialOffset, BatchPlan | None]:
        """The end of the next batch, `start` if there is none; the plan, if one could be made."""
        began = self._clock.monotonic()
        try:
            self._check_stream(start)
            places = self._places(start)
            now_ms = self._service_now_ms()
            self._planning_since_ms = self._planning_since_ms or now_ms
            plan = self._batches.plan(places, limits, self._targets, now_ms)
            end = self._end(start, plan)
            if self._lease_writer is not None and isinstance(start, Offset):
                is_last = self._targets is not None and end is start and not plan.pending
                self._write_leases(self._lease_writer, start, is_last)
        except TransientServiceError as error:
            self._warn_of_outage(error, fresh=isinstance(start, InitialOffset))
        except IncompleteListingError as error:
            self._warnings.warn("ListShards", f"not whole, asking again: {error}")
        except ResourceNotFoundError as error:
            self._doubt_stream(error)
        else:
            period_s = self._options.min_fetch_period_ms / 1000
            self._next_plan = max(began + period_s, plan.due)
            self.state = state = self._tell(plan, now_ms)
            if end is not start:
                calls = self._client.counters.take()
                logger.info(batch_line(plan, state, calls, self._clock.monotonic() - began))
            return end, plan
        self._next_plan = self._clock.monotonic() + _RETRY_S
        return start, None

    def _write_leases(self, writer: LeaseWriter, committed: Offset, is_last: bool) -> None:
        """Spark plans from an offset only once the batch that ends there is committed."""
        known = self._batches.known
        unknown = writer.unfinished - committed.shards.keys() - known.lineage.shards.keys()
        known.ask(unknown)
        writer.committed(committed, known.lineage, known.expired, wait=is_last)

    def _places(self, start: Offset | InitialOffset) -> dict[str, TrackedShard]:
        if isinstance(start, Offset):
            self._batches.known.refresh(start.shards)
            return dict(start.shards)
        self._batches.known.refresh(self._lease_start.leased if self._lease_start else ())
        if self._starts is None:
            self._starts = self._resolve_starts()
        return dict(self._starts)

    def _resolve_starts(self) -> dict[str, TrackedShard]:
        """LATEST is the time of this attempt, never before that of the listing: a shard that closed
        in between would be passed over with what it still got."""
        known = self._batches.known
        listed, now_ms = known.lineage, self._service_now_ms()
        if self._targets is not None:
            listed, now_ms = self._targets.lineage, self._targets.frozen_ms
        retention_ms = self._guard.retention_ms
        assert retention_ms is not None
        time = ServiceTime(now_ms, retention_ms)
        try:
            position = self._options.starting_position
            if self._lease_start is not None:
                position = self._lease_start.resolve(known)
            at_ms = timestamp_to_list(position, time)
            open_at = () if at_ms is None else self._client.list_shards(at_ms).keys()
            return resolve_starts(position, listed.shards, open_at, known.expired, time)
        except IncompleteListingError as error:
            known.ask(error.to_ask)
            known.expect_news(True)
            if self._targets is not None:
                self._targets = freeze_targets(self._connection, self._guard)
            raise

    def _end(self, start: Offset | InitialOffset, plan: BatchPlan) -> Offset | InitialOffset:
        if (
            isinstance(start, Offset)
            and _positions(plan.shards) == _positions(start.shards)
            and not self._is_stale(plan)
        ):
            return start
        assert self._guard.identity is not None
        self._first_records = {
            (view.shard_id, view.place.position): view.unread[0].sequence_number
            for view in plan.views
            if view.unread
        }
        shards = {
            i: TrackedShard(place.position, self._batches.read_until_ms(i, place))
            for i, place in plan.shards.items()
        }
        starts = self._starts if isinstance(start, InitialOffset) else None
        return Offset(self._guard.identity, shards, starts)

    def _is_stale(self, plan: BatchPlan) -> bool:
        """True once a quarter of the retention period: an idle query's read-until times are written
        down, so that a restart knows that nothing was lost."""
        horizon_ms, retention_ms = self._guard.horizon_ms, self._guard.retention_ms
        if horizon_ms is None or retention_ms is None:
            return False
        stale_ms = horizon_ms + retention_ms * 3 // 4

        def is_stale(shard_id: str, place: TrackedShard) -> bool:
            written_ms = place.read_until_ms
            if written_ms is None:
                written_ms = self._planning_since_ms
            known_ms = self._batches.read_until_ms(shard_id, place)
            return known_ms is not None and written_ms < min(stale_ms, known_ms)

        return any(is_stale(i, place) for i, place in plan.shards.items() if not is_finished(place))

    # The service

    def _lease_table(self, name: str) -> Callable[[], LeaseTable]:
        return partial(open_lease_table, self._options, name, clock=self._clock)

    def _check_stream(self, offset: Offset | InitialOffset | None) -> None:
        """The stream exists, is active and is the one of the offset."""
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
        if self._checked_at is None:
            self._check_accepted_loss()
        self._checked_at = now

    def _check_accepted_loss(self) -> None:
        until_ms, now_ms = self._options.accept_data_loss_until_ms, self._service_now_ms()
        if until_ms is not None and until_ms - now_ms > MOST_ACCEPTED_AHEAD_MS:
            raise OptionError(
                f"acceptDataLossUntil is {format_ms(until_ms)}, and the service's time is "
                f"{format_ms(now_ms)}; expected at most a day ahead, since it is for one restart. "
                "To accept every loss, set failOnDataLoss=false"
            )

    def _doubt_stream(self, refusal: ResourceNotFoundError) -> None:
        """The service did not find something: raises if it is the stream itself."""
        try:
            self._guard.check()
        except TransientServiceError as error:
            logger.debug("whether the stream exists is asked again later: %s", error)
        self._warnings.warn(refusal.operation, f"will try again: {refusal}")

    def _service_now_ms(self) -> int:
        now_ms = self._client.service_clock.now_ms()
        assert now_ms is not None, "the stream has been checked, so the service has answered"
        return now_ms

    def _warn_of_outage(self, error: TransientServiceError, fresh: bool) -> None:
        never_reached = self._client.service_clock.now_ms() is None
        waited_s = self._clock.monotonic() - self._began
        if fresh and never_reached and waited_s > _FIRST_CONTACT_S:
            raise ConfigurationError(
                f"Kinesis could not be reached for {waited_s:.0f} s: {error}. Expected an answer "
                "from the service: check region, endpointUrl and the network from the driver"
            ) from None
        self._warnings.warn(error.operation or "Kinesis", f"no answer, will try again: {error}")

    # What is seen from outside

    def _tell(self, plan: BatchPlan, now_ms: int) -> StreamState:
        """The state for Spark's progress; warns of what may become an error."""
        assert self._guard.retention_ms is not None
        state = StreamState(
            stream=self._client.stream.name,
            behind=self._batches.millis_behind(now_ms),
            tracked=len(plan.shards),
            closed=sum(map(self._batches.known.is_closed, plan.shards)),
            throttles=self._client.counters.total_throttles,
        )
        for subject, concern in concerns(plan, state, self._guard.retention_ms):
            self._warnings.warn(subject, concern)
        return state


def _positions(shards: Mapping[str, TrackedShard]) -> dict[str, Position]:
    return {shard_id: shard.position for shard_id, shard in shards.items()}
