"""Each rule of `core.lineage` with the history that breaks the simpler one.

Shards are numbered as the service numbers them, parents first; ranges are in sixteenths.
"""

from __future__ import annotations

import pytest

from kinesis_source.core.lineage import (
    finished,
    inherited_times,
    is_finished,
    missing_shards,
    plan_entries,
    plan_leaving,
    readable_shards,
)
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import SHARD_END, TRIM_HORIZON, AtTimestamp
from kinesis_source.core.shards import Shard
from tests.unit.core.building import (
    after,
    ended,
    fresh,
    lineage,
    numbers,
    places,
    shard,
    shard_id,
)

# 0 is split into 1 and 2, 1 into 3 and 4; 9 is a stranger to all of them.
ROOT = shard(0, 0, 8, closed=True)
LEFT = shard(1, 0, 4, 0, closed=True)
RIGHT = shard(2, 4, 8, 0)
LEFT_LOW = shard(3, 0, 2, 1)
LEFT_HIGH = shard(4, 2, 4, 1)
OTHER = shard(9, 8, 16)


def entering(known: list[Shard], tracked: dict[int, TrackedShard], *expired: int) -> set[int]:
    return numbers(
        plan_entries(lineage(*known), places(tracked), {shard_id(n) for n in expired}).entering
    )


def to_ask(known: list[Shard], tracked: dict[int, TrackedShard], *expired: int) -> set[int]:
    return numbers(
        plan_entries(lineage(*known), places(tracked), {shard_id(n) for n in expired}).to_ask
    )


def leaving(
    known: list[Shard],
    start: dict[int, TrackedShard],
    tracked: dict[int, TrackedShard],
    *expired: int,
) -> set[int]:
    ids = {shard_id(n) for n in expired}
    return numbers(plan_leaving(lineage(*known), places(start), places(tracked), ids))


def readable(known: list[Shard], start: dict[int, TrackedShard], *expired: int) -> set[int]:
    return numbers(readable_shards(lineage(*known), places(start), {shard_id(n) for n in expired}))


# Entering


def test_children_enter_at_trim_horizon_once_their_parent_is_finished() -> None:
    entries = plan_entries(lineage(ROOT, LEFT, RIGHT, OTHER), places({0: ended(), 9: after(5)}), ())
    assert numbers(entries.entering) == {1, 2}
    assert all(entry.position == TRIM_HORIZON for entry in entries.entering.values())
    assert not entries.to_ask


@pytest.mark.parametrize("place", [after(5), fresh(), TrackedShard(AtTimestamp(7))])
def test_children_of_an_unfinished_parent_do_not_enter(place: TrackedShard) -> None:
    known = [ROOT, LEFT, RIGHT, OTHER]
    assert entering(known, {0: place, 9: after(5)}) == set()
    assert to_ask(known, {0: place, 9: after(5)}) == set()


def test_children_unlisted_for_a_while_enter_when_they_are_listed() -> None:
    # All tracked shards are at SHARD_END and only the listing lags: the stuck reshard.
    tracked = {0: ended(), 9: after(5)}
    assert entering([ROOT, OTHER], tracked) == set()
    assert entering([ROOT, LEFT, OTHER], tracked) == {1}
    assert entering([ROOT, LEFT, RIGHT, OTHER], tracked) == {1, 2}
    # And the second child, when only the first was listed in time.
    assert entering([ROOT, LEFT, RIGHT, OTHER], {**tracked, 1: fresh()}) == {2}


@pytest.mark.parametrize("unfinished", [1, 2])
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_merge_waits_for_both_parents(unfinished: int, order: tuple[int, int]) -> None:
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(3, 0, 8, *order)]
    known.append(OTHER)
    tracked = {1: ended(), 2: ended(), 9: after(5), unfinished: after(5)}
    assert entering(known, tracked) == set()
    assert entering(known, {**tracked, unfinished: ended()}) == {3}


def test_a_merge_whose_second_parent_was_never_listed_waits_for_the_service_to_say() -> None:
    known = [shard(1, 0, 4, closed=True), shard(3, 0, 8, 1, 2), OTHER]
    tracked = {1: ended(), 9: after(5)}
    assert entering(known, tracked) == set()
    assert to_ask(known, tracked) == {2}
    assert entering(known, tracked, 2) == {3}


