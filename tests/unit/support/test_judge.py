"""The judge finds what it is there for: each invariant broken by hand once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from kinesis_source.core.loss import Loss, loss_policy
from kinesis_source.core.positions import TRIM_HORIZON
from kinesis_source.errors import DataLossError
from kinesis_source.options import Options
from kinesis_source.testing import LocalKinesis, ManualClock, PutResult, Record
from tests.support.checkpoint import Checkpoint, Row, Sink
from tests.support.judge import Judge, Window
from tests.support.losses import Alarm, Losses, parse_alarm
from tests.support.starts import Start
from tests.support.truth import Truth
from tests.support.verdict import Verdict

STREAM = "orders"
DAY_MS = 24 * 3_600_000


class Query:
    """A query whose batches the test writes itself."""

    def __init__(self, start: Start, shards: int = 1) -> None:
        self.clock = ManualClock()
        self.kinesis = LocalKinesis(clock=self.clock)
        self.kinesis.create_stream(STREAM, shards=shards)
        self.truth = Truth(lambda: self.kinesis.ledger(STREAM))
        self.checkpoint, self.sink = Checkpoint(), Sink()
        self.losses = Losses(self.truth, DAY_MS)
        self.judge = Judge(STREAM, self.truth, start, self.checkpoint, self.sink, self.losses)
        self.read_until: dict[str, int] = {}
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

    def batch(
        self,
        records: list[Record],
        positions: dict[str, str],
        read_until: dict[str, int | None] | None = None,
    ) -> None:
        """Commit a batch of these rows that ends at these positions, and judge it. `read_until`:
        where it is not the time of the last row of the shard or of its parents."""
        batch_id = len(self.checkpoint.commits)
        for record in records:
            self.read_until[record.shard_id] = record.arrival_ms
        for shard_id in positions:
            parents = self.truth.shard(shard_id).parent_ids
            inherited = max((self.read_until.get(p, 0) for p in parents), default=0)
            self.read_until.setdefault(shard_id, inherited)
        times = {**self.read_until, **(read_until or {})}
        shards = {shard_id: [position, times[shard_id]] for shard_id, position in positions.items()}
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


def test_read_until_a_time_that_is_too_late(query: Query) -> None:
    a, b = query.put("1"), query.put("2")
    late = {query.shard_id: b.arrival_ms + 1}
    with pytest.raises(Verdict, match=r"^\[read until\].*record 1"):
        query.batch([a], {query.shard_id: after(a)}, late)


def test_read_until_an_unknown_time(query: Query) -> None:
    a = query.put()
    with pytest.raises(Verdict, match=r"^\[read until\]"):
        query.batch([a], {query.shard_id: after(a)}, {query.shard_id: None})


def test_read_until_goes_back(query: Query) -> None:
    a, b = query.put("1"), query.put("2")
    query.batch_to([a])
    with pytest.raises(Verdict, match=r"^\[forward\]"):
        query.batch([b], {query.shard_id: after(b)}, {query.shard_id: a.arrival_ms - 1})


class TestLoss:
    """`a` was read, `b` was trimmed before it was, `c` is left."""

    @pytest.fixture(autouse=True)
    def _lose_b(self, query: Query) -> None:
        self.query = query
        self.a = query.put("a")
        query.batch_to([self.a])
        self.b = query.put("b")
        query.clock.advance(DAY_MS + 3_600_000)
        self.c = query.put("c")

    def alarm(self, from_ms: int | None = None, until_ms: int | None = None) -> Alarm:
        return Alarm(self.query.shard_id, from_ms, until_ms)

    def test_in_silence(self) -> None:
        with pytest.raises(Verdict, match=r"^\[loss\].*no alarm said so"):
            self.query.batch_to([self.c])

    def test_told(self) -> None:
        alarm = self.alarm(self.a.arrival_ms, self.query.clock.now_ms() - DAY_MS)
        self.query.judge.check_alarm(alarm, self.query.clock.now_ms())
        self.query.losses.told.append(alarm)
        self.query.batch_to([self.c])
        self.query.judge.check_complete()

    def test_told_of_another_time(self) -> None:
        alarm = self.alarm(self.b.arrival_ms + 1, None)
        with pytest.raises(Verdict, match=r"^\[false alarm\].*outside the span"):
            self.query.judge.check_alarm(alarm, self.query.clock.now_ms())

    def test_told_but_the_record_is_still_there(self) -> None:
        self.query.losses.told.append(self.alarm())
        d = self.query.put("d")
        with pytest.raises(Verdict, match=r"^\[rows\].*lacks its records 1 to 2"):
            self.query.batch_to([d])

    def test_lost_at_the_end(self) -> None:
        self.query.clock.advance(2 * DAY_MS)
        self.query.truth.changed()
        assert self.query.judge.unread() == {}
        with pytest.raises(Verdict, match=r"^\[loss\] the end"):
            self.query.judge.check_complete()

    def test_trimmed_under_a_retention_that_was_raised_since(self) -> None:
        self.query.kinesis.set_retention_hours(STREAM, 48)
        self.query.losses.retention_changes(2 * DAY_MS, self.query.clock.now_ms())
        self.query.batch_to([self.c])


def test_an_alarm_of_a_shard_that_was_read_to_the_tip_is_false(query: Query) -> None:
    a = query.put()
    query.clock.advance(DAY_MS)
    now_ms = query.clock.now_ms()
    query.truth.changed()
    query.batch([a], {query.shard_id: after(a)}, {query.shard_id: now_ms})
    query.clock.advance(DAY_MS // 2)
    with pytest.raises(Verdict, match=r"^\[false alarm\]"):
        query.judge.check_alarm(Alarm(query.shard_id, a.arrival_ms, now_ms), query.clock.now_ms())


def test_an_alarm_of_a_time_about_which_nothing_is_known_is_right(query: Query) -> None:
    a = query.put()
    query.batch_to([a])
    query.clock.advance(DAY_MS + 3_600_000)
    alarm = Alarm(query.shard_id, a.arrival_ms, query.clock.now_ms() - DAY_MS)
    query.judge.check_alarm(alarm, query.clock.now_ms())


def test_what_was_never_begun_may_be_trimmed() -> None:
    query = Query(Start("TRIM_HORIZON"))
    query.put()
    query.batch([], {query.shard_id: "TRIM_HORIZON"}, {query.shard_id: None})
    query.clock.advance(2 * DAY_MS)
    b = query.put()
    query.batch_to([b])
    query.judge.check_complete()


def test_the_alarm_in_an_error_is_understood() -> None:
    loss = Loss(STREAM, "shardId-000000000007", TRIM_HORIZON, "why", 1_767_225_600_123, None)
    options = Options.parse({"streamName": STREAM})
    with pytest.raises(DataLossError) as stopped:
        loss_policy(options, lambda: None, logging.getLogger(__name__))(loss)
    alarm = parse_alarm(str(stopped.value))
    assert alarm == Alarm("shardId-000000000007", 1_767_225_600_123, None)
    assert parse_alarm("something else") is None
