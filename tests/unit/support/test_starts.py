"""What the judge expects of each starting position."""

from __future__ import annotations

import pytest

from kinesis_source.testing import LocalKinesis, ManualClock
from tests.support.starts import Start, promise
from tests.support.truth import Truth

STREAM = "orders"
PARENT, LEFT, RIGHT, MERGED = (f"shardId-{i:012d}" for i in range(4))
START_MS = 1_767_225_600_000


@pytest.fixture
def truth() -> Truth:
    """At 0 s a shard with records at 0, 1 and 2 s; split at 10 s, a record each at 11 s; merged at
    20 s, a record at 21 s."""
    clock = ManualClock(START_MS)
    kinesis = LocalKinesis(clock=clock)
    kinesis.create_stream(STREAM, shards=1)
    for _ in range(3):
        kinesis.put_to_shard(STREAM, PARENT, b"", "k")
        clock.advance(1000)
    clock.advance(7000)
    kinesis.split(STREAM, PARENT)
    clock.advance(1000)
    kinesis.put_to_shard(STREAM, LEFT, b"", "k")
    kinesis.put_to_shard(STREAM, RIGHT, b"", "k")
    clock.advance(9000)
    kinesis.merge(STREAM, LEFT, RIGHT)
    clock.advance(1000)
    kinesis.put_to_shard(STREAM, MERGED, b"", "k")
    return Truth(lambda: kinesis.ledger(STREAM))


@pytest.mark.parametrize(
    ("start", "latest_s", "expected"),
    [
        (Start("TRIM_HORIZON"), 0, {PARENT: 0, LEFT: 0, RIGHT: 0, MERGED: 0}),
        (Start(f"AT_TIMESTAMP {START_MS - 1}"), 0, {PARENT: 0, LEFT: 0, RIGHT: 0, MERGED: 0}),
        (Start(f"AT_TIMESTAMP {START_MS + 1500}"), 0, {PARENT: 2, LEFT: 0, RIGHT: 0, MERGED: 0}),
        (Start(f"AT_TIMESTAMP {START_MS + 12_000}"), 0, {LEFT: 1, RIGHT: 1, MERGED: 0}),
        (Start("LATEST"), 5, {PARENT: 3, LEFT: 0, RIGHT: 0, MERGED: 0}),
        (Start("LATEST"), 22, {MERGED: 1}),
        (Start("LATEST", {LEFT: "TRIM_HORIZON"}), 22, {LEFT: 0, MERGED: 0}),
        (Start("TRIM_HORIZON", {LEFT: "SHARD_END"}), 0, {LEFT: 1, RIGHT: 0, MERGED: 0}),
        (
            Start("LATEST", {PARENT: f"AT_TIMESTAMP {START_MS + 1000}", LEFT: "LATEST"}),
            22,
            {PARENT: 1, LEFT: 1, RIGHT: 0, MERGED: 0},
        ),
    ],
)
def test_promise(truth: Truth, start: Start, latest_s: int, expected: dict[str, int]) -> None:
    assert promise(start, truth, START_MS + latest_s * 1000) == expected


def test_after_a_sequence_number(truth: Truth) -> None:
    second = truth.shard(PARENT).records[1].sequence_number
    start = Start("LATEST", {PARENT: f"AFTER_SEQUENCE_NUMBER {second}"})
    assert promise(start, truth, START_MS)[PARENT] == 2


def test_option_text() -> None:
    assert Start("LATEST").option == "LATEST"
    assert Start("LATEST", {LEFT: "SHARD_END"}).option == (
        f'{{"default": "LATEST", "{LEFT}": "SHARD_END"}}'
    )