def test_nobody_is_asked_about_an_unlisted_parent_while_a_listed_one_is_unfinished() -> None:
    known = [shard(1, 0, 4, closed=True), shard(3, 0, 8, 1, 2), OTHER]
    assert to_ask(known, {1: after(5), 9: after(5)}) == set()


def test_an_ancestor_of_a_tracked_shard_counts_as_finished() -> None:
    # A map or a lease table named 3: its sibling 4 and its aunt 2 enter, 0 and 1 are not read.
    known = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    assert entering(known, {3: after(5), 9: after(5)}) == {2, 4}


def test_a_drained_ancestor_that_is_still_listed_is_not_read_again() -> None:
    known = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = {2: after(5), 3: after(5), 4: after(5), 9: after(5)}
    assert entering(known, tracked) == set()
    assert to_ask(known, tracked) == set()


def test_one_tracked_shard_missing_from_one_listing_lets_nothing_enter() -> None:
    # Without 1, the merge 5 of 1 and 2 would look like a shard that nobody descends from.
    merged = shard(5, 0, 8, 1, 2)
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), merged, OTHER]
    tracked = {1: ended(), 2: ended(), 9: after(5)}
    for lacking in (1, 2, 9):
        listed = [s for s in known if s.shard_id != shard_id(lacking)]
        assert numbers(missing_shards(lineage(*listed), places(tracked), ())) == {lacking}
        assert entering(listed, tracked) == set()
        assert to_ask(listed, tracked) == set()
    assert entering(known, tracked) == {5}


def test_a_tracked_shard_known_to_be_expired_is_not_missing() -> None:
    known = [LEFT, RIGHT, OTHER]
    assert entering(known, {0: ended(), 9: after(5)}, 0) == {1, 2}
    assert numbers(missing_shards(lineage(*known), places({0: ended()}), {shard_id(0)})) == set()


def test_a_hidden_middle_generation_is_not_skipped() -> None:
    # "Enters if no listed parent is unfinished" would read 3 and 4 before 1.
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = {0: ended(), 9: after(5)}
    assert entering(known, tracked) == {2}
    assert to_ask(known, tracked) == {1}
    # Shown again, it comes first, and its children wait for it.
    assert entering([*known, LEFT], tracked) == {1, 2}
    assert to_ask([*known, LEFT], tracked) == set()
    assert entering([*known, LEFT], {**tracked, 1: fresh(), 2: fresh()}) == set()


def test_an_expired_middle_generation_is_passed_over_once_the_service_says_so() -> None:
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = {0: ended(), 2: fresh(), 9: after(5)}
    # 0 is not an ancestor that 3 names: is it older than 3 or younger? It is asked for as well.
    assert entering(known, tracked, 1) == set()
    assert to_ask(known, tracked, 1) == {0}
    assert entering(known, tracked, 0, 1) == {3, 4}


def test_an_expired_middle_generation_waits_for_an_unfinished_elder() -> None:
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    assert entering(known, {0: after(5), 9: after(5)}, 1) == set()


def test_a_drained_shard_whose_link_to_the_tracked_ones_is_hidden_is_not_read_again() -> None:
    # 1 and 2 are hidden, so nothing says that 0 is an ancestor of 3, 4 and 5; their ranges do.
    known = [ROOT, LEFT_LOW, LEFT_HIGH, shard(5, 4, 8, 2), OTHER]
    tracked = {3: after(5), 4: after(5), 5: after(5), 9: after(5)}
    assert entering(known, tracked) == set()
    assert to_ask(known, tracked) <= {0}


def test_the_service_is_asked_for_the_elder_while_one_of_the_tracked_is_unfinished() -> None:
    # 1 and 2 are hidden: what is being read overlaps 0, so 0 itself must be gone.
    known = [ROOT, LEFT_LOW, LEFT_HIGH, shard(5, 4, 8, 2), OTHER]
    tracked = {3: ended(), 4: after(5), 5: ended(), 9: after(5)}
    assert entering(known, tracked) == set()
    assert to_ask(known, tracked) == {0}


def test_an_ancestor_that_shares_no_hash_key_with_its_tracked_descendant_is_not_read() -> None:
    # 1 and 2 are merged into 3, which is split at 6: the upper half descends from 1 all the same.
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True)]
    known += [shard(3, 0, 8, 1, 2, closed=True), shard(4, 0, 6, 3), shard(5, 6, 8, 3), OTHER]
    assert entering(known, {5: after(5), 9: after(5)}) == {4}


