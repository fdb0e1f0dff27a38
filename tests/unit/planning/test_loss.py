"""Positions that age, shards that go, streams that are made again: loss, and what only looks so."""

from __future__ import annotations

import logging
import re
from typing import Literal

import pytest

from kinesis_source.core.positions import SHARD_END, AfterSequenceNumber
from kinesis_source.errors import (
    DataLossError,
    OptionError,
    StreamNotFoundError,
    StreamRecreatedError,
)
from kinesis_source.testing import LocalKinesis, ManualClock
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, QueryFailed
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery

TrimmedAnswer = Literal["horizon", "spin", "refuse"]


@pytest.fixture(params=["horizon", "spin", "refuse"])
def answer(request: pytest.FixtureRequest) -> TrimmedAnswer:
    chosen: TrimmedAnswer = request.param
    return chosen


def query_with(
    make_query: MakeQuery, answer: TrimmedAnswer, shards: int = 1, **options: str
) -> LocalQuery:
    clock = ManualClock()
    kinesis = LocalKinesis(clock, trimmed_answer=answer)
    kinesis.create_stream(STREAM, shards)
    return make_query(kinesis=kinesis, clock=clock, **options)


def idle_for(query: LocalQuery, hours: int) -> int:
    """Trigger every ten minutes; how many batches there were."""
    done = query.trigger(hours * 6, gap_ms=10 * 60_000)
    return done.count(Progress.BATCH)


# A quiet stream


def test_a_position_that_ages_out_while_the_query_idles(
    make_query: MakeQuery, answer: TrimmedAnswer
) -> None:
    """Two records, then nothing for 60 hours: no alarm, a batch a quarter of the retention. The
    triggers are further apart than a shard iterator lives, so no walk may have to begin anew."""
    query = query_with(make_query, answer, shards=2)
    for number in (0, 1):
        query.put(query.shard(number))
    query.settle()
    assert 8 <= idle_for(query, 60) <= 11
    for number in (0, 1):
        query.put(query.shard(number), 2)
    query.settle()
    query.check_complete()


def test_a_position_that_ages_out_across_a_restart(
    make_query: MakeQuery, answer: TrimmedAnswer
) -> None:
    """Idle for 30 hours, down for 17, so the record of the position is long trimmed; but what
    was written down while idling says that nothing can have been lost."""
    query = query_with(make_query, answer)
    query.put(query.shard(0))
    query.settle()
    idle_for(query, 30)
    query.stop()
    put = query.put(query.shard(0), 2)
    query.clock.advance(17 * HOUR_MS)
    query.settle()
    query.check_complete()
    assert query.numbers()[-2:] == put


def test_the_idle_read_until_times_are_written_in_empty_batches(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard())
    query.settle()
    batches = len(query.batches)
    positions = {i: p.position for i, p in query.offset().shards.items()}
    assert idle_for(query, 5) == 0
    assert idle_for(query, 24) == 4
    assert [query.batches[b] for b in range(batches, len(query.batches))] == [[]] * 4
    assert {i: p.position for i, p in query.offset().shards.items()} == positions
    times = [query.offset(b).shards[query.shard()].read_until_ms for b in query.offsets]
    steps = [later - earlier for earlier, later in zip(times[-4:], times[-3:], strict=False)]
    assert all(6 * HOUR_MS <= step <= 6 * HOUR_MS + 700_000 for step in steps)


def test_an_empty_stream_is_promised_once_it_has_been_watched_for_a_while(
    make_query: MakeQuery,
) -> None:
    """TRIM_HORIZON says nothing of what was there; but having seen that nothing was, and written it
    down, the query owes what comes and goes while it is stopped."""
    query = make_query()
    query.fault("throttle", "GetRecords", times=1)
    query.settle()
    assert query.offset().shards[query.shard()].read_until_ms is None
    idle_for(query, 12)
    query.stop()
    query.put(query.shard(), 2)
    query.clock.advance(30 * HOUR_MS)
    with pytest.raises(QueryFailed, match=f"data loss in {query.shard()}"):
        query.settle()


