"""What goes wrong when a query starts says so, in words for whoever started it."""

from __future__ import annotations

import pytest

from kinesis_source.core.times import format_ms
from kinesis_source.errors import (
    AccessDeniedError,
    ConfigurationError,
    CredentialsError,
    KinesisSourceError,
    OptionError,
    StreamNotFoundError,
    StreamNotReadyError,
)
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, QueryFailed, Trigger
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def failure(query: LocalQuery, trigger: Trigger = Trigger.PROCESSING_TIME) -> KinesisSourceError:
    def first_trigger() -> None:
        query.start(trigger)
        query.engine.trigger()

    with pytest.raises(QueryFailed) as failed:
        first_trigger()
    error = failed.value.original
    assert isinstance(error, KinesisSourceError)
    return error


BOTH = pytest.mark.parametrize("trigger", [Trigger.PROCESSING_TIME, Trigger.AVAILABLE_NOW])


@BOTH
def test_no_such_stream(make_query: MakeQuery, trigger: Trigger) -> None:
    query = make_query(streamName="ordres")
    error = failure(query, trigger)
    assert isinstance(error, StreamNotFoundError)
    assert "stream 'ordres' was not found" in str(error)
    assert "check streamName or streamARN, region, endpointUrl" in str(error)


@BOTH
@pytest.mark.parametrize("status", ["CREATING", "DELETING"])
def test_a_stream_that_is_not_ready(make_query: MakeQuery, status: str, trigger: Trigger) -> None:
    query = make_query()
    query.kinesis.set_status(STREAM, status)
    error = failure(query, trigger)
    assert isinstance(error, StreamNotReadyError)
    assert f"'{STREAM}' has the status {status}; expected ACTIVE" in str(error)


@BOTH
@pytest.mark.parametrize(
    "operation", ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"]
)
def test_a_role_that_may_not_call(make_query: MakeQuery, operation: str, trigger: Trigger) -> None:
    query = make_query()
    query.put(query.shard())
    query.kinesis.deny(operation)
    error = failure(query, trigger)
    assert isinstance(error, AccessDeniedError)
    known = query.kinesis.ledger("orders").stream_arn
    resource = "the stream" if operation == "DescribeStreamSummary" else known
    assert f"Allow the action kinesis:{operation} on {resource} to the" in str(error)
    assert "on the driver" in str(error)


def test_a_key_that_may_not_decrypt(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard())
    query.fault("kms_denied", "GetRecords", times=None)
    error = failure(query)
    assert isinstance(error, AccessDeniedError)
    assert "kms:Decrypt" in str(error)


def test_credentials_that_have_expired(make_query: MakeQuery) -> None:
    query = make_query()
    query.fault("expired_credentials", None, times=None)
    error = failure(query)
    assert isinstance(error, CredentialsError)
    assert "renew themselves" in str(error)


@BOTH
def test_an_endpoint_that_does_not_answer(make_query: MakeQuery, trigger: Trigger) -> None:
    query = make_query()
    query.fault("reset", None, times=None)
    begun_ms = query.clock.now_ms()
    error = failure(query, trigger)
    assert isinstance(error, ConfigurationError)
    assert "Kinesis could not be reached for 3" in str(error)
    assert "check region, endpointUrl and the network from the driver" in str(error)
    assert 30_000 <= query.clock.now_ms() - begun_ms <= 40_000


def test_a_service_that_throttles_at_the_start_is_waited_for(make_query: MakeQuery) -> None:
    """It has answered, so it is there: an outage of ten minutes is no wrong configuration."""
    query = make_query()
    query.put(query.shard())
    until_ms = query.clock.now_ms() + 600_000
    query.fault("limit_exceeded", None, until_ms=until_ms)
    query.fault("throttle", None, until_ms=until_ms)
    assert query.trigger() == [Progress.BATCH]
    query.settle()
    query.check_complete()


def test_an_endpoint_that_does_not_answer_after_a_restart_is_waited_for(
    make_query: MakeQuery,
) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.settle()
    query.stop()
    query.put(query.shard(), 2)
    query.fault("reset", None, times=None)
    assert set(query.trigger(60, gap_ms=60_000)) == {Progress.IDLE}
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()


def test_a_replay_with_an_endpoint_that_answers_late(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 2)
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.trigger()
    query.fault("reset", None, until_ms=query.clock.now_ms() + 120_000)
    query.trigger()
    query.settle()
    query.check_complete()


def test_latest_is_resolved_once_and_a_replay_reads_the_same(make_query: MakeQuery) -> None:
    """The service's time is known to the second, so what came in that second is read."""
    query = make_query(startingPosition="LATEST")
    query.clock.advance(900)
    put = query.put(query.shard(), 2)
    query.engine.crash_at(CrashPoint("offset logged"))
    with pytest.raises(Crashed):
        query.trigger()
    query.clock.advance(60_000)
    put += query.put(query.shard(), 2)
    query.settle()
    assert query.numbers() == put
    assert len(query.batches[0]) == 2