def test_a_shard_below_an_expired_generation_may_enter_with_its_elder_and_waits_for_it() -> None:
    known = [ROOT, LEFT, LEFT_LOW, OTHER]
    tracked = places({9: after(5, 999)})
    entries = plan_entries(lineage(*known), tracked, {shard_id(1)}).entering
    assert entries == places({0: fresh(), 3: fresh()})
    assert readable(known, {0: fresh(), 3: fresh(), 9: after(5)}, 1) == {0, 9}


def test_a_touch_at_one_hash_key_is_enough_to_keep_a_shard_out() -> None:
    elder = Shard(shard_id(0), ROOT.hash_keys, closed=True)
    neighbour = Shard(shard_id(9), OTHER.hash_keys)
    wide = Shard(shard_id(5), type(ROOT.hash_keys)(ROOT.hash_keys.start, OTHER.hash_keys.start))
    assert entering([wide, neighbour], {9: after(5)}) == set()
    assert entering([elder, neighbour], {9: after(5)}) == {0}


def test_a_shard_that_has_expired_does_not_enter() -> None:
    assert entering([ROOT, LEFT, RIGHT, OTHER], {0: ended(), 9: after(5)}, 1) == {2}


def test_of_two_untracked_shards_that_overlap_the_elder_enters() -> None:
    # Nothing of this range is tracked, 1 has expired: 0 and 3 name no parent that holds them back.
    known = [LEFT_LOW, ROOT, LEFT_HIGH, OTHER]
    assert entering(known, {9: after(5)}, 1) == {0}


def test_an_empty_closed_generation_lets_the_next_one_enter_in_the_same_plan() -> None:
    # Several generations between two listings: the planner finishes 1 and calls again.
    known = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = places({0: ended(7), 9: after(5)})
    for expected in ({1, 2}, {3, 4}, set[int]()):
        entries = plan_entries(lineage(*known), tracked, ()).entering
        assert numbers(entries) == expected
        tracked.update(entries)
        if shard_id(1) in entries:
            tracked[shard_id(1)] = finished(tracked[shard_id(1)])
    assert {place.read_until_ms for i, place in tracked.items() if i != shard_id(9)} == {7}


def test_a_child_takes_the_latest_read_until_time_of_its_parents() -> None:
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(3, 0, 8, 1, 2), OTHER]

    def read_until(first: int | None, second: int | None) -> int | None:
        tracked = places({1: ended(first), 2: ended(second), 9: after(5, 999)})
        return plan_entries(lineage(*known), tracked, ()).entering[shard_id(3)].read_until_ms

    assert read_until(100, 200) == 200
    assert read_until(200, 100) == 200
    assert read_until(None, 100) == 100
    assert read_until(None, None) is None


def test_a_child_of_an_expired_generation_takes_the_time_of_the_elder_that_was_read() -> None:
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = places({0: ended(70), 2: fresh(80), 9: after(5, 999)})
    entries = plan_entries(lineage(*known), tracked, {shard_id(0), shard_id(1)}).entering
    assert {e.read_until_ms for e in entries.values()} == {70}


def test_a_child_that_is_listed_after_its_sibling_takes_the_same_time() -> None:
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = places({0: ended(70), 2: fresh(80), 3: fresh(70), 9: after(5, 999)})
    entries = plan_entries(lineage(*known), tracked, {shard_id(0), shard_id(1)}).entering
    assert {numbers([i]).pop(): e.read_until_ms for i, e in entries.items()} == {4: 70}
    unknown = [RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]  # after a restart
    entries = plan_entries(lineage(*unknown), tracked, {shard_id(0), shard_id(1)}).entering
    assert {numbers([i]).pop(): e.read_until_ms for i, e in entries.items()} == {4: 70}


def test_beside_a_parent_that_expired_unread_the_time_is_that_of_the_elders() -> None:
    # 0 and 1 merged into 3, and 3 with 2 into 4; nobody ever tracked 3, and it is gone.
    known = [shard(4, 0, 16, 3, 2)]
    tracked = places({0: ended(70), 1: ended(80), 2: ended(900)})
    gone = {shard_id(n) for n in (0, 1, 2, 3)}
    entries = plan_entries(lineage(*known), tracked, gone).entering
    assert [e.read_until_ms for e in entries.values()] == [70]


