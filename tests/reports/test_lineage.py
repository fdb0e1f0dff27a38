"""Reports of shards that were skipped, read twice or read too early after a reshard.

Each test is named after its row in docs/reports.md.
"""

from __future__ import annotations

import random

import pytest

from kinesis_source.core.hashkeys import tiles
from kinesis_source.testing import FaultKind
from tests.support.engine import Progress
from tests.unit.planning.local_query import STREAM, LocalQuery, MakeQuery


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize("operation", ["ListShards", "GetShardIterator", "GetRecords"])
@pytest.mark.parametrize("kind", ["internal", "reset", "truncated_consistent"])
def test_row_13_a_failing_call_is_no_data_loss(
    make_query: MakeQuery, kind: FaultKind, operation: str, fail_on_data_loss: str
) -> None:
    """Whatever the option says: neither does the query stop, nor does it go on without records."""
    query = make_query(2, failOnDataLoss=fail_on_data_loss, shardFetchInterval="1s")
    for number in (0, 1):
        query.put(query.shard(number), 5)
    query.settle()
    for number in (0, 1):
        query.put(query.shard(number), 5)
    query.trigger()
    for number in (0, 1):
        query.put(query.shard(number), 5)
        for child in query.kinesis.split(STREAM, query.shard(number)):
            query.put(child, 5)
    query.stop()
    query.fault(kind, operation, times=25)
    # What a listing lacks the service is asked for.
    query.kinesis.hide(STREAM, query.shard(0), listings=5)
    query.trigger(10, gap_ms=2_000)
    query.kinesis.clear_faults()
    query.settle()
    query.check_complete()


@pytest.mark.parametrize("seed", range(4))
def test_row_49_the_order_within_a_key_over_ten_reshards(make_query: MakeQuery, seed: int) -> None:
    """The counter of a key never goes back at the sink, across batches and inside one, though
    parents are held up while their children could be read."""
    rng = random.Random(seed)
    query = make_query(shardFetchInterval="1s")
    counts = dict.fromkeys((f"key {number}" for number in range(8)), 0)

    def put(records: int) -> None:
        for _ in range(records):
            key = rng.choice(list(counts))
            query.kinesis.put(STREAM, b"%d" % counts[key], key)
            counts[key] += 1

    for reshard in range(10):
        query.trigger(rng.randrange(3), gap_ms=700)
        put(rng.randrange(1, 130))
        shards = query.kinesis.open_shards(STREAM)
        if reshard % 2:
            query.kinesis.merge(STREAM, *shards[:2])
        else:
            query.kinesis.split(STREAM, shards[0])
        until_ms = query.clock.now_ms() + rng.randrange(10_000)
        query.fault("throttle", "GetRecords", shard_id=rng.choice(shards), until_ms=until_ms)
        put(20)
        query.trigger(5, gap_ms=1_100)
    query.settle()
    counters: dict[object, list[int]] = {key: [] for key in counts}
    for batch in sorted(query.batches):
        for key, data, *_ in query.batches[batch]:
            counters[key].append(int(bytes(data)))  # type: ignore[call-overload]
    assert counters == {key: list(range(count)) for key, count in counts.items()}, f"seed {seed}"


@pytest.mark.parametrize("position", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"])
@pytest.mark.parametrize("hidden", [0, 2, 4])
def test_row_53_a_shard_that_one_listing_lacks(
    make_query: MakeQuery, hidden: int, position: str
) -> None:
    """Whether when the query starts or later: the unfinished shards of every offset cover the
    hash-key space exactly once."""
    query = make_query(5, shardFetchInterval="1s")
    query.clock.advance(10_000)
    if position == "AT_TIMESTAMP":
        position += f" {query.clock.now_ms() - 1_000}"
    query.options["startingPosition"] = position
    query.clock.advance(2_000)
    query.kinesis.hide(STREAM, query.shard(hidden))
    query.trigger()
    query.clock.advance(2_000)
    for number in range(5):
        query.put(query.shard(number), 2)
    query.kinesis.hide(STREAM, query.shard(hidden), listings=3)
    query.settle()
    query.check_complete()
    check_coverage(query)


def check_coverage(query: LocalQuery) -> None:
    shards = query.kinesis.ledger(STREAM).shards
    for batch in query.offsets:
        assert tiles(shards[i].hash_range for i in query.offset(batch).shards), f"batch {batch}"


def test_row_58_the_ending_sequence_number_is_never_asked_for(make_query: MakeQuery) -> None:
    """No record has it, and the local stream refuses it as AWS does: a refusal would show."""
    query = make_query(shardFetchInterval="1s")
    for _ in range(3):
        shard_id = query.kinesis.open_shards(STREAM)[0]
        query.put(shard_id, 2)
        query.settle()
        query.kinesis.split(STREAM, shard_id)
        query.settle()
        query.stop()
        assert query.trigger() == [Progress.IDLE]
    query.check_complete()
