"""Read-until times around a close, and shards that have gone without having been lost."""

from __future__ import annotations

import logging

import pytest

from kinesis_source.core.positions import SHARD_END
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def check_read_until(query: LocalQuery) -> None:
    """No shard's entry claims to have been read to a time after one of its parents closed before
    it has been read itself: its own records may have arrived from then on."""
    shards = query.kinesis.ledger(STREAM).shards
    for batch in query.offsets:
        for shard_id, place in query.offset(batch).shards.items():
            closed_ms = [shards[p].closed_ms or 0 for p in shards[shard_id].parents]
            if closed_ms and str(place.position) == "TRIM_HORIZON":
                assert place.read_until_ms is not None
                assert place.read_until_ms <= max(closed_ms), f"batch {batch}, {shard_id}"
            own_ms = shards[shard_id].closed_ms
            if own_ms is not None and place.position == SHARD_END:
                assert (place.read_until_ms or 0) <= own_ms, f"batch {batch}, {shard_id}"


@pytest.mark.parametrize("tail", [0, 2, 150])
@pytest.mark.parametrize("down", [False, True])
def test_a_child_is_not_read_until_later_than_its_parent_closed(
    make_query: MakeQuery, tail: int, down: bool
) -> None:
    """The parent's last records come at the tip, as if it were still open, and the listing does not
    show the reshard yet: a probe then says nothing of the time since the close."""
    query = make_query(shardFetchInterval="5m")
    query.put(query.shard(), 2)
    query.settle()
    if down:
        query.stop()
    query.put(query.shard(), tail)
    query.clock.advance(500)
    query.kinesis.behaviour.listing_lag_ms = 60_000
    children = query.kinesis.split(STREAM, query.shard())
    for child in children:
        query.put(child, 2)
    for gap_ms in (700, 3_000, 30_000, 30_000, 5_000):
        query.clock.advance(gap_ms)
        query.trigger(1, gap_ms=0)
        check_read_until(query)
    query.settle()
    query.check_complete()
    check_read_until(query)


def test_an_end_seen_early_says_nothing_of_the_time_since_the_close(make_query: MakeQuery) -> None:
    """The last records, held back by a limit, were seen together with the end; the listing still
    shows the shard as open when they have been read, and it is looked at again."""
    query = make_query(maxRecordsPerTrigger="10")
    query.put(query.shard(), 25)
    query.clock.advance(120_000)
    query.kinesis.behaviour.listing_lag_ms = 60_000
    children = query.kinesis.split(STREAM, query.shard())
    for child in children:
        query.put(child, 2)
    query.clock.advance(5_000)
    query.available_now()
    query.clock.advance(60_000)
    query.settle()
    query.check_complete()
    check_read_until(query)


def test_a_merged_child_is_not_read_until_later_than_its_parents_closed(
    make_query: MakeQuery,
) -> None:
    query = make_query(2, shardFetchInterval="5m")
    query.settle()
    query.clock.advance(HOUR_MS)
    query.trigger()
    query.put(query.shard(0), 3)
    query.clock.advance(500)
    query.put(query.kinesis.merge(STREAM, query.shard(0), query.shard(1)), 2)
    for _ in range(8):
        query.clock.advance(20_000)
        query.trigger(1, gap_ms=0)
        check_read_until(query)
    query.settle()
    query.check_complete()


def test_a_finished_shard_that_has_expired_is_not_called_lost(
    make_query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits in the offset for children that are not listed yet; what of theirs has gone
    meanwhile is lost, and the shard that was read to its end is not."""
    query = make_query(failOnDataLoss="false")
    parent = query.shard()
    query.put(parent, 2)
    query.settle()
    query.kinesis.behaviour.listing_lag_ms = HOUR_MS
    children = query.kinesis.split(STREAM, parent)
    query.trigger(8, gap_ms=11_000)
    assert query.offset().shards.keys() == {parent}
    query.stop()
    query.clock.advance(25 * HOUR_MS)
    for child in children:
        query.put(child, 2)
    with caplog.at_level(logging.WARNING):
        query.settle()
    query.check_complete()
    assert f"data loss in {parent}" not in caplog.text
    assert query.offset().shards.keys() == set(children)


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
def test_a_shard_that_cannot_be_read_for_hours(make_query: MakeQuery, operation: str) -> None:
    """More than a thousand failures in a row: the other shard goes on, and then this one does."""
    query = make_query(2)
    query.settle()
    query.stop()
    query.fault("throttle", operation, shard_id=query.shard(0), times=None)
    query.put(query.shard(0), 2)
    query.trigger(1_200, gap_ms=9_000)
    put = query.put(query.shard(1), 2)
    query.trigger(2, gap_ms=2_000)
    assert query.numbers() == put
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()
