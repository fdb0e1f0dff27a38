"""The service does not find something, and then does not say either whether the stream is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kinesis_source.errors import StreamNotFoundError, StreamRecreatedError
from kinesis_source.testing import LocalKinesis, ManualClock
from tests.support.engine import Progress, QueryFailed, Trigger
from tests.unit.planning.local_query import STREAM, LocalQuery


class BeforeListing(LocalKinesis):
    """A stream to which something happens right before a ListShards."""

    event: Callable[[], None] = staticmethod(lambda: None)

    def in_process_client(self) -> Any:
        client = super().in_process_client()
        list_shards = client.list_shards

        def after_the_event(**request: Any) -> Any:
            event, self.event = self.event, lambda: None
            event()
            return list_shards(**request)

        client.list_shards = after_the_event  # type: ignore[method-assign]
        return client


@pytest.fixture
def query() -> Iterator[LocalQuery]:
    clock = ManualClock()
    kinesis = BeforeListing(clock)
    kinesis.create_stream(STREAM)
    made = LocalQuery(kinesis=kinesis, clock=clock)
    made.put(made.shard(), 2)
    yield made
    made.close()


def delete_and_throttle(query: LocalQuery) -> None:
    """The stream goes, and for two more calls the service will not say what has become of it."""
    query.kinesis.delete_stream(STREAM)
    query.fault("limit_exceeded", "DescribeStreamSummary", times=2)


def test_a_stream_that_goes_while_a_batch_is_planned(query: LocalQuery) -> None:
    query.settle()
    assert isinstance(query.kinesis, BeforeListing)
    query.kinesis.event = lambda: delete_and_throttle(query)
    query.clock.advance(11_000)
    assert query.trigger(2) == [Progress.IDLE, Progress.IDLE], "no throttle leaves the planner"
    with pytest.raises(QueryFailed) as failed:
        query.trigger(5, gap_ms=2_000)
    assert isinstance(failed.value.original, StreamNotFoundError)


def test_a_stream_that_goes_while_the_targets_are_frozen(query: LocalQuery) -> None:
    assert isinstance(query.kinesis, BeforeListing)
    query.kinesis.event = lambda: delete_and_throttle(query)
    begun_ms = query.clock.now_ms()
    with pytest.raises(QueryFailed) as failed:
        query.start(Trigger.AVAILABLE_NOW)
    assert isinstance(failed.value.original, StreamNotFoundError)
    assert query.clock.now_ms() - begun_ms >= 2_000, "it was asked three times, a second apart"


def test_a_shard_of_a_stream_made_again_is_doubted_until_the_service_answers(
    query: LocalQuery,
) -> None:
    """The kept iterator is refused, and whether the stream is the same is not known yet."""
    query.settle()
    read = query.numbers()
    query.kinesis.delete_stream(STREAM)
    query.kinesis.create_stream(STREAM)
    query.put(query.shard(), 2)
    query.fault("limit_exceeded", "DescribeStreamSummary", times=3)
    with pytest.raises(QueryFailed) as failed:
        query.trigger(30, gap_ms=2_000)
    assert isinstance(failed.value.original, StreamRecreatedError)
    assert query.numbers() == read


class Replaced(LocalKinesis):
    """Once there is a `successor`, the name means that, though kept iterators go on to answer."""

    successor: LocalKinesis | None = None

    def in_process_client(self) -> Any:
        client = super().in_process_client()
        for method in ("list_shards", "describe_stream_summary"):
            setattr(client, method, self._of_today(method, getattr(client, method)))
        return client

    def _of_today(self, method: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            if self.successor is None:
                return own(**request)
            return getattr(self.successor.in_process_client(), method)(**request)

        return call


def test_a_listing_without_the_tracked_shards_has_the_stream_looked_at() -> None:
    """Absence proves nothing; but another stream under the name would look so."""
    clock = ManualClock()
    kinesis, successor = Replaced(clock), LocalKinesis(clock)
    kinesis.create_stream(STREAM, shards=3)
    query = LocalQuery(kinesis=kinesis, clock=clock)
    query.put(query.shard(2))
    query.settle()
    clock.advance(1_000)
    successor.create_stream(STREAM, shards=1)
    kinesis.successor = successor
    with pytest.raises(QueryFailed) as failed:
        query.trigger(12)
    query.close()
    assert isinstance(failed.value.original, StreamRecreatedError)
