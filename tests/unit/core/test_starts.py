"""Each kind of `startingPosition`, on whole listings and on ones that lag or lack a shard."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from kinesis_source.core.hashkeys import tiles
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
)
from kinesis_source.core.shards import Shard
from kinesis_source.core.starting_position import LATEST, PerShard, ShardStart, StartingPosition
from kinesis_source.core.starts import (
    IncompleteListingError,
    ServiceTime,
    resolve_starts,
    timestamp_to_list,
)
from kinesis_source.core.times import format_ms
from kinesis_source.errors import OptionError
from tests.unit.core.building import listing, numbers, places, shard, shard_id
from tests.unit.core.lineage_model import Query, World

NOW = 1_000_000
RETENTION = 600_000
TIME = ServiceTime(NOW, RETENTION)
HORIZON = NOW - RETENTION

# 0 is split into 1 and 2, 1 into 3 and 4; 9 covers the other half.
ROOT = shard(0, 0, 8, closed=True)
LEFT = shard(1, 0, 4, 0, closed=True)
RIGHT = shard(2, 4, 8, 0)
LEFT_LOW = shard(3, 0, 2, 1)
LEFT_HIGH = shard(4, 2, 4, 1)
OTHER = shard(9, 8, 16)
FAMILY = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]


def resolve(
    start: StartingPosition,
    known: list[Shard],
    open_at: Collection[int] = (),
    expired: Collection[int] = (),
) -> dict[str, TrackedShard]:
    return resolve_starts(
        start,
        listing(*known),
        [shard_id(n) for n in open_at],
        {shard_id(n) for n in expired},
        TIME,
    )


def a_map(default: StartingPosition, starts: dict[int, ShardStart]) -> PerShard:
    assert not isinstance(default, PerShard)
    return PerShard(default, {shard_id(n): start for n, start in starts.items()})


def without(*lacking: Shard) -> list[Shard]:
    return [s for s in FAMILY if s not in lacking]


def asked_for(start: StartingPosition, known: list[Shard], *expired: int) -> set[int]:
    with pytest.raises(IncompleteListingError) as caught:
        resolve(start, known, expired=expired)
    return numbers(caught.value.to_ask)


def at_time(ms: int) -> TrackedShard:
    return TrackedShard(AtTimestamp(ms), ms)


# The whole stream


def test_trim_horizon_is_the_oldest_listed_generation() -> None:
    assert resolve(TRIM_HORIZON, FAMILY) == places(
        {0: TrackedShard(TRIM_HORIZON), 9: TrackedShard(TRIM_HORIZON)}
    )


def test_trim_horizon_knows_no_read_until_time() -> None:
    # It promises what is left when it is read, so nothing that was trimmed before is a loss.
    cut = resolve(TRIM_HORIZON, FAMILY)
    assert {place.read_until_ms for place in cut.values()} == {None}


def test_trim_horizon_takes_the_next_generation_where_the_oldest_has_expired() -> None:
    known = without(ROOT)
    assert numbers(resolve(TRIM_HORIZON, known, expired=[0])) == {1, 2, 9}


def test_trim_horizon_with_the_oldest_shard_missing_from_one_listing_asks_for_it() -> None:
    # Its children tile the space as well, and its records would be passed over in silence.
    assert asked_for(TRIM_HORIZON, without(ROOT)) == {0}
    # Of a map the same: which shards are related to a named one takes the whole lineage.
    assert asked_for(a_map(TRIM_HORIZON, {9: LATEST}), without(ROOT)) == {0}
    assert asked_for(a_map(TRIM_HORIZON, {1: LATEST}), without(ROOT)) == {0}
    start = resolve(a_map(TRIM_HORIZON, {1: LATEST}), without(ROOT), expired=[0])
    assert numbers(start) == {1, 2, 9}


def test_trim_horizon_starts_with_a_gap_where_one_parent_of_a_merge_has_expired() -> None:
    # 2 expired before 1, so their child 5 is not of the oldest generation and waits for 1.
    known = [shard(1, 0, 4, closed=True), shard(5, 0, 8, 1, 2), OTHER]
    assert asked_for(TRIM_HORIZON, known) == {2}
    assert numbers(resolve(TRIM_HORIZON, known, expired=[2])) == {1, 9}


def test_a_gap_without_anyone_to_ask_for_means_to_list_again() -> None:
    assert asked_for(TRIM_HORIZON, without(OTHER)) == set()
    assert asked_for(TRIM_HORIZON, []) == set()
    assert asked_for(LATEST, []) == set()
    # An expired ancestor explains no gap among the shards that are left.
    assert asked_for(TRIM_HORIZON, [RIGHT, OTHER], 0) == set()


def test_latest_is_the_time_of_the_service_on_the_shards_without_children() -> None:
    assert resolve(LATEST, FAMILY) == places({n: at_time(NOW) for n in (2, 3, 4, 9)})


def test_latest_on_a_closed_shard_whose_children_are_not_listed_yet() -> None:
    assert numbers(resolve(LATEST, without(LEFT_LOW, LEFT_HIGH))) == {1, 2, 9}


@pytest.mark.parametrize("lacking", [RIGHT, LEFT_LOW, LEFT_HIGH, OTHER])
def test_latest_with_one_open_shard_missing_lists_again(lacking: Shard) -> None:
    assert asked_for(LATEST, without(lacking)) <= {0, 1}


def test_latest_needs_no_older_generation() -> None:
    assert numbers(resolve(LATEST, without(ROOT, LEFT))) == {2, 3, 4, 9}


def test_at_timestamp_is_the_shards_open_at_that_instant() -> None:
    start = AtTimestamp(HORIZON + 1)
    assert resolve(start, FAMILY, open_at=[1, 2, 9]) == places(
        {n: at_time(HORIZON + 1) for n in (1, 2, 9)}
    )


def test_at_timestamp_where_a_shard_that_was_open_then_has_expired() -> None:
    """The retention period was shorter then. Its children were made later: they are read whole."""
    start = AtTimestamp(HORIZON + 1)
    known = [LEFT, RIGHT, OTHER]
    with pytest.raises(IncompleteListingError) as caught:
        resolve(start, known, open_at=[9])
    assert numbers(caught.value.to_ask) == {0}
    heirs = {1: TrackedShard(TRIM_HORIZON), 2: TrackedShard(TRIM_HORIZON)}
    assert resolve(start, known, open_at=[9], expired=[0]) == places(
        {**heirs, 9: at_time(HORIZON + 1)}
    )
    named = a_map(start, {1: SHARD_END})
    assert resolve(named, known, open_at=[9], expired=[0]) == places(
        {**heirs, 1: TrackedShard(SHARD_END), 9: at_time(HORIZON + 1)}
    )
    # All of them.
    known = [LEFT, RIGHT, shard(7, 8, 16, 6)]
    assert numbers(resolve(start, known, open_at=[], expired=[0, 6])) == {1, 2, 7}
    # A sibling was open then, so this one was there too: the listing lacked it.
    with pytest.raises(IncompleteListingError):
        resolve(start, [LEFT, RIGHT, OTHER], open_at=[1, 9], expired=[0])


def test_at_the_instant_of_a_reshard_the_parent_is_taken_and_its_children_wait() -> None:
    # Both ends of a shard's time belong to it: the parent and the children are listed.
    start = AtTimestamp(HORIZON + 1)
    assert numbers(resolve(start, FAMILY, open_at=[0, 1, 2, 9])) == {0, 9}
    # Two reshards at one instant.
    assert numbers(resolve(start, FAMILY, open_at=[0, 1, 2, 3, 4, 9])) == {0, 9}


def test_a_shard_open_at_the_time_that_the_listing_lacks_means_to_list_again() -> None:
    start = AtTimestamp(HORIZON + 1)
    with pytest.raises(IncompleteListingError, match="open at that time but not listed") as caught:
        resolve(start, without(RIGHT), open_at=[1, 2, 9])
    assert caught.value.to_ask == set()


def test_at_timestamp_before_the_retention_is_trim_horizon() -> None:
    for ms in (HORIZON, HORIZON - 1):
        start = AtTimestamp(ms)
        assert timestamp_to_list(start, TIME) is None
        assert resolve(start, FAMILY) == resolve(TRIM_HORIZON, FAMILY)
    assert timestamp_to_list(AtTimestamp(HORIZON + 1), TIME) == HORIZON + 1


def test_a_time_in_the_future_is_refused() -> None:
    assert timestamp_to_list(AtTimestamp(NOW), TIME) == NOW
    late = AtTimestamp(NOW + 5)
    for start in (late, a_map(late, {0: TRIM_HORIZON}), a_map(LATEST, {0: LATEST, 1: late})):
        with pytest.raises(OptionError, match=r"startingPosition: .* has not come") as caught:
            timestamp_to_list(start, TIME)
        assert format_ms(NOW + 5) in str(caught.value)
        assert format_ms(NOW) in str(caught.value)


def test_only_the_default_is_listed_by_time() -> None:
    first, second = AtTimestamp(NOW - 7), AtTimestamp(NOW - 9)
    assert timestamp_to_list(a_map(first, {0: second}), TIME) == NOW - 7
    assert timestamp_to_list(a_map(LATEST, {0: second}), TIME) is None
    assert timestamp_to_list(TRIM_HORIZON, TIME) is None
    assert timestamp_to_list(LATEST, TIME) is None


# A map


def test_a_map_without_shards_is_its_default() -> None:
    for start in (LATEST, TRIM_HORIZON):
        assert resolve(PerShard(start, {}), FAMILY) == resolve(start, FAMILY)


def test_named_shards_take_their_positions_and_unrelated_ones_the_default() -> None:
    number = 10**55
    start = a_map(TRIM_HORIZON, {2: AfterSequenceNumber(number), 3: LATEST, 4: AtTimestamp(NOW)})
    assert resolve(start, FAMILY) == places(
        {
            2: TrackedShard(AfterSequenceNumber(number)),
            3: at_time(NOW),
            4: at_time(NOW),
            9: TrackedShard(TRIM_HORIZON),
        }
    )


def test_ancestors_of_a_named_shard_are_finished() -> None:
    # Not even under TRIM_HORIZON: 3 was reached, so 0 and 1 were read.
    assert numbers(resolve(a_map(TRIM_HORIZON, {3: TRIM_HORIZON}), FAMILY)) == {2, 3, 4, 9}


def test_descendants_of_a_named_shard_wait() -> None:
    assert resolve(a_map(LATEST, {0: AfterSequenceNumber(5)}), FAMILY) == places(
        {0: TrackedShard(AfterSequenceNumber(5)), 9: at_time(NOW)}
    )


def test_a_map_may_name_a_parent_and_its_child() -> None:
    cut = resolve(a_map(LATEST, {1: AfterSequenceNumber(5), 3: TRIM_HORIZON}), FAMILY)
    assert numbers(cut) == {1, 2, 3, 9}
    # 4 enters later, when 1 is finished; 0 is done, and 2 its other child is unrelated.
    assert cut[shard_id(2)] == at_time(NOW)


def test_the_second_parent_of_a_merge_is_unrelated_to_the_first() -> None:
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(5, 0, 8, 1, 2), OTHER]
    cut = resolve(a_map(LATEST, {1: AfterSequenceNumber(5)}), known)
    assert numbers(cut) == {1, 2, 9}
    # It closed at some time before now, when its child began to fill: that cannot take now over.
    assert cut[shard_id(2)] == TrackedShard(AtTimestamp(NOW), None)


def test_named_positions_before_the_retention_are_trim_horizon() -> None:
    cut = resolve(a_map(LATEST, {9: AtTimestamp(HORIZON), 2: AtTimestamp(HORIZON + 1)}), FAMILY)
    assert cut[shard_id(9)] == TrackedShard(TRIM_HORIZON)
    assert cut[shard_id(2)] == at_time(HORIZON + 1)


def test_shard_end_only_for_a_closed_shard() -> None:
    assert resolve(a_map(LATEST, {0: SHARD_END}), FAMILY)[shard_id(0)] == TrackedShard(SHARD_END)
    with pytest.raises(OptionError, match="shardId-000000000002 is open"):
        resolve(a_map(LATEST, {2: SHARD_END}), FAMILY)


def test_a_shard_that_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match="'shardId-000000000077', which the stream does not list"):
        resolve(a_map(LATEST, {77: TRIM_HORIZON}), FAMILY)


def test_a_map_on_a_listing_with_a_hole_lists_again() -> None:
    assert asked_for(a_map(TRIM_HORIZON, {3: TRIM_HORIZON}), without(OTHER)) == set()
    assert asked_for(a_map(TRIM_HORIZON, {3: TRIM_HORIZON}), without(ROOT, RIGHT)) == {0}


def test_a_map_needs_the_whole_lineage_whatever_its_default_needs() -> None:
    # LATEST alone would do with these shards; but 1 may be named, or descend from one that is.
    known = without(ROOT)
    assert numbers(resolve(LATEST, known)) == {2, 3, 4, 9}
    assert asked_for(a_map(LATEST, {9: TRIM_HORIZON}), known) == {0}
    assert numbers(resolve(a_map(LATEST, {9: TRIM_HORIZON}), known, expired=[0])) == {2, 3, 4, 9}


def test_a_map_with_a_time_as_default_takes_the_open_shards_that_are_unrelated() -> None:
    start = a_map(AtTimestamp(NOW - 5), {3: TRIM_HORIZON})
    assert resolve(start, FAMILY, open_at=[1, 2, 9]) == places(
        {2: at_time(NOW - 5), 3: TrackedShard(TRIM_HORIZON), 9: at_time(NOW - 5)}
    )


def test_what_closed_before_the_time_of_the_default_is_finished() -> None:
    # 2 was merged with the named shard: its only child waits for that, and must find 2 drained.
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(5, 0, 8, 1, 2), OTHER]
    start = a_map(AtTimestamp(NOW - 5), {1: AfterSequenceNumber(7)})
    assert resolve(start, known, open_at=[5, 9]) == places(
        {
            1: TrackedShard(AfterSequenceNumber(7)),
            2: TrackedShard(SHARD_END),
            9: at_time(NOW - 5),
        }
    )


# Over random histories, judged by the truth: what is read afterwards is what was asked for


def follow(world: World, tracked: dict[str, TrackedShard], unread: dict[str, int]) -> None:
    """Read on from `tracked`, while the stream goes on; `unread` as in `Query`.

    The batch that pins the starts plans with the listing that they were resolved from.
    """
    query = Query(world, dict(tracked), unread, remembers=world.rng.random() < 0.5)
    query.plan(world.listing(lag=0, hidden=0), eager=world.rng.random() < 0.5)
    for _ in range(10):
        before = set(world.shards)
        world.change()
        unread.update({i: 0 for i in world.shards if i not in before})
        query.plan(world.listing(lag=3, hidden=0.1), eager=world.rng.random() < 0.5)
    for _ in range(2 * len(world.shards) + 3):
        query.plan(world.listing(lag=0, hidden=0), eager=True)
    for i, true in world.shards.items():
        if i in unread:
            assert unread[i] == true.records, f"{i} is read to {unread[i]} of {true.records}"
            assert true.closed is None or query.is_done(i), f"{i} is not finished"
    assert set(query.tracked) == {t.shard.shard_id for t in world.open()}


def make_world(seed: int) -> World:
    world = World(random.Random(seed))
    world.create(world.rng.randint(1, 3))
    for _ in range(world.rng.randint(0, 12)):
        world.change()
    return world


@pytest.mark.parametrize("seed", range(100))
def test_the_start_of_a_whole_stream_is_a_cut_and_leads_to_all_that_follows(seed: int) -> None:
    world = make_world(seed)
    known = world.listing(lag=0, hidden=0)
    time = ServiceTime(world.step + 1, 1000)
    start = world.rng.choice([TRIM_HORIZON, LATEST, AtTimestamp(world.rng.randint(0, world.step))])
    at = timestamp_to_list(start, time)
    tracked = resolve_starts(start, known, () if at is None else world.open_at(at), (), time)
    assert tiles(known[i].hash_keys for i in tracked)

    match start:
        case AtTimestamp(ms):
            wanted = {i for i, t in world.shards.items() if t.closed is None or t.closed >= ms}
        case _ if start == LATEST:
            wanted = {t.shard.shard_id for t in world.open()}
        case _:
            wanted = set(world.shards)
    assert set(tracked) <= wanted
    # The model's records are counted, not timed: what is asked for by time is read from the start.
    unread = dict.fromkeys(wanted, 0)
    follow(world, dict.fromkeys(tracked, TrackedShard(TRIM_HORIZON)), unread)


@pytest.mark.parametrize("seed", range(200))
def test_a_map_leads_to_what_it_names_and_to_all_that_follows(seed: int) -> None:
    world = make_world(seed)
    rng = world.rng
    known = world.listing(lag=0, hidden=0)
    named: dict[str, ShardStart] = {}
    for i in rng.sample(sorted(known), rng.randint(1, min(4, len(known)))):
        choices: list[ShardStart] = [TRIM_HORIZON]
        if world.shards[i].records:
            choices.append(AfterSequenceNumber(rng.randint(1, world.shards[i].records)))
        if known[i].closed:
            choices.append(SHARD_END)
        named[i] = rng.choice(choices)
    default = rng.choice([TRIM_HORIZON, LATEST])
    time = ServiceTime(world.step + 1, 1000)
    tracked = resolve_starts(PerShard(default, named), known, (), (), time)

    above, below = world.ancestors(named), world.descendants(named)
    unrelated = set(world.shards) - above - below - set(named)
    unread = dict.fromkeys(below - above - set(named), 0)
    for i, start in named.items():
        match start:
            case AfterSequenceNumber(number):
                unread[i] = number
            case _ if start == TRIM_HORIZON:
                unread[i] = 0
    for i in unrelated:
        children = [c for c in unrelated if i in world.shards[c].shard.parent_ids]
        if default == TRIM_HORIZON:
            unread[i] = 0
        elif not children:
            unread[i] = world.shards[i].records
            # A shard that has closed did so at some time before: its children cannot take over now.
            read_until_ms = None if known[i].closed else time.now_ms
            assert tracked[i] == TrackedShard(AtTimestamp(time.now_ms), read_until_ms)
            # In the model a time is the number of records that were there.
            tracked[i] = TrackedShard(AtTimestamp(unread[i]))
    follow(world, tracked, unread)