def test_idle_times_are_kept_for_each_shard(make_query: MakeQuery) -> None:
    """A shard that could not be asked must not be taken for read because others were."""
    query = make_query(2)
    query.settle()
    query.fault("throttle", "GetRecords", shard_id=query.shard(1), times=None)
    idle_for(query, 14)
    times = {i: p.read_until_ms for i, p in query.offset().shards.items()}
    assert times[query.shard(0)] - times[query.shard(1)] > 5 * HOUR_MS


# Loss


def lose_some(query: LocalQuery) -> list[int]:
    """Read one record of the first shard, lose two, leave two; the numbers of the last."""
    query.put(query.shard(0))
    query.settle()
    query.stop()
    query.put(query.shard(0), 2)
    query.clock.advance(25 * HOUR_MS)
    return query.put(query.shard(0), 2)


def test_a_trimmed_position_stops_the_query(make_query: MakeQuery, answer: TrimmedAnswer) -> None:
    query = query_with(make_query, answer)
    lose_some(query)
    read = query.numbers()
    with pytest.raises(QueryFailed) as failed:
        query.settle()
    error = failed.value.original
    assert isinstance(error, DataLossError)
    for words in (
        f"data loss in {query.shard(0)} of stream {STREAM}",
        f"AFTER_SEQUENCE_NUMBER {read[0]}",
        "records that arrived from 2026-01-01T00:00:",
        "to 2026-01-01T01:00:",
        "failOnDataLoss=true stopped the query",
        "start the query again with acceptDataLossUntil=2026-01-02T",
    ):
        assert words in str(error)
    assert query.numbers() == read, "nothing is delivered over a gap"


