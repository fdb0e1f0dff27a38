"""Laws of lineage over random histories of splits and merges, judged by the truth.

A failure names its seed: `pytest -k "[17]"` runs that history again.
"""

from __future__ import annotations

import random

import pytest

from kinesis_source.core.lineage import is_finished
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import TRIM_HORIZON
from tests.unit.core.lineage_model import Query, World

SEEDS = range(120)


def begin(seed: int) -> tuple[random.Random, World, Query]:
    """A query that starts at TRIM_HORIZON on a new stream, and reads all of it."""
    rng = random.Random(seed)
    world = World(rng)
    world.create(rng.randint(1, 3))
    tracked = {i: TrackedShard(TRIM_HORIZON) for i in world.shards}
    query = Query(world, tracked, {}, remembers=rng.random() < 0.5)
    expect_all(query)
    return rng, world, query


def expect_all(query: Query) -> None:
    for i in query.world.shards:
        query.unread.setdefault(i, 0)


def settle(world: World, query: Query) -> None:
    """The faults stop and so do the puts: all must be read, in a bounded number of batches."""
    expect_all(query)
    for _ in range(2 * len(world.shards) + 3):
        query.plan(world.listing(lag=0, hidden=0), eager=True)
    left = {i for i, t in world.shards.items() if not (query.is_done(i) or t.closed is None)}
    assert not left, f"closed shards that were never finished: {sorted(left)}"
    short = {i for i, t in world.shards.items() if query.unread[i] < t.records and not t.gone}
    assert not short, f"shards that were not read: {sorted(short)}"
    assert set(query.tracked) == {t.shard.shard_id for t in world.open()}


def expire_what_was_read(world: World, query: Query, rng: random.Random) -> None:
    """Shards expire in the order in which they closed; here only what the offset has finished."""
    waiting = [
        t.closed for i, t in world.shards.items() if t.closed is not None and i not in query.done
    ]
    limit = min(waiting, default=world.step + 1)
    cut = rng.randint(0, limit)
    for true in world.shards.values():
        if true.closed is not None and true.closed < cut:
            true.gone = True


@pytest.mark.parametrize("seed", SEEDS)
def test_every_shard_is_read_once_and_parents_before_children(seed: int) -> None:
    rng, world, query = begin(seed)
    lag, hidden = rng.choice([0, 2, 6]), rng.choice([0, 0.1, 0.5])
    for _ in range(25):
        if rng.random() < 0.6:
            world.change()
            expect_all(query)
        if rng.random() < 0.2:
            expire_what_was_read(world, query, rng)
        if rng.random() < 0.1:
            query.restart()
        if rng.random() < 0.7:
            query.plan(
                world.listing(lag, hidden), eager=rng.random() < 0.5, answers=rng.choice([1, 0.5])
            )
    settle(world, query)
    assert not query.lost, f"called lost, and was not: {sorted(query.lost)}"
    assert set(query.done) == {i for i, t in world.shards.items() if t.closed is not None}


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_expires_unread_everything_else_is_read_once(seed: int) -> None:
    rng, world, query = begin(seed)
    lag, hidden = rng.choice([0, 2, 6]), rng.choice([0, 0.2])
    for _ in range(25):
        world.change()
        expect_all(query)
        if rng.random() < 0.1:
            cut = rng.randint(0, world.step)
            for i, true in world.shards.items():
                if true.closed is not None and true.closed < cut and not true.gone:
                    true.gone = True
                    # What no one reads any more is nobody's expectation.
                    query.unread[i] = max(query.unread[i], true.records)
        if rng.random() < 0.1:
            query.restart()
        if rng.random() < 0.5:
            query.plan(
                world.listing(lag, hidden), eager=rng.random() < 0.5, answers=rng.choice([1, 0.5])
            )
    for i, true in world.shards.items():
        if true.gone and i not in query.done:
            query.lost.add(i)
    settle(world, query)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_offset_grows_with_the_open_shards_not_with_the_history(seed: int) -> None:
    """Tracked are the open shards, those being drained, and finished ones with a child that still
    has to enter, or that were finished in this batch."""
    rng, world, query = begin(seed)
    for _ in range(40):
        world.change()
        expect_all(query)
        before = set(query.done)
        query.plan(world.listing(lag=0, hidden=0), eager=rng.random() < 0.5)
        for i, place in query.tracked.items():
            if is_finished(place) and i in before:
                children = [c.shard for c in world.shards.values() if i in c.shard.parent_ids]
                assert not all(
                    c.shard_id in query.tracked or query.is_done(c.shard_id) for c in children
                ), f"{i} stays although its children are tracked"
