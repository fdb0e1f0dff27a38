"""Which stream it is, whether it can be read, and how far back its records go."""

from __future__ import annotations

import pytest

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import (
    AccessDeniedError,
    StreamNotFoundError,
    StreamNotReadyError,
    StreamRecreatedError,
    TransientServiceError,
)
from kinesis_source.testing import Fault, LocalKinesis, ManualClock

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kinesis(clock: ManualClock) -> LocalKinesis:
    kinesis = LocalKinesis(clock)
    kinesis.create_stream("orders")
    return kinesis


@pytest.fixture
def client(kinesis: LocalKinesis, clock: ManualClock) -> KinesisClient:
    return KinesisClient(kinesis.in_process_client(), StreamRef("orders"), clock)


def test_the_first_answer_says_which_stream_it_is(
    client: KinesisClient, clock: ManualClock
) -> None:
    guard = StreamGuard(client)
    assert guard.horizon_ms is None, "nothing is known before the service has answered"
    summary = guard.check()
    assert guard.identity == summary.identity
    assert guard.horizon_ms == clock.now_ms() - 24 * HOUR_MS


def test_the_horizon_moves_with_the_services_clock_and_the_retention(
    client: KinesisClient, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    guard = StreamGuard(client)
    guard.check()
    clock.advance(5 * HOUR_MS)
    assert guard.horizon_ms == clock.now_ms() - 24 * HOUR_MS
    kinesis.set_retention_hours("orders", 48)
    guard.check()
    assert guard.horizon_ms == clock.now_ms() - 48 * HOUR_MS


def test_a_stream_deleted_and_made_again_is_another(
    client: KinesisClient, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    guard = StreamGuard(client)
    guard.check()
    kinesis.delete_stream("orders")
    with pytest.raises(StreamNotFoundError, match=r"'orders' was not found.*region, endpointUrl"):
        guard.check()
    clock.advance(HOUR_MS)
    kinesis.create_stream("orders")
    with pytest.raises(StreamRecreatedError) as caught:
        guard.check()
    for words in (
        "created 2026-01-01T00:00:00.000Z",
        "created 2026-01-01T01:00:00.000Z",
        "new checkpointLocation",
    ):
        assert words in str(caught.value)


def test_the_checkpoint_of_a_stream_of_another_name_is_refused(client: KinesisClient) -> None:
    found = StreamGuard(client).check().identity
    other = StreamIdentity(found.arn.replace("orders", "returns"), found.created_ms)
    with pytest.raises(StreamRecreatedError, match="the options name") as caught:
        StreamGuard(client, other).check()
    for words in (other.arn, found.arn, "the stream that the checkpoint belongs to"):
        assert words in str(caught.value)


@pytest.mark.parametrize("status", ["CREATING", "DELETING"])
def test_a_stream_that_is_not_there_yet_or_no_more(
    client: KinesisClient, kinesis: LocalKinesis, status: str
) -> None:
    kinesis.set_status("orders", status)
    with pytest.raises(StreamNotReadyError, match=f"the status {status}; expected ACTIVE"):
        StreamGuard(client).check()


def test_a_stream_in_the_middle_of_a_reshard_can_be_read(
    client: KinesisClient, kinesis: LocalKinesis
) -> None:
    kinesis.set_status("orders", "UPDATING")
    assert StreamGuard(client).check().status == "UPDATING"


def test_what_the_call_itself_refuses_is_passed_on(
    client: KinesisClient, kinesis: LocalKinesis
) -> None:
    guard = StreamGuard(client)
    kinesis.inject(Fault("limit_exceeded", "DescribeStreamSummary"))
    with pytest.raises(TransientServiceError):
        guard.check()
    kinesis.deny("DescribeStreamSummary")
    with pytest.raises(AccessDeniedError, match="kinesis:DescribeStreamSummary"):
        guard.check()
    assert guard.identity is None
