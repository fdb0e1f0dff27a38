"""A law over random histories: whoever follows ChildShards from the first shards on reads
exactly the ledger, and the stream's own records say the same as what was put."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kinesis_source.core.hashkeys import hash_key_of, tiles
from kinesis_source.testing import Fault, InProcessClient, LocalKinesis, ManualClock


def read_shard(client: InProcessClient, shard_id: str) -> tuple[list[int], list[str]]:
    """All sequence numbers of a shard, and its children's IDs if it has ended."""
    answer = client.get_shard_iterator(
        StreamName="orders", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )
    page: dict[str, Any] = {"NextShardIterator": answer["ShardIterator"]}
    numbers: list[int] = []
    while "NextShardIterator" in page:
        page = client.get_records(ShardIterator=page["NextShardIterator"], Limit=5)
        numbers += [int(record["SequenceNumber"]) for record in page["Records"]]
        if page["MillisBehindLatest"] == 0 and not page["Records"]:
            break
    return numbers, [child["ShardId"] for child in page.get("ChildShards", [])]


@pytest.mark.parametrize("seed", range(40))
def test_following_child_shards_reads_the_ledger(seed: int) -> None:
    rng = random.Random(seed)
    clock = ManualClock()
    kinesis = LocalKinesis(
        clock,
        seed=seed,
        arrival_jitter_ms=rng.choice([0, 500]),
        shard_end=rng.choice(["extra_page", "last_page"]),
    )
    kinesis.create_stream("orders", shards=rng.randint(1, 3), sequence_digits=rng.choice([55, 56]))
    roots = kinesis.shards("orders")
    put: list[tuple[str, int]] = []
    for _ in range(60):
        shards = kinesis.open_shards("orders")
        match rng.randrange(10):
            case 0:
                kinesis.split("orders", rng.choice(shards))
            case 1 if len(shards) > 1:
                left = rng.randrange(len(shards) - 1)
                kinesis.merge("orders", shards[left], shards[left + 1])
            case 2:
                clock.advance(rng.choice([1, 700, 60_000]))
            case _:
                for _ in range(rng.randint(1, 8)):
                    key = f"key-{rng.randrange(30)}"
                    put.append((key, kinesis.put("orders", b"x", key).sequence_number))
        if rng.random() < 0.2:
            kinesis.inject(Fault("empty_page", times=rng.randint(1, 3)))

    ledger = kinesis.ledger("orders")
    assert tiles(ledger.shards[shard_id].hash_range for shard_id in kinesis.open_shards("orders"))
    accepted = [(record.partition_key, record.sequence_number) for record in ledger.records]
    assert sorted(accepted) == sorted(put)
    for shard in ledger.shards.values():
        for record in shard.records:
            assert record.partition_key is not None
            hash_key = hash_key_of(record.partition_key)
            assert shard.hash_range.start <= hash_key <= shard.hash_range.end
    # A key's numbers rise over its whole life, through every reshard.
    for key in {key for key, _ in put}:
        numbers = [number for put_key, number in put if put_key == key]
        assert numbers == sorted(numbers)

    client = kinesis.in_process_client()
    waiting, seen = list(roots), set()
    while waiting:
        shard_id = waiting.pop()
        if shard_id not in seen:
            seen.add(shard_id)
            numbers, children = read_shard(client, shard_id)
            facts = ledger.shards[shard_id]
            assert numbers == [record.sequence_number for record in facts.records]
            assert bool(children) == (facts.closed_ms is not None)
            waiting += children
    assert seen == set(kinesis.shards("orders"))
