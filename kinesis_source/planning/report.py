"""What is seen from outside: the stream's state for Spark's progress, a line in the log for each
batch, and what may become an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kinesis_source.aws.client import CallCounts
from kinesis_source.core.concerns import nearing_horizon, throttled_long, waiting_long
from kinesis_source.core.lineage import is_finished
from kinesis_source.core.positions import TRIM_HORIZON
from kinesis_source.core.probes import Reached
from kinesis_source.core.times import format_ms
from kinesis_source.planning.batch import BatchPlan


@dataclass(frozen=True, slots=True)
class StreamState:
    """As of the last plan. `behind`: milliseconds behind the tip, by shard, of the shards that are
    being read. `tracked`, `closed`: how many shards the query tracks, and how many of them the
    service has closed. `throttles`: met by the planner since it started."""

    stream: str
    behind: Mapping[str, int]
    tracked: int
    closed: int
    throttles: int

    @property
    def most_behind_ms(self) -> int:
        return max(self.behind.values(), default=0)

    def as_json(self) -> dict[str, object]:
        """For `reportLatestOffset`; Spark shows it as the source's `latestOffset`. Names that
        Databricks has are Databricks'."""
        return {
            "stream": self.stream,
            "millisBehindLatest": {
                "max": self.most_behind_ms,
                "total": sum(self.behind.values()),
                "shards": dict(self.behind),
            },
            "numTotalShards": self.tracked,
            "numClosedShards": self.closed,
            "numAwsRateLimitErrors": self.throttles,
        }


def batch_line(plan: BatchPlan, state: StreamState, calls: CallCounts, planning_s: float) -> str:
    """The INFO line of a batch. The times are those of the first and last record known of it.
    Waiting are the shards that stay where they are though they may hold more: their parents, the
    limits or the service makes them wait."""
    finished = sum(is_finished(end.place) for end in plan.ends.values())
    quiet = {v.shard_id for v in plan.views if v.reached is Reached.TIP and not v.unread}
    waiting = sum(
        not is_finished(place)
        for shard_id, place in plan.shards.items()
        if shard_id not in plan.ends and shard_id not in quiet
    )
    first = [v.unread[0].arrival_ms for v in plan.views if v.unread and v.shard_id in plan.ends]
    last = [end.record.arrival_ms for end in plan.ends.values() if end.record is not None]
    span = "no records"
    if first:
        span = f"records from {format_ms(min(first))} to {format_ms(max(first + last))}"
    made = ", ".join(f"{name} {count}" for name, count in sorted(calls.calls.items()))
    return (
        f"{state.stream}: batch planned in {planning_s * 1000:.0f} ms; shards: {len(plan.ends)} "
        f"read, {waiting} waiting, {finished} finished; {span}; "
        f"{state.most_behind_ms} ms behind latest; calls: {made or 'none'}; "
        f"throttles: {calls.throttles}"
    )


def concerns(plan: BatchPlan, state: StreamState, retention_ms: int) -> Iterator[tuple[str, str]]:
    """What somebody should know before it becomes an error: pairs of subject and sentence."""
    # A start at TRIM_HORIZON promises what is left, no more.
    promised = {
        i: behind_ms
        for i, behind_ms in state.behind.items()
        if plan.shards[i].read_until_ms is not None or plan.shards[i].position != TRIM_HORIZON
        if i not in plan.unseen
    }
    for subject, concern in (
        ("retention", nearing_horizon(promised, retention_ms)),
        ("throttles", throttled_long(plan.throttles)),
        ("parents", waiting_long(plan.waits, state.behind)),
    ):
        if concern is not None:
            yield subject, concern