def test_a_start_in_the_future(make_query: MakeQuery) -> None:
    query = make_query()
    later_ms = query.clock.now_ms() + HOUR_MS
    query.options["startingPosition"] = f"AT_TIMESTAMP {later_ms}"
    error = failure(query)
    assert isinstance(error, OptionError)
    assert f"AT_TIMESTAMP {format_ms(later_ms)}" in str(error)


def test_a_map_that_names_an_unknown_shard(make_query: MakeQuery) -> None:
    query = make_query(startingPosition='{"shardId-000000000007": "LATEST"}')
    error = failure(query)
    assert isinstance(error, OptionError)
    assert "shardId-000000000007" in str(error)


def test_a_checkpoint_that_a_newer_release_wrote(make_query: MakeQuery) -> None:
    query = make_query()
    query.settle()
    query.stop()
    last = max(query.offsets)
    query.offsets[last] = query.offsets[last].replace('"v": 1', '"v": 2')
    error = failure(query)
    assert "found an offset of version 2; this release reads version 1" in str(error)


def test_a_checkpoint_wins_over_another_starting_position(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 3)
    query.settle()
    for position in ("TRIM_HORIZON", "LATEST", f"AT_TIMESTAMP {query.clock.now_ms() - HOUR_MS}"):
        query.stop()
        query.put(query.shard(), 2)
        query.clock.advance(5_000)
        query.options["startingPosition"] = position
        query.settle()
    query.check_complete()


@pytest.mark.parametrize("position", ["LATEST", "TRIM_HORIZON"])
def test_a_start_waits_for_a_listing_that_is_whole(make_query: MakeQuery, position: str) -> None:
    """It is asked for each second meanwhile, not once in ten."""
    query = make_query(2, startingPosition=position)
    query.kinesis.hide(STREAM, query.shard(1), listings=3)
    begun_ms = query.clock.now_ms()
    query.start()
    assert query.engine.trigger() is Progress.BATCH
    assert query.clock.now_ms() - begun_ms <= 5_000
    starts = query.offset(0).starts
    assert starts is not None
    assert starts.keys() == {query.shard(0), query.shard(1)}
    put = query.put(query.shard(1), 2)
    query.trigger(2)
    assert query.numbers() == put, "and goes on from there"


def test_a_start_by_time_reads_what_arrived_from_then_on(make_query: MakeQuery) -> None:
    query = make_query()
    query.put(query.shard(), 3)
    query.clock.advance(HOUR_MS)
    query.options["startingPosition"] = f"AT_TIMESTAMP {query.clock.now_ms()}"
    late = query.put(query.shard(), 2)
    query.clock.advance(1_000)
    for child in query.kinesis.split(STREAM, query.shard()):
        late += query.put(child, 2)
    query.clock.advance(5_000)
    query.settle()
    assert sorted(query.numbers()) == sorted(late)


def test_trim_horizon_where_the_parents_of_the_oldest_shards_have_expired(
    make_query: MakeQuery,
) -> None:
    """The listing still names them, so the service is asked whether they exist."""
    query = make_query()
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(25 * HOUR_MS)
    for child in children:
        query.put(child, 2)
    begun_ms = query.clock.now_ms()
    query.trigger(2)
    query.check_complete()
    assert query.clock.now_ms() - begun_ms <= 5_000


def test_a_generation_that_expires_while_the_start_is_resolved(make_query: MakeQuery) -> None:
    """It is listed at the first look and not at the second, which still knows of its parent."""
    query = make_query()
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(25 * HOUR_MS)
    query.put(query.kinesis.merge(STREAM, *children), 2)
    query.clock.advance(24 * HOUR_MS)
    query.options["failOnDataLoss"] = "false"
    put = query.put(query.kinesis.open_shards(STREAM)[0], 2)
    query.settle()
    assert query.numbers()[-2:] == put


def test_a_starting_map_that_names_a_parent_and_its_child(make_query: MakeQuery) -> None:
    """As lease tables do: the child waits, though it was named, until its parent is drained."""
    query = make_query()
    parents = query.put(query.shard(), 4)
    left, right = query.kinesis.split(STREAM, query.shard())
    lefts, rights = query.put(left, 3), query.put(right, 3)
    query.options["startingPosition"] = (
        f'{{"{query.shard()}": "AFTER_SEQUENCE_NUMBER {parents[1]}", "{left}": "TRIM_HORIZON"}}'
    )
    query.settle()
    order = query.numbers()
    assert sorted(order) == sorted(parents[2:] + lefts + rights)
    assert order[:2] == parents[2:]


def test_lines_that_are_lost_are_named_where_a_map_starts_at_a_trimmed_number(
    make_query: MakeQuery,
) -> None:
    query = make_query()
    old = query.put(query.shard(), 3)
    query.clock.advance(25 * HOUR_MS)
    query.put(query.shard(), 1)
    query.options["startingPosition"] = f'{{"{query.shard()}": "AFTER_SEQUENCE_NUMBER {old[0]}"}}'
    error = failure(query)
    assert "the position has been trimmed" in str(error)
    assert "from an unknown time to 2026-01-01T01:00:10" in str(error)