def test_a_parent_that_expired_after_it_was_read_gives_its_own_time() -> None:
    # 8 has ended and expired as well, and is no kin of theirs.
    tracked = places({0: ended(70), 8: ended(10), 9: after(5)})
    gone = {shard_id(0), shard_id(8)}
    entries = plan_entries(lineage(LEFT, RIGHT, OTHER), tracked, gone).entering
    assert entries == places({1: fresh(70), 2: fresh(70)})


def test_beside_a_named_sibling_nothing_is_known_of_the_time() -> None:
    # A map named 3, so its parent was passed over: that it has expired since is no loss.
    tracked = places({3: after(5), 9: after(5)})
    gone = {shard_id(1)}
    known = lineage(RIGHT, LEFT_LOW, LEFT_HIGH, OTHER)
    assert plan_entries(known, tracked, gone).entering[shard_id(4)] == fresh(None)


def test_a_named_parent_wins_over_an_older_relative() -> None:
    # The grandfather is still tracked since his other side is not covered.
    known = [ROOT, LEFT, LEFT_LOW, LEFT_HIGH, OTHER]
    tracked = places({0: ended(900), 1: ended(70), 9: after(5)})
    entries = plan_entries(lineage(*known), tracked, ()).entering
    assert {numbers([i]).pop(): e.read_until_ms for i, e in entries.items()} == {3: 70, 4: 70}


def test_a_child_named_beside_its_parents_takes_their_time_once_both_are_finished() -> None:
    family = lineage(
        shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(3, 0, 8, 1, 2), OTHER
    )

    def inherited(first: TrackedShard, second: TrackedShard, child: TrackedShard) -> set[int]:
        tracked = places({1: first, 2: second, 3: child, 9: after(5, 999)})
        found = inherited_times(family, tracked)
        assert all(place == fresh(200) for place in found.values())
        return numbers(found)

    assert inherited(ended(100), ended(200), fresh()) == {3}
    assert inherited(ended(200), ended(None), fresh()) == {3}
    assert inherited(ended(200), after(5, 300), fresh()) == set(), "not before they are"
    assert inherited(ended(None), ended(None), fresh()) == set()
    assert inherited(ended(100), ended(200), fresh(50)) == set(), "it has one of its own"
    assert inherited(ended(100), ended(200), after(5)) == set(), "it has been read"
    assert inherited(ended(100), ended(200), TrackedShard(AtTimestamp(7))) == set()


def test_finishing_keeps_the_read_until_time() -> None:
    assert finished(after(5, 70)) == TrackedShard(SHARD_END, 70)
    assert is_finished(finished(fresh()))
    assert not is_finished(fresh())
    assert not is_finished(None)


# Leaving


def test_a_shard_does_not_leave_in_the_batch_that_reached_its_end() -> None:
    known = [ROOT, LEFT, RIGHT, OTHER]
    end = {0: ended(), 1: fresh(), 2: fresh(), 9: after(5)}
    assert leaving(known, {0: after(5), 9: after(5)}, end) == set()
    assert leaving(known, {9: after(5)}, end) == set()
    assert leaving(known, end, end) == {0}


def test_a_shard_does_not_leave_while_one_child_is_not_tracked() -> None:
    # "Leaves when its listed children are tracked" would read 2 a second time, or never.
    end = {0: ended(), 1: fresh(), 9: after(5)}
    assert leaving([ROOT, LEFT, OTHER], end, end) == set()
    assert leaving([ROOT, LEFT, RIGHT, OTHER], end, end) == set()


def test_a_shard_leaves_when_all_its_descendants_together_cover_it() -> None:
    known = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    half = {0: ended(), 2: after(5), 3: after(5), 9: after(5)}
    assert leaving(known, half, half) == set()
    both = {**half, 4: fresh()}
    assert leaving(known, both, both) == {0}


def test_a_merged_child_covers_both_its_parents() -> None:
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(3, 0, 8, 1, 2), OTHER]
    end = {1: ended(), 2: ended(), 3: fresh(), 9: after(5)}
    assert leaving(known, end, end) == {1, 2}
    assert leaving(known, {**end, 2: after(5)}, end) == {1}


def test_a_stranger_in_the_same_range_does_not_stand_for_a_child() -> None:
    # 3 and 4 cover 1, and the link from 0 through 1 is hidden: 0 stays.
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    end = {0: ended(), 2: after(5), 3: after(5), 4: after(5), 9: after(5)}
    assert leaving(known, end, end) == set()


def test_an_unfinished_shard_never_leaves() -> None:
    known = [ROOT, LEFT, RIGHT, OTHER]
    end = {0: after(5), 1: fresh(), 2: fresh(), 9: after(5)}
    assert leaving(known, end, end) == set()
    assert leaving(known, {**end, 0: ended()}, end) == set()


