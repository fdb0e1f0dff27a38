"""Another reader that uses up the quotas of every shard: the query gets its share, slowly."""

from __future__ import annotations

import logging
import math
import random
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from botocore.exceptions import ClientError

from kinesis_source.testing import LocalKinesis, ManualClock
from tests.unit.planning.local_query import STREAM, LocalQuery

#: Between its calls: five a second, less what a call takes.
LEAST_MS, MOST_MS = 200, 240
#: The most in one page: it takes five seconds of a shard's 2 MB/s.
PAGE_BYTES = 10_000_000


class CrowdedClock(ManualClock):
    """While its time passes, somebody else acts: five times a second, less what a call takes."""

    def __init__(self) -> None:
        super().__init__()
        self.others: Callable[[], None] | None = None
        self._rng = random.Random(5)
        self._next_ms = self.now_ms()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.advance(math.ceil(seconds * 1_000))

    def advance(self, ms: int) -> None:
        end_ms = self.now_ms() + ms
        while self.others is not None and self._next_ms <= end_ms:
            super().advance(max(0, self._next_ms - self.now_ms()))
            self.others()
            self._next_ms = self.now_ms() + self._rng.randint(LEAST_MS, MOST_MS)
        super().advance(end_ms - self.now_ms())


class Neighbour:
    """Reads every shard, and what is worth it over and over. `got`: its pages; `refused`: its
    throttles."""

    def __init__(self, kinesis: LocalKinesis) -> None:
        self._client = kinesis.in_process_client()
        self._kinesis = kinesis
        self._iterators: dict[str, str] = {}
        self.got = self.refused = self.got_bytes = 0

    def __call__(self) -> None:
        for shard_id in self._kinesis.open_shards(STREAM):
            try:
                self._read(shard_id)
            except ClientError:
                self.refused += 1

    def _read(self, shard_id: str) -> None:
        if shard_id not in self._iterators:
            self._iterators[shard_id] = self._client.get_shard_iterator(
                StreamName=STREAM, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
        page = self._client.get_records(ShardIterator=self._iterators[shard_id])
        self._iterators[shard_id] = page["NextShardIterator"]
        self.got += 1
        size = sum(len(record["Data"]) for record in page["Records"])
        self.got_bytes += size
        if size > PAGE_BYTES // 2 and not page["MillisBehindLatest"]:
            del self._iterators[shard_id]  # once more


@pytest.fixture
def crowded() -> Iterator[tuple[LocalQuery, Neighbour]]:
    query = LocalQuery(2, clock=CrowdedClock(), quotas=True)
    yield query, Neighbour(query.kinesis)
    query.close()


def clock_of(query: LocalQuery) -> CrowdedClock:
    assert isinstance(query.clock, CrowdedClock)
    return query.clock


def begin(query: LocalQuery, neighbour: Neighbour) -> None:
    """The query has read what there is; the neighbour comes."""
    query.settle(most=200)
    clock_of(query).others = neighbour


def run_for_ten_minutes(query: LocalQuery) -> list[int]:
    """A record a second for each shard; how many rows there were after each minute."""
    rng, rows = random.Random(7), []
    begun_ms = query.clock.now_ms()
    for minute in range(1, 11):
        while query.clock.now_ms() < begun_ms + minute * 60_000:
            for number in (0, 1):
                query.put(query.shard(number))
            query.trigger(1, gap_ms=rng.randint(700, 1_500))
        rows.append(len(query.numbers()))
    return rows


def throttles(query: LocalQuery, neighbour: Neighbour) -> int:
    """The query's own."""
    return sum(query.kinesis.throttled.values()) - neighbour.refused


def test_beside_a_reader_that_makes_five_calls_a_second(
    crowded: tuple[LocalQuery, Neighbour], caplog: pytest.LogCaptureFixture
) -> None:
    query, neighbour = crowded
    caplog.set_level(logging.WARNING)
    begin(query, neighbour)
    before = throttles(query, neighbour)
    rows = run_for_ten_minutes(query)
    assert neighbour.got > 10 * 60 * 2 * 2
    assert min(now - then for then, now in pairwise(rows)) > 80, "it keeps up, minute by minute"
    assert throttles(query, neighbour) - before < 10 * 20
    assert len(caplog.records) <= 10 * 2, "one a minute and shard"
    query.settle()
    query.check_complete()


def test_beside_a_reader_that_takes_two_megabytes_a_second_too(
    crowded: tuple[LocalQuery, Neighbour], caplog: pytest.LogCaptureFixture
) -> None:
    """Each of its pages blocks a shard for five seconds: the query gets on in leaps."""
    query, neighbour = crowded
    for number in (0, 1):
        query.put(query.shard(number), 60, size=PAGE_BYTES // 20)
    begin(query, neighbour)
    caplog.clear()
    caplog.set_level(logging.WARNING)
    before, begun_ms = throttles(query, neighbour), query.clock.now_ms()
    rows = run_for_ten_minutes(query)
    minutes = (query.clock.now_ms() - begun_ms) / 60_000
    assert neighbour.got_bytes > 10 * 60 * 2 * 1_800_000
    assert rows[-1] > rows[0]
    assert throttles(query, neighbour) - before < 60 * minutes
    concerns = [text for r in caplog.records if (text := r.getMessage()).startswith("throttles: ")]
    assert minutes - 3 <= len(concerns) <= minutes
    assert re.match(r"throttles: shardId-00000000000[01] has been throttled for \d", concerns[-1])
    clock_of(query).others = None
    query.settle()
    query.check_complete()
