"""A driver, and executors, whose clock is an hour off: only the service's clock counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kinesis_source.errors import DataLossError, OptionError
from kinesis_source.testing import ManualClock
from tests.support.connection import register, unregister
from tests.support.engine import QueryFailed
from tests.unit.planning.local_query import HOUR_MS, LocalQuery

DAY_MS = 24 * HOUR_MS

MakeWrongQuery = Callable[..., LocalQuery]


class WrongClock(ManualClock):
    """The time of `right`, off by `off_ms` where it is told as a time of day."""

    def __init__(self, right: ManualClock, off_ms: int) -> None:
        super().__init__()
        self._right = right
        self._off_ms = off_ms

    def now_ms(self) -> int:
        return self._right.now_ms() + self._off_ms

    def monotonic(self) -> float:
        return self._right.monotonic()

    def sleep(self, seconds: float) -> None:
        self._right.sleep(seconds)


@pytest.fixture(params=[-HOUR_MS, HOUR_MS], ids=["an hour behind", "an hour ahead"])
def make_wrong_query(request: pytest.FixtureRequest) -> Iterator[MakeWrongQuery]:
    """Queries whose own clock is wrong; `query.clock` is the service's."""
    made: list[tuple[LocalQuery, str]] = []

    def make(shards: int = 1, **options: str) -> LocalQuery:
        query = LocalQuery(shards, **options)
        url = register(query.kinesis, WrongClock(query.clock, request.param))
        query.options["endpointUrl"] = url
        made.append((query, url))
        return query

    yield make
    for query, url in made:
        query.close()
        unregister(url)


def test_latest_is_now(make_wrong_query: MakeWrongQuery) -> None:
    query = make_wrong_query(startingPosition="LATEST")
    query.put(query.shard(), 3)
    query.clock.advance(5_000)
    query.trigger()
    put = query.put(query.shard(), 3)
    query.settle()
    assert query.numbers() == put


@pytest.mark.parametrize("ago_ms", [2_000, 30 * 60_000, 90 * 60_000])
def test_a_start_in_the_near_past(make_wrong_query: MakeWrongQuery, ago_ms: int) -> None:
    query = make_wrong_query()
    query.put(query.shard(), 3)
    query.clock.advance(60_000)
    at_ms = query.clock.now_ms()
    put = query.put(query.shard(), 3)
    query.clock.advance(ago_ms)
    query.options["startingPosition"] = f"AT_TIMESTAMP {at_ms}"
    query.settle()
    assert query.numbers() == put


def test_a_start_in_the_future_is_refused(make_wrong_query: MakeWrongQuery) -> None:
    query = make_wrong_query()
    query.options["startingPosition"] = f"AT_TIMESTAMP {query.clock.now_ms() + 60_000}"
    with pytest.raises(QueryFailed) as failed:
        query.trigger()
    assert isinstance(failed.value.original, OptionError)


def test_the_lag_is_reckoned_on_the_services_clock(make_wrong_query: MakeWrongQuery) -> None:
    query = make_wrong_query(maxRecordsPerTrigger="20")
    for _ in range(100):
        query.clock.advance(1_000)
        query.put(query.shard(), 5)
    query.trigger(1, gap_ms=0)
    report = query.engine.last_report
    assert isinstance(report, dict)
    assert 60_000 < report["millisBehindLatest"]["max"] <= 100_000
    query.settle()
    report = query.engine.last_report
    assert isinstance(report, dict)
    assert report["millisBehindLatest"]["max"] == 0
    query.check_complete()


def test_half_an_hour_before_the_retention_nothing_is_lost(
    make_wrong_query: MakeWrongQuery,
) -> None:
    """By a clock an hour ahead the record had gone; it is there, and is read."""
    query = make_wrong_query()
    query.put(query.shard())
    query.settle()
    query.stop()
    query.put(query.shard(), 3)
    query.clock.advance(DAY_MS - HOUR_MS // 2)
    query.settle()
    query.check_complete()


def test_half_an_hour_past_the_retention_is_loss(make_wrong_query: MakeWrongQuery) -> None:
    """By a clock an hour behind the records were still there."""
    query = make_wrong_query()
    query.put(query.shard())
    query.settle()
    query.stop()
    query.put(query.shard(), 3)
    query.clock.advance(DAY_MS + HOUR_MS // 2)
    with pytest.raises(QueryFailed) as failed:
        query.trigger(3)
    assert isinstance(failed.value.original, DataLossError)


def test_a_query_that_idles_for_days_raises_no_alarm(make_wrong_query: MakeWrongQuery) -> None:
    query = make_wrong_query(2)
    query.put(query.shard(0), 3)
    query.settle()
    for _ in range(30):
        query.trigger(2, gap_ms=2 * HOUR_MS)
    query.stop()
    query.clock.advance(12 * HOUR_MS)
    query.put(query.shard(1), 2)
    query.settle()
    query.check_complete()
