"""A step in a query that makes Spark run a task twice, and keeps what each attempt was given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pyspark import TaskContext
from pyspark.sql import Row

from kinesis_source.clock import SystemClock

#: A hanging attempt that nobody has killed by then fails.
LIMIT_S = 60

FirstAttempt = Literal["fails", "hangs"]


def twice(folder: Path, first: FirstAttempt) -> Callable[[Iterator[Row]], Iterator[Row]]:
    """For `mapPartitions`: passes rows on. When the first attempt of partition 0 has been given all
    its rows it fails, or hangs until it is killed."""
    clock = SystemClock()

    def step(rows: Iterator[Row]) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        attempt = (context.partitionId(), context.attemptNumber())
        given = list(rows)
        _write(folder, attempt, given)
        if attempt == (0, 0):
            if first == "hangs":
                clock.sleep(LIMIT_S)
            raise RuntimeError("this attempt fails on purpose")
        yield from given

    return step


def _write(folder: Path, attempt: tuple[int, int], given: list[Row]) -> None:
    rows = [[row.shardId, row.sequenceNumber, row.partitionKey, row.data.hex()] for row in given]
    unfinished = folder / "{}-{}.unfinished".format(*attempt)
    unfinished.write_text(json.dumps(rows))
    unfinished.rename(folder / "{}-{}.json".format(*attempt))


def attempts(folder: Path) -> dict[tuple[int, int], list[list[str]]]:
    """(partition, attempt) → its rows, in the order in which they came."""
    found = {}
    for path in folder.glob("*.json"):
        partition, attempt = path.stem.split("-")
        found[int(partition), int(attempt)] = json.loads(path.read_text())
    return found
