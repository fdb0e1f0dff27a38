"""Reading the fixtures, and judging what a query has read in its whole life."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kinesis_source.testing import LocalKinesis
from tests.compat.history import STREAM, History
from tests.support.checkpoint import Checkpoint, Row, Sink

HERE = Path(__file__).parent

#: Shard and sequence number of each row of a batch.
Names = list[tuple[str, str]]


@dataclass(frozen=True)
class Fixture:
    """One checkpoint of one release; `batches` also has those that were not committed."""

    folder: Path
    history: History
    batches: dict[int, Names]

    @property
    def checkpoint(self) -> Checkpoint:
        """For the simulated engine. Line 1 is the log's version, line 2 Spark's own metadata."""
        logs = (self.folder / "checkpoint" / name for name in ("offsets", "commits"))
        offsets, commits = (
            {int(file.name): file.read_text().splitlines() for file in log.glob("*")}
            for log in logs
        )
        return Checkpoint(
            {batch: lines[2] for batch, lines in offsets.items()},
            {batch: lines[1] for batch, lines in commits.items()},
        )


def all_fixtures() -> list[str]:
    """`version/moment`, of every release."""
    return sorted(str(path.parent.relative_to(HERE)) for path in HERE.glob("*/*/history.json"))


def load_fixture(name: str) -> Fixture:
    folder = HERE / name
    batches = json.loads((folder / "batches.json").read_text())
    return Fixture(
        folder,
        History.parse(json.loads((folder / "history.json").read_text())),
        {int(batch): [(row[0], row[1]) for row in rows] for batch, rows in batches.items()},
    )


def sink_of(fixture: Fixture, kinesis: LocalKinesis) -> Sink:
    """The sink as the query left it: a batch that is read again must be the same."""
    rows: dict[tuple[str, str], Row] = {}
    for r in kinesis.ledger(STREAM).records:
        number = str(r.sequence_number)
        rows[r.shard_id, number] = (
            r.partition_key,
            r.data,
            STREAM,
            r.shard_id,
            number,
            r.arrival_ms * 1000,
        )
    return Sink(batches={b: [rows[name] for name in names] for b, names in fixture.batches.items()})


def judge(batches: Mapping[int, Names], fixture: Fixture, kinesis: LocalKinesis) -> None:
    """Every record that is due once, each shard in order, children in later batches than their
    parents; from the history and the stream's ledger alone."""
    read = [name for batch in sorted(batches) for name in batches[batch]]
    numbers = [number for _, number in read]
    assert len(set(numbers)) == len(numbers), "a record twice"
    assert set(numbers) == fixture.history.due
    shards = kinesis.ledger(STREAM).shards
    for shard_id, shard in shards.items():
        in_order = [int(number) for owner, number in read if owner == shard_id]
        assert in_order == sorted(in_order), f"{shard_id} out of order"
        for parent in shard.parents:
            assert _last(batches, parent) < _first(batches, shard_id), f"{shard_id} before {parent}"


def _with(batches: Mapping[int, Names], shard_id: str) -> Iterable[int]:
    return [batch for batch, rows in batches.items() if shard_id in {row[0] for row in rows}]


def _first(batches: Mapping[int, Names], shard_id: str) -> float:
    return min(_with(batches, shard_id), default=float("inf"))


def _last(batches: Mapping[int, Names], shard_id: str) -> float:
    return max(_with(batches, shard_id), default=-1)
