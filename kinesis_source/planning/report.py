"""What a batch looks like from outside: one line in the log, and the lag for Spark's progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinesis_source.aws.client import CallCounts
from kinesis_source.core.loss import format_ms


@dataclass(frozen=True, slots=True)
class Lag:
    """Milliseconds behind the tip by shard, for the shards that are being read."""

    by_shard: Mapping[str, int]

    @property
    def maximum(self) -> int:
        return max(self.by_shard.values(), default=0)

    def as_json(self) -> dict[str, object]:
        """For `reportLatestOffset`; Spark shows it as the source's `latestOffset`."""
        total = sum(self.by_shard.values())
        return {
            "millisBehindLatest": {
                "max": self.maximum,
                "total": total,
                "shards": dict(self.by_shard),
            }
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
