"""The table of calls in docs/tuning.md: `python -m tests.docs.call_costs` prints it.

One shard of a local stream with the service's quotas, its clock moved by hand, read by a query that
is driven as Spark drives it, by default options and triggers without pause. Spark's own time is not
in it: with it batches are longer, and there are fewer calls a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from kinesis_source.testing import ManualClock
from tests.support.tasks import ReadJob
from tests.unit.planning.local_query import STREAM, LocalQuery

SECONDS = 120


@dataclass(frozen=True)
class Situation:
    """`per_second` records of `size` bytes arrive while it is measured; `backlog` were there
    before."""

    name: str
    per_second: int = 0
    size: int = 1_000
    backlog: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


SITUATIONS = (
    Situation("quiet"),
    Situation("1 record a second", per_second=1),
    Situation("500 records of 1 KB a second", per_second=500),
    Situation("1 MB/s, all that a shard takes", per_second=1_000),
    Situation("behind, with 300 MB to read", size=10_000, backlog=30_000),
    Situation("quiet, `minFetchPeriod=5s`", options={"minFetchPeriod": "5s"}),
    Situation(
        "100 records a second, `minFetchPeriod=5s`",
        per_second=100,
        options={"minFetchPeriod": "5s"},
    ),
)


class BusyClock(ManualClock):
    """Records arrive while it moves, `per_second` from `begin` on."""

    def __init__(self) -> None:
        super().__init__()
        self._arrivals: Iterator[int] = iter(())
        self._put: Callable[[int], object] = lambda arrival_ms: None
        self._due_ms: int | None = None

    def begin(self, per_second: int, put: Callable[[int], object]) -> None:
        begin_ms, count = self.now_ms(), per_second * SECONDS
        self._arrivals = (begin_ms + number * 1_000 // per_second for number in range(count))
        self._put, self._due_ms = put, next(self._arrivals, None)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._let_arrive()

    def advance(self, ms: int) -> None:
        super().advance(ms)
        self._let_arrive()

    def _let_arrive(self) -> None:
        while self._due_ms is not None and self._due_ms <= self.now_ms():
            self._put(self._due_ms)
            self._due_ms = next(self._arrivals, None)


def calls_of(situation: Situation) -> list[float]:
    """A second: GetRecords of the planner and of the tasks, GetShardIterator of both, and how many
    calls were throttled."""
    clock = BusyClock()
    query = LocalQuery(clock=clock, quotas=True, **situation.options)
    data = b"." * situation.size

    def put(arrival_ms: int) -> object:
        return query.kinesis.put_to_shard(STREAM, query.shard(), data, "key", arrival_ms=arrival_ms)

    for number in range(situation.backlog):
        clock.advance(number % 10)
        put(clock.now_ms())
    if not situation.backlog:
        query.settle()
    in_tasks: Counter[str] = Counter()
    run = ReadJob.run

    def counting(job: ReadJob, *args: object) -> object:
        before = _calls(query)
        rows = run(job, *args)  # type: ignore[arg-type]
        in_tasks.update(_calls(query) - before)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadJob, "run", counting)
        before, begin_ms = _calls(query), clock.now_ms()
        throttled_before = query.kinesis.throttled.total()
        clock.begin(situation.per_second, put)
        while clock.now_ms() < begin_ms + SECONDS * 1_000:
            query.trigger(1, gap_ms=1)
    all_calls = _calls(query) - before
    seconds = (clock.now_ms() - begin_ms) / 1_000
    throttled = query.kinesis.throttled.total() - throttled_before
    query.stop()
    query.close()
    planner = all_calls - in_tasks
    return [
        count / seconds
        for count in (
            planner["GetRecords"],
            in_tasks["GetRecords"],
            all_calls["GetShardIterator"],
            throttled,
        )
    ]


def _calls(query: LocalQuery) -> Counter[str]:
    calls: Counter[str] = Counter()
    for (operation, _), count in query.kinesis.calls.items():
        calls[operation] += count
    return calls


def table() -> str:
    lines = [
        "| the shard is | GetRecords, planner | GetRecords, tasks | GetShardIterator | throttled |",
        "|---|---|---|---|---|",
    ]
    for situation in SITUATIONS:
        cells = " | ".join(f"{calls:.1f}" for calls in calls_of(situation))
        lines.append(f"| {situation.name} | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table())
