"""The moments in a query's life at which fixtures are taken.

A moment acts on the stream and runs the query in turn; when it returns, the checkpoint is taken.
Acts after the last run are what the query finds when it is started again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

Trigger = Literal["available now", "once"]


class Stage(Protocol):
    """Where a moment is played. Shards are named by their ids; the first is `shard(0)`."""

    def create(self, shards: int, sequence_digits: int = 56) -> None: ...

    def put(self, shard_id: str, count: int, due: bool = True) -> list[str]:
        """The records' sequence numbers; `due`: a correct query has to read them."""

    def split(self, shard_id: str) -> list[str]: ...

    def merge(self, shard_id: str, neighbour: str) -> str: ...

    def pass_time(self, ms: int) -> None: ...

    def now_ms(self) -> int: ...

    def run(
        self,
        options: Mapping[str, str],
        trigger: Trigger = "available now",
        fails_in: int | None = None,
    ) -> None:
        """Run the query until it ends. `fails_in`: the batch whose sink reads all and then
        fails, so that it has an offset and no commit. The options of the last run are those of
        the restart."""


def shard(index: int) -> str:
    return f"shardId-{index:012d}"


HORIZON = {"startingPosition": "TRIM_HORIZON"}


def batch_0_uncommitted(stage: Stage) -> None:
    """Numbers of 55 and 56 digits; more records when it goes on."""
    stage.create(2, sequence_digits=55)
    stage.put(shard(0), 30)
    stage.put(shard(1), 3)
    stage.run(HORIZON, fails_in=0)
    stage.put(shard(0), 2)
    stage.put(shard(1), 2)


def batch_0_uncommitted_at_latest(stage: Stage) -> None:
    """LATEST was pinned before the records that are there when it goes on."""
    stage.create(2)
    stage.put(shard(0), 3, due=False)
    stage.pass_time(5_000)
    stage.run({"startingPosition": "LATEST"}, fails_in=0)
    stage.put(shard(0), 2)
    stage.put(shard(1), 2)


def between_batches(stage: Stage) -> None:
    """One shard has never had a record."""
    stage.create(3)
    stage.put(shard(0), 3)
    stage.put(shard(1), 2)
    stage.run(HORIZON)
    stage.put(shard(0), 2)
    stage.run(HORIZON)
    stage.put(shard(1), 2)
    stage.put(shard(2), 2)


def parent_at_shard_end(stage: Stage) -> None:
    """The parent was drained by the last committed batch; its children have not been read."""
    stage.create(2)
    stage.put(shard(0), 3)
    stage.run(HORIZON)
    stage.put(shard(0), 2)
    children = stage.split(shard(0))
    for child in children:
        stage.put(child, 2)
    stage.run(HORIZON, "once")
    stage.put(children[0], 1)
    stage.put(shard(1), 1)


def reshard_uncommitted(stage: Stage) -> None:
    """The batch that drains the parent was not committed, and the children split meanwhile."""
    stage.create(2)
    stage.put(shard(0), 3)
    stage.run(HORIZON)
    stage.put(shard(0), 2)
    left, right = stage.split(shard(0))
    stage.put(left, 2)
    stage.run(HORIZON, fails_in=1)
    stage.put(left, 1)
    for grandchild in stage.split(left):
        stage.put(grandchild, 2)
    stage.put(right, 1)


def merge_half_drained(stage: Stage) -> None:
    """Of a merge's parents one is at SHARD_END and the other is not, under a limit."""
    stage.create(2)
    stage.put(shard(0), 5)
    for _ in range(4):
        stage.pass_time(60_000)
        stage.put(shard(1), 5)
    child = stage.merge(shard(0), shard(1))
    stage.put(child, 3)
    stage.pass_time(60_000)
    stage.run({**HORIZON, "maxRecordsPerTrigger": "5"}, fails_in=2)
    stage.put(child, 2)


def children_uncommitted(stage: Stage) -> None:
    """SHARD_END of the parent is committed; the batch with the first of its children is not."""
    stage.create(1)
    stage.put(shard(0), 3)
    children = stage.split(shard(0))
    for child in children:
        stage.put(child, 2)
    stage.run(HORIZON, fails_in=1)
    for child in children:
        stage.put(child, 2)


def at_timestamp(stage: Stage) -> None:
    """One shard has no record since that time: it is still at the time itself."""
    stage.create(2)
    stage.put(shard(0), 3, due=False)
    stage.put(shard(1), 3, due=False)
    stage.pass_time(60_000)
    start = {"startingPosition": f"AT_TIMESTAMP {stage.now_ms() - 1_000}"}
    stage.put(shard(0), 3)
    stage.pass_time(5_000)
    stage.run(start)
    stage.put(shard(0), 1)
    stage.put(shard(1), 2)


def per_shard_map(stage: Stage) -> None:
    """Every kind of position in the starts, which only the uncommitted batch 0 holds."""
    stage.create(3)
    read = stage.put(shard(0), 3, due=False)
    stage.put(shard(0), 2)
    stage.put(shard(1), 2, due=False)
    stage.split(shard(1))
    stage.put(shard(3), 2)
    stage.put(shard(2), 2, due=False)
    stage.pass_time(5_000)
    starts = {
        shard(0): f"AFTER_SEQUENCE_NUMBER {read[-1]}",
        shard(1): "SHARD_END",
        shard(2): f"AT_TIMESTAMP {stage.now_ms() - 1_000}",
        "default": "TRIM_HORIZON",
    }
    stage.put(shard(2), 1)
    stage.pass_time(5_000)
    stage.run({"startingPosition": json.dumps(starts)}, fails_in=0)
    for index in (0, 2, 3, 4):
        stage.put(shard(index), 1)


MOMENTS: dict[str, Callable[[Stage], None]] = {
    moment.__name__: moment
    for moment in (
        batch_0_uncommitted,
        batch_0_uncommitted_at_latest,
        between_batches,
        parent_at_shard_end,
        reshard_uncommitted,
        merge_half_drained,
        children_uncommitted,
        at_timestamp,
        per_shard_map,
    )
}