def test_a_trimmed_position_is_survived_if_asked(
    make_query: MakeQuery, answer: TrimmedAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    query = query_with(make_query, answer, failOnDataLoss="false")
    left = lose_some(query)
    with caplog.at_level(logging.WARNING):
        query.settle()
    assert query.numbers()[1:] == left
    told = [r.getMessage() for r in caplog.records if "data loss in" in r.getMessage()]
    assert told
    assert all("failOnDataLoss=false: going on from the oldest" in text for text in told)
    query.options["failOnDataLoss"] = "true"
    query.stop()
    query.put(query.shard(0), 2)
    query.settle()
    assert len(query.numbers()) == 5


def test_a_stop_is_left_for_one_restart(make_query: MakeQuery, answer: TrimmedAnswer) -> None:
    """With the time that the error suggests; a loss after that time stops the query again."""
    query = query_with(make_query, answer)
    left = lose_some(query)
    with pytest.raises(QueryFailed) as failed:
        query.settle()
    suggested = re.search(r"acceptDataLossUntil=(\S+) \(", str(failed.value.original))
    assert suggested is not None
    query.options["acceptDataLossUntil"] = suggested[1]
    query.settle()
    assert query.numbers()[1:] == left
    query.stop()
    query.put(query.shard(0), 2)
    query.clock.advance(25 * HOUR_MS)
    query.put(query.shard(0), 2)
    with pytest.raises(QueryFailed, match="has passed"):
        query.settle()


def test_a_guard_is_not_left_off_for_long(make_query: MakeQuery) -> None:
    query = make_query(acceptDataLossUntil="2026-01-02T00:00:01Z")
    with pytest.raises(QueryFailed) as failed:
        query.trigger()
    assert isinstance(failed.value.original, OptionError)
    assert str(failed.value.original) == (
        "acceptDataLossUntil is 2026-01-02T00:00:01.000Z, and the service's time is "
        "2026-01-01T00:00:00.000Z; expected at most a day ahead, since it is for one restart. To "
        "accept every loss, set failOnDataLoss=false"
    )


def test_loss_while_the_query_runs_behind(make_query: MakeQuery, answer: TrimmedAnswer) -> None:
    """A limit keeps it so far behind that the horizon overtakes it, kept iterators and all."""
    query = query_with(make_query, answer, maxRecordsPerTrigger="20", minFetchPeriod="200ms")
    for _ in range(30):
        query.put(query.shard(0), 100)
        query.clock.advance(1_000)
    query.trigger(3)
    query.clock.advance(24 * HOUR_MS - 60_000)
    query.put(query.shard(0), 5)
    with pytest.raises(QueryFailed) as failed:
        query.trigger(40, gap_ms=3_000)
    assert isinstance(failed.value.original, DataLossError)
    read = query.numbers(query.shard(0))
    assert read == query.truth()[: len(read)], "up to the loss nothing is missing"


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_retention_period_that_was_lowered(
    make_query: MakeQuery, fail_on_data_loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What the query was 30 hours behind with is hidden at once, under iterators that are kept."""
    query = make_query(maxRecordsPerTrigger="50", failOnDataLoss=fail_on_data_loss)
    query.kinesis.set_retention_hours(STREAM, 48)
    for _ in range(30):
        query.put(query.shard(), 100)
        query.clock.advance(HOUR_MS)
    query.trigger(2)
    query.kinesis.set_retention_hours(STREAM, 24)
    if fail_on_data_loss == "true":
        with pytest.raises(QueryFailed) as failed:
            query.settle(most=200)
        assert isinstance(failed.value.original, DataLossError)
    else:
        query.settle(most=200)
        assert "data loss in" in caplog.text
        assert query.numbers()[-1] == query.truth()[-1]


def test_a_planned_range_whose_records_go_before_it_is_read(make_query: MakeQuery) -> None:
    """Planned ten hours after the puts, killed before the commit, replayed after they expired."""
    query = make_query()
    query.put(query.shard(), 3)
    query.clock.advance(10 * HOUR_MS)
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.trigger()
    query.clock.advance(15 * HOUR_MS)
    query.put(query.shard(), 2)
    with pytest.raises(QueryFailed) as failed:
        query.settle()
    assert isinstance(failed.value.original, DataLossError)


def test_a_planned_range_that_has_gone_from_a_shard_left_empty(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 3)
    query.clock.advance(10 * HOUR_MS)
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.trigger()
    query.clock.advance(15 * HOUR_MS)
    with pytest.raises(QueryFailed, match="records of a planned batch have been trimmed"):
        query.settle()


def test_loss_is_found_on_a_replay_although_the_stream_could_not_be_described(
    make_query: MakeQuery,
) -> None:
    query = make_query()
    query.put(query.shard())
    query.settle()
    query.kinesis.split(STREAM, query.shard())
    query.put(query.shard(1), 3)
    query.clock.advance(11_000)
    query.trigger()  # the children enter
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.trigger()
    query.clock.advance(25 * HOUR_MS)
    query.put(query.shard(1), 2)
    query.fault("limit_exceeded", "DescribeStreamSummary")
    replayed = max(query.offsets)
    with pytest.raises(QueryFailed) as failed:
        query.trigger()
    assert isinstance(failed.value.original, DataLossError)
    assert replayed not in query.batches


# Shards that have gone


def gone(query: LocalQuery) -> str:
    """The only tracked shard closes with an unread tail and expires; its open child."""
    query.put(query.shard(), 2)
    query.settle()
    query.stop()
    query.put(query.shard(), 3)
    left, right = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(25 * HOUR_MS)
    query.put(left, 2)
    query.put(right, 2)
    return left


def test_a_shard_that_has_gone_stops_the_query(make_query: MakeQuery) -> None:
    query = make_query()
    gone(query)
    with pytest.raises(QueryFailed) as failed:
        query.settle()
    error = failed.value.original
    assert isinstance(error, DataLossError)
    assert f"data loss in {query.shard()} of stream {STREAM}: the shard no longer exists" in str(
        error
    )
    assert len(query.numbers()) == 2


def test_a_shard_that_has_gone_is_survived_if_asked(make_query: MakeQuery) -> None:
    query = make_query(failOnDataLoss="false")
    left = gone(query)
    query.settle()
    assert len(query.numbers(left)) == 2
    assert len(query.numbers()) == 6
    assert query.shard() not in query.offset().shards


def test_what_its_children_get_after_that_is_promised(make_query: MakeQuery) -> None:
    """The loss was told up to the horizon of that moment: what is lost after it is told again."""
    query = make_query(failOnDataLoss="false")
    left = gone(query)
    query.settle()
    query.stop()
    query.put(left)
    query.clock.advance(30 * HOUR_MS)
    query.options["failOnDataLoss"] = "true"
    with pytest.raises(QueryFailed, match=f"data loss in {left}"):
        query.settle()


def test_a_read_until_time_does_not_go_back_where_the_retention_period_was_raised(
    make_query: MakeQuery,
) -> None:
    """A loss is told up to the horizon, which then lies before what was read."""
    query = make_query(failOnDataLoss="false")
    query.settle()
    read_until_ms = query.offset().shards[query.shard()].read_until_ms
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(25 * HOUR_MS)
    query.kinesis.set_retention_hours(STREAM, 168)
    query.settle()
    for child in children:
        assert (query.offset().shards[child].read_until_ms or 0) >= (read_until_ms or 0)


def test_that_holds_also_where_nothing_was_read_of_the_children(make_query: MakeQuery) -> None:
    query = make_query(failOnDataLoss="false")
    query.settle()
    left, _ = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(80 * HOUR_MS)
    query.trigger(3)
    assert query.shard() not in query.offset().shards
    query.put(left)
    query.stop()
    query.clock.advance(30 * HOUR_MS)
    query.options["failOnDataLoss"] = "true"
    with pytest.raises(QueryFailed, match=f"data loss in {left}"):
        query.settle()


def test_a_lost_shard_is_told_once_although_its_heirs_are_not_listed(make_query: MakeQuery) -> None:
    """It stays in the offset, finished, until they are, and across a restart: so an operator who
    has accepted the loss once is not asked again."""
    query = make_query(2, failOnDataLoss="false", shardFetchInterval="1s")
    first = query.shard(0)
    query.settle()
    query.stop()
    children = query.kinesis.split(STREAM, first)
    query.clock.advance(25 * HOUR_MS)
    query.put(children[1], 3)
    for child in children:
        query.kinesis.hide(STREAM, child, listings=4)
    query.trigger(3)
    query.stop()
    assert query.offset().shards[first].position == SHARD_END
    query.options["failOnDataLoss"] = "true"
    query.trigger(40)
    query.settle()
    assert query.offset().shards.keys() == {query.shard(1), *children}
    assert len(query.numbers()) == 3


def test_a_finished_shard_that_expires_is_no_loss(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.kinesis.split(STREAM, query.shard())
    query.settle()
    query.stop()
    query.clock.advance(23 * HOUR_MS)
    query.settle()
    query.stop()
    query.clock.advance(20 * HOUR_MS)
    query.put(query.shard(1), 2)
    query.settle()
    query.check_complete()


def test_all_that_is_tracked_has_gone_and_so_have_its_children(make_query: MakeQuery) -> None:
    """Nothing may enter before the service has called them expired; until it has, there is nothing
    to write down: an offset without shards could never be read again."""
    query = make_query(failOnDataLoss="false")
    query.put(query.shard(), 3)
    query.settle()
    query.stop()
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(1_000)
    for child in children:
        query.kinesis.split(STREAM, child)
    query.clock.advance(25 * HOUR_MS)
    for shard_id in query.kinesis.open_shards(STREAM):
        query.put(shard_id, 2)
    for child in children:
        query.fault("throttle", "GetShardIterator", shard_id=child)
    query.trigger(10, gap_ms=2_000)
    query.settle()
    assert len(query.numbers()) == 3 + 8


@pytest.mark.parametrize("fault", ["limit_exceeded", "unavailable", "reset"])
def test_a_task_waits_out_an_outage_before_it_calls_a_shard_gone(
    make_query: MakeQuery, fault: Literal["reset"], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = make_query(failOnDataLoss="false")
    query.put(query.shard(), 3)
    left, _ = query.kinesis.split(STREAM, query.shard())
    query.engine.crash_at(CrashPoint("after partitions"))
    with pytest.raises(Crashed):
        query.trigger()
    query.clock.advance(25 * HOUR_MS)
    query.start()
    query.put(left, 1)
    query.fault("internal", "GetRecords")  # wait here first, so that the stream is described later
    from tests.support.tasks import ReadJob

    run = ReadJob.run

    def with_fault(self: ReadJob, *args: object) -> object:
        query.fault(fault, "DescribeStreamSummary", times=2)
        return run(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ReadJob, "run", with_fault)
    query.trigger()
    monkeypatch.undo()
    query.settle()
    assert len(query.numbers(left)) == 1


# Another stream


@pytest.mark.parametrize("gap_ms", [1_000, 11_000], ids=["listing not due", "listing due"])
def test_a_stream_made_again_while_the_query_runs(make_query: MakeQuery, gap_ms: int) -> None:
    query = make_query(2)
    query.put(query.shard(0), 2)
    query.settle()
    read = query.numbers()
    query.kinesis.delete_stream(STREAM)
    query.kinesis.create_stream(STREAM, 2)
    query.put(query.shard(0), 2)
    query.clock.advance(gap_ms)
    with pytest.raises(QueryFailed) as failed:
        query.trigger(5)
    assert isinstance(failed.value.original, StreamRecreatedError)
    assert query.numbers() == read


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_stream_made_again_while_the_query_is_down(
    make_query: MakeQuery, fail_on_data_loss: str
) -> None:
    """Another stream is no loss that could be gone on from: refused whatever the option says."""
    query = make_query(failOnDataLoss=fail_on_data_loss)
    query.put(query.shard(), 2)
    query.settle()
    query.stop()
    query.kinesis.delete_stream(STREAM)
    query.kinesis.create_stream(STREAM)
    query.put(query.shard(), 2)
    for run in (lambda: query.trigger(), lambda: query.available_now()):
        with pytest.raises(QueryFailed) as failed:
            run()
        assert isinstance(failed.value.original, StreamRecreatedError)
        assert "new checkpointLocation" in str(failed.value.original)


def test_a_stream_made_again_before_a_replay(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.trigger()
    query.kinesis.delete_stream(STREAM)
    query.kinesis.create_stream(STREAM)
    query.put(query.shard(), 2)
    with pytest.raises(QueryFailed) as failed:
        query.trigger()
    assert isinstance(failed.value.original, StreamRecreatedError)


@pytest.mark.parametrize("gap_ms", [1_000, 11_000], ids=["listing not due", "listing due"])
def test_a_stream_deleted_while_the_query_runs(make_query: MakeQuery, gap_ms: int) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.settle()
    query.kinesis.delete_stream(STREAM)
    query.clock.advance(gap_ms)
    with pytest.raises(QueryFailed) as failed:
        query.trigger(5)
    assert isinstance(failed.value.original, StreamNotFoundError)
    assert "check streamName" in str(failed.value.original)


def test_the_end_of_a_batch_that_lost_something_can_be_gone_on_from(
    make_query: MakeQuery,
) -> None:
    """With failOnDataLoss=false the replay of a batch that lost records ends at the same place."""
    query = make_query(failOnDataLoss="false")
    query.put(query.shard(), 2)
    query.settle()
    query.engine.crash_at(CrashPoint("offset logged"))
    planned = query.put(query.shard(), 3)
    with pytest.raises(Crashed):
        query.trigger()
    query.clock.advance(25 * HOUR_MS)
    left = query.put(query.shard(), 2)
    query.settle()
    assert query.numbers()[2:] == left
    position = query.offset(max(query.offsets)).shards[query.shard()].position
    assert position == AfterSequenceNumber(left[-1])
    assert planned[-1] not in query.numbers()
