"""The judge finds what it is there for: each invariant broken by hand once."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kinesis_source.testing import LocalKinesis, ManualClock, PutResult, Record
from tests.support.checkpoint import Checkpoint, Row, Sink
from tests.support.judge import Judge, Verdict, Window
from tests.support.starts import Start
from tests.support.truth import Truth

STREAM = "orders"


class Query:
    """A query whose batches the test writes itself."""

    def __init__(self, start: Start, shards: int = 1) -> None:
        self.clock = ManualClock()
        self.kinesis = LocalKinesis(clock=self.clock)
        self.kinesis.create_stream(STREAM, shards=shards)
        self.truth = Truth(lambda: self.kinesis.ledger(STREAM))
        self.checkpoint, self.sink = Checkpoint(), Sink()
        self.judge = Judge(STREAM, self.truth, start, self.checkpoint, self.sink)
        self.shard_id = self.kinesis.open_shards(STREAM)[0]

    def put(self, key: str = "k", shard_id: str | None = None) -> Record:
        put: PutResult = self.kinesis.put_to_shard(STREAM, shard_id or self.shard_id, b"data", key)
        self.truth.put_order[put.sequence_number] = len(self.truth.put_order)
        self.truth.changed()
        self.clock.advance(10)
        return self.truth.shard(put.shard_id).records[-1]

    def split(self) -> tuple[str, str]:
        children = self.kinesis.split(STREAM, self.shard_id)
        self.truth.changed()
        return children

    def batch(self, records: list[Record], positions: dict[str, str]) -> None:
        """Commit a batch of these rows that ends at these positions, and judge it."""
        batch_id = len(self.checkpoint.commits)
        shards = {shard_id: [position, None] for shard_id, position in positions.items()}
        self.checkpoint.offsets[batch_id] = json.dumps({"shards": shards, "v": 1})
        self.sink.write(batch_id, [row_of(record) for record in records])
        self.checkpoint.commits[batch_id] = "{}"
        if batch_id == 0:
            self.judge.pinned(Window(self.clock.now_ms(), self.clock.now_ms()))
        self.judge.check()

    def batch_to(self, records: list[Record]) -> None:
        """As `batch`, of one shard up to the last of these records."""
        last = records[-1]
        self.batch(records, {last.shard_id: after(last)})


def row_of(record: Record) -> Row:
    return (
        record.partition_key,
        record.data,
        STREAM,
        record.shard_id,
        str(record.sequence_number),
        record.arrival_ms * 1000,
    )


def after(record: Record) -> str:
    return f"AFTER_SEQUENCE_NUMBER {record.sequence_number}"


@pytest.fixture
def query() -> Query:
    return Query(Start("TRIM_HORIZON"))


def test_good_batches_through_a_split_are_accepted(query: Query) -> None:
    a, b = query.put("x"), query.put("y")
    query.batch_to([a])
    left, right = query.split()
    query.batch([b], {query.shard_id: "SHARD_END", left: "TRIM_HORIZON", right: "TRIM_HORIZON"})
    c = query.put("x", left)
    query.batch([c], {left: after(c), right: "TRIM_HORIZON"})
    query.judge.check_complete()


@pytest.mark.parametrize(
    "rows",
    [
        lambda a, b, c: [a, c],  # lost
        lambda a, b, c: [a, b, b],  # repeated
        lambda a, b, c: [b, a, c],  # out of order
        lambda a, b, c: [b, c],  # begins too late
    ],
)
def test_rows(query: Query, rows: Callable[..., list[Record]]) -> None:
    records = [query.put(str(i)) for i in range(3)]
    with pytest.raises(Verdict, match=r"^\[rows\]"):
        query.batch_to(rows(*records))


def test_rows_across_batches(query: Query) -> None:
    a, b, c = query.put("1"), query.put("2"), query.put("3")
    query.batch_to([a, b])
    with pytest.raises(Verdict, match=r"^\[rows\] batch 1"):
        query.batch_to([b, c])


def test_rows_compare_every_column(query: Query) -> None:
    record = query.put()
    with pytest.raises(Verdict, match=r"^\[rows\]"):
        query.batch_to([record._replace(arrival_ms=record.arrival_ms + 1)])


def test_rows_before_the_start() -> None:
    query = Query(Start("LATEST"))
    old = query.put("1")
    query.clock.advance(60_000)
    query.batch([], {query.shard_id: f"AT_TIMESTAMP {query.clock.now_ms()}"})
    query.clock.advance(1)
    new = query.put("2")
    with pytest.raises(Verdict, match=r"^\[rows\]"):
        query.batch_to([old, new])


def test_complete_from_latest() -> None:
    query = Query(Start("LATEST"))
    query.put("1")
    query.clock.advance(60_000)
    query.batch([], {query.shard_id: f"AT_TIMESTAMP {query.clock.now_ms()}"})
    query.judge.check_complete()
    query.clock.advance(1)
    query.put("2")
    with pytest.raises(Verdict, match=r"^\[complete\]"):
        query.judge.check_complete()


def test_lineage_in_the_same_batch(query: Query) -> None:
    a = query.put("x")
    left, right = query.split()
    b = query.put("y", left)
    with pytest.raises(Verdict, match=r"^\[lineage\]"):
        query.batch([a, b], {query.shard_id: "SHARD_END", left: after(b), right: "TRIM_HORIZON"})


def test_keys(query: Query) -> None:
    left, right = query.split()
    first, second = query.put("same", left), query.put("same", right)
    query.batch([second], {query.shard_id: "SHARD_END", left: "TRIM_HORIZON", right: after(second)})
    with pytest.raises(Verdict, match=r"^\[keys\]"):
        query.batch([first], {left: after(first), right: after(second)})


def test_forward(query: Query) -> None:
    a = query.put()
    query.batch_to([a])
    with pytest.raises(Verdict, match=r"^\[forward\]"):
        query.batch([], {query.shard_id: "TRIM_HORIZON"})


def test_an_unfinished_shard_may_not_leave(query: Query) -> None:
    a = query.put()
    query.batch_to([a])
    left, right = query.split()
    with pytest.raises(Verdict, match=r"^\[forward\]"):
        query.batch([], {left: "TRIM_HORIZON", right: "TRIM_HORIZON"})


def test_ends_at_the_last_row(query: Query) -> None:
    a, b = query.put("1"), query.put("2")
    with pytest.raises(Verdict, match=r"^\[ends\]"):
        query.batch([a], {query.shard_id: after(b)})


def test_shard_end_of_an_open_shard(query: Query) -> None:
    a = query.put()
    with pytest.raises(Verdict, match=r"^\[ends\]"):
        query.batch([a], {query.shard_id: "SHARD_END"})


def test_shard_end_with_an_unread_tail(query: Query) -> None:
    a, _unread = query.put("1"), query.put("2")
    query.split()
    with pytest.raises(Verdict, match=r"^\[ends\]"):
        query.batch([a], {query.shard_id: "SHARD_END"})


def test_tracked_shards_are_bounded(query: Query) -> None:
    a = query.put()
    left, right = query.split()
    ended = {query.shard_id: "SHARD_END"}
    query.batch([a], {**ended, left: "TRIM_HORIZON", right: "TRIM_HORIZON"})
    query.shard_id = left
    low, high = query.split()
    ended[left] = "SHARD_END"
    tracked = {right: "TRIM_HORIZON", low: "TRIM_HORIZON", high: "TRIM_HORIZON"}
    query.batch([], {**ended, **tracked})  # the first shard is still a parent of `right`
    query.shard_id = right
    ended[right] = "SHARD_END"
    lower, upper = query.split()
    tracked = dict.fromkeys((low, high, lower, upper), "TRIM_HORIZON")
    with pytest.raises(Verdict, match=r"^\[tracked\]"):
        query.batch([], {**ended, **tracked})  # and now it is nobody's
