"""What is seen from outside: a line in the log for each batch, and the stream's state for Spark's
progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinesis_source.aws.client import CallCounts
from kinesis_source.core.times import format_ms


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


@dataclass(frozen=True, slots=True)
class BatchReport:
    """`read`, `waiting`, `finished`: numbers of shards; waiting are those that stay where they are
    though they may hold more (their parent, the limits or the service makes them wait).
    `first_ms`, `last_ms`: arrival times of the first and last record known of the batch."""

    stream: str
    read: int
    waiting: int
    finished: int
    first_ms: int | None
    last_ms: int | None
    behind_ms: int
    calls: CallCounts
    planning_s: float

    def line(self) -> str:
        span = (
            f"records from {format_ms(self.first_ms)} to {format_ms(self.last_ms)}"
            if self.first_ms is not None
            else "no records"
        )
        calls = ", ".join(f"{name} {count}" for name, count in sorted(self.calls.calls.items()))
        return (
            f"{self.stream}: batch planned in {self.planning_s * 1000:.0f} ms; shards: {self.read} "
            f"read, {self.waiting} waiting, {self.finished} finished; {span}; "
            f"{self.behind_ms} ms behind latest; calls: {calls or 'none'}; "
            f"throttles: {self.calls.throttles}"
        )