def test_a_finished_shard_missing_from_the_listing_stays() -> None:
    end = {0: ended(), 1: fresh(), 2: fresh(), 9: after(5)}
    assert leaving([LEFT, RIGHT, OTHER], end, end) == set()


def test_an_expired_shard_leaves_once_everything_is_covered_without_it() -> None:
    end = {0: ended(), 1: fresh(), 9: after(5)}
    assert leaving([LEFT, RIGHT, OTHER], end, end, 0) == set()
    end[2] = fresh()
    assert leaving([LEFT, RIGHT, OTHER], end, end, 0) == {0}
    assert leaving([LEFT, RIGHT, OTHER], {**end, 0: after(5)}, end, 0) == set()


def test_expired_shards_do_not_cover_for_each_other() -> None:
    end = {0: ended(), 1: ended(), 9: after(5)}
    assert leaving([ROOT, LEFT, RIGHT, OTHER], end, end, 0, 1) == set()


# Reading


def test_open_shards_are_read_and_finished_or_expired_ones_are_not() -> None:
    known = [ROOT, LEFT, RIGHT, OTHER]
    start = {0: ended(), 1: after(5), 2: fresh(), 9: after(5)}
    assert readable(known, start) == {1, 2, 9}
    assert readable(known, start, 1) == {2, 9}
    assert readable([ROOT, RIGHT, OTHER], start, 1) == {2, 9}


def test_a_shard_waits_for_each_unfinished_ancestor() -> None:
    # Maps and lease tables can name a parent and its child.
    known = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    assert readable(known, {0: after(5), 1: fresh(), 9: after(5)}) == {0, 9}
    assert readable(known, {0: after(5), 3: fresh(), 9: after(5)}) == {0, 9}
    assert readable(known, {0: ended(), 1: after(5), 3: fresh(), 2: fresh()}) == {1, 2}


def test_a_named_child_of_a_merge_waits_for_both_parents() -> None:
    known = [shard(1, 0, 4, closed=True), shard(2, 4, 8, closed=True), shard(3, 0, 8, 1, 2), OTHER]
    assert readable(known, {1: after(5), 2: after(5), 3: after(5)}) == {1, 2}
    assert readable(known, {1: ended(), 2: after(5), 3: after(5)}) == {2}
    assert readable(known, {1: ended(), 2: ended(), 3: after(5)}) == {3}


def test_where_the_generation_between_two_tracked_shards_is_hidden_neither_is_read() -> None:
    known = [ROOT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    assert readable(known, {0: after(5), 3: after(5), 9: after(5)}) == {9}
    assert readable([*known, LEFT], {0: after(5), 3: after(5), 9: after(5)}) == {0, 9}


def test_nothing_is_read_while_a_tracked_shard_is_missing() -> None:
    # 1 might be the parent of any of them.
    assert readable([ROOT, LEFT_LOW, OTHER], {1: ended(), 3: after(5), 9: after(5)}) == set()
    assert readable([ROOT, LEFT_LOW, OTHER], {1: ended(), 3: after(5), 9: after(5)}, 1) == {3, 9}


def test_an_unfinished_shard_that_has_expired_holds_nobody_back() -> None:
    known = [ROOT, LEFT, RIGHT, OTHER]
    assert readable(known, {0: after(5), 1: fresh(), 2: fresh()}, 0) == {1, 2}


# The graph


def test_leaves_are_the_shards_that_no_known_shard_names_as_a_parent() -> None:
    family = [ROOT, LEFT, RIGHT, LEFT_LOW, LEFT_HIGH, OTHER]
    assert numbers([s.shard_id for s in lineage(*family).leaves()]) == {2, 3, 4, 9}
    assert numbers([s.shard_id for s in lineage(ROOT, LEFT_LOW).leaves()]) == {0, 3}


def test_ancestors_go_as_far_as_they_are_named_and_descendants_as_far_as_they_are_known() -> None:
    graph = lineage(LEFT, RIGHT, LEFT_LOW, LEFT_HIGH)
    assert numbers(graph.ancestors([shard_id(3)])) == {0, 1}
    assert numbers(graph.descendants([shard_id(0)])) == {1, 2, 3, 4}
    assert graph.ancestors([shard_id(77)]) == graph.descendants([shard_id(77)]) == set()
