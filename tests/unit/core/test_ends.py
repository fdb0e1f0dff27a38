from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pytest

from kinesis_source.core.ends import (
    JUMP_MARGIN_MS,
    JUMP_TRIES,
    End,
    Jump,
    JumpSearch,
    choose_end,
    end_at,
    finish,
)
from kinesis_source.core.horizon import UNLIMITED, Limits, plan_horizon
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    AfterSequenceNumber,
    AtTimestamp,
    ShardEnd,
)
from kinesis_source.core.probes import Reached, SeenRecord, ShardView
from tests.unit.core.building import DIGITS_55, DIGITS_56, after, ended, fresh, seen, shard_id

MORE, TIP, END = Reached.MORE, Reached.TIP, Reached.END
PAGE = [seen(11, 1000), seen(12, 1010), seen(13, 1020)]


def a_view(
    records: Sequence[SeenRecord] = PAGE,
    reached: Reached = MORE,
    *,
    place: TrackedShard | None = None,
    closed: bool = False,
    open_until_ms: int | None = None,
    target: SeenRecord | None = None,
) -> ShardView:
    place = after(10, 900) if place is None else place
    return ShardView(shard_id(0), place, records, reached, closed, open_until_ms, target)


def place_of(choice: End | Jump | None) -> TrackedShard:
    assert isinstance(choice, End)
    return choice.place


# The choice


@pytest.mark.parametrize("reached", [MORE, TIP])
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("place", [after(10, 900), fresh(), TrackedShard(AtTimestamp(900), 900)])
def test_a_shard_of_which_nothing_was_seen_stays(
    reached: Reached, closed: bool, place: TrackedShard
) -> None:
    assert choose_end(a_view([], reached, place=place, closed=closed), None) is None
    assert choose_end(a_view([], reached, place=place, closed=closed), 5000) is None


def test_a_shard_with_nothing_left_is_finished() -> None:
    assert place_of(choose_end(a_view([], END), None)) == ended(900)
    assert place_of(choose_end(a_view([], END, place=fresh(), closed=True), 5)) == ended(None)


def test_a_position_without_a_number_ends_at_a_record_that_its_own_iterator_returned() -> None:
    for place in (fresh(), TrackedShard(AtTimestamp(990), 990)):
        choice = choose_end(a_view(reached=TIP, place=place, open_until_ms=2000), None)
        assert place_of(choice) == after(13, 2000)


def test_at_the_tip_of_an_open_shard_the_end_is_exact_and_read_until_the_probe() -> None:
    choice = choose_end(a_view(reached=TIP, open_until_ms=2000), None)
    assert place_of(choice) == after(13, 2000)
    # Without such a time, and never back from what was known.
    assert place_of(choose_end(a_view(reached=TIP), None)) == after(13, 1020)
    late = a_view(reached=TIP, place=after(10, 3000), open_until_ms=2000)
    assert place_of(choose_end(late, None)) == after(13, 3000)


def test_within_the_page_the_horizon_cuts() -> None:
    view = a_view(reached=TIP, open_until_ms=2000)
    assert choose_end(view, 999) is None
    assert place_of(choose_end(view, 1000)) == after(11, 1000)
    assert place_of(choose_end(view, 1019)) == after(12, 1010)
    assert place_of(choose_end(view, 1020)) == after(13, 2000)


@pytest.mark.parametrize("reached", [MORE, TIP, END])
@pytest.mark.parametrize("closed", [False, True])
def test_a_record_past_the_horizon_waits_whatever_lies_behind_it(
    reached: Reached, closed: bool
) -> None:
    view = a_view(reached=reached, closed=closed)
    assert choose_end(view, 999) is None
    assert place_of(choose_end(view, 1010)) == after(12, 1010)


def test_the_end_of_the_shard_within_the_horizon_is_shard_end() -> None:
    for closed in (False, True):
        assert place_of(choose_end(a_view(reached=END, closed=closed), None)) == ended(1020)
        assert place_of(choose_end(a_view(reached=END, closed=closed), 1020)) == ended(1020)


def test_a_closed_shard_without_a_limit_ends_at_shard_end_without_more_requests() -> None:
    # The read-until time is that of what was seen: the children take it over.
    assert place_of(choose_end(a_view(closed=True), None)) == ended(1020)
    assert place_of(choose_end(a_view(reached=TIP, closed=True), None)) == ended(1020)
    late = a_view(closed=True, place=after(10, 3000), open_until_ms=2000)
    assert place_of(choose_end(late, None)) == ended(3000)


def test_a_closed_shard_under_a_limit_ends_at_shard_end_once_all_of_it_is_within() -> None:
    assert place_of(choose_end(a_view(reached=TIP, closed=True), 1020)) == ended(1020)
    # What lies behind the page may be past the horizon.
    assert isinstance(choose_end(a_view(closed=True), 1020), Jump)


def test_where_more_lies_behind_the_page_its_last_record_is_the_least_end() -> None:
    for horizon in (None, 1020, 9000):
        choice = choose_end(a_view(open_until_ms=2000), horizon)
        assert isinstance(choice, Jump)
        assert choice.fallback == End(after(13, 1020), PAGE[-1])


def test_a_target_is_the_end_when_it_is_in_the_page() -> None:
    view = a_view(reached=TIP, target=PAGE[-1], open_until_ms=2000)
    assert place_of(choose_end(view, None)).position == AfterSequenceNumber(13)
    assert place_of(choose_end(view, 1010)) == after(12, 1010)
    # The shard was open when the target was fixed: what came to its end since is for the next run.
    closed = a_view(reached=TIP, closed=True, target=PAGE[-1])
    assert place_of(choose_end(closed, None)) == after(13, 1020)
    # It ended before the target was seen: that record is gone, and this is all there is.
    gone = a_view(reached=END, closed=True, target=seen(99, 5000))
    assert place_of(choose_end(gone, None)) == after(13, 1020)


def test_a_target_behind_the_page_is_the_end_where_nothing_limits() -> None:
    target = seen(99, 5000)
    assert choose_end(a_view(target=target), None) == End(after(99, 5000), target)
    choice = choose_end(a_view(target=target), 3000)
    assert isinstance(choice, Jump)
    assert choice.fallback.place == after(13, 1020)


def test_read_until_goes_by_the_times_that_are_known() -> None:
    assert end_at(a_view(place=fresh()), PAGE[0]).place == after(11, 1000)
    assert end_at(a_view(place=after(10, 3000)), PAGE[0]).place == after(11, 3000)
    assert finish(a_view(place=fresh())).place == ended(1020)


# The jump


def a_search(
    horizon_ms: int | None = None,
    now_ms: int = 100_000,
    view: ShardView | None = None,
    empty_from_ms: int | None = None,
) -> JumpSearch:
    view = a_view() if view is None else view
    jump = Jump(end_at(view, view.unread[-1]))
    return JumpSearch(view, jump, horizon_ms, now_ms, empty_from_ms)


def test_a_jump_aims_a_little_before_now_or_at_the_horizon() -> None:
    assert a_search().aim_ms == 100_000 - JUMP_MARGIN_MS
    assert a_search(horizon_ms=50_000).aim_ms == 50_000
    assert a_search(horizon_ms=200_000).aim_ms == 100_000 - JUMP_MARGIN_MS


def test_a_jump_never_aims_at_or_before_what_was_seen() -> None:
    assert a_search(horizon_ms=1021).aim_ms == 1021
    for search in (a_search(horizon_ms=1020), a_search(now_ms=1020 + JUMP_MARGIN_MS)):
        assert search.aim_ms is None
        assert search.end.place == after(13, 1020)
    # The latest time seen counts, wherever in the page it is.
    late = a_view([seen(11, 5000), seen(12, 1000)])
    assert a_search(horizon_ms=5000, view=late).aim_ms is None


def test_the_last_record_found_is_the_end() -> None:
    search = a_search()
    search.take([seen(70, 99_900), seen(71, 99_950)], MORE)
    assert (search.end.place, search.landed, search.aim_ms) == (after(71, 99_950), True, None)
    search = a_search()
    search.take([seen(71, 99_950)], TIP)
    assert search.end.place == after(71, 99_950)


def test_a_record_that_is_not_past_the_page_is_no_end() -> None:
    # Arrival times out of order: an old record with a late time.
    for number in (5, 12, 13):
        search = a_search()
        search.take([seen(number, 99_900)], MORE)
        assert (search.end.place, search.landed, search.aim_ms) == (after(13, 1020), False, None)
    search = a_search()
    search.take([seen(14, 99_900)], MORE)
    assert search.end.place == after(14, 99_900)


def test_numbers_of_55_and_56_digits_are_compared_as_numbers() -> None:
    view = a_view([seen(DIGITS_55, 1000)])
    search = a_search(view=view)
    search.take([seen(DIGITS_56, 99_900)], MORE)
    assert search.end.place == after(DIGITS_56, 99_900)
    search = a_search(view=a_view([seen(DIGITS_56, 1000)]))
    search.take([seen(DIGITS_55, 99_900)], MORE)
    assert not search.landed


def test_the_end_of_the_shard_is_an_end() -> None:
    for found in ([], [seen(71, 99_950)]):
        search = a_search()
        search.take(found, END)
        assert search.aim_ms is None
        assert search.end.place == ended(1020)


def test_an_empty_answer_moves_the_aim_half_way_back_a_few_times() -> None:
    search = a_search(now_ms=1020 + 8000 + JUMP_MARGIN_MS)
    aims = []
    while search.aim_ms is not None:
        aims.append(search.aim_ms - 1020)
        search.take([], TIP)
    assert aims == [8000, 4000, 2000]
    assert len(aims) == JUMP_TRIES
    assert (search.end.place, search.landed) == (after(13, 1020), False)
    assert search.empty_from_ms == 1020 + 2000


def test_the_next_plan_goes_on_below_what_was_empty() -> None:
    search = a_search(now_ms=1020 + 9000 + JUMP_MARGIN_MS, empty_from_ms=1020 + 2000)
    search.take([], TIP)
    assert search.aim_ms == 1020 + 1000
    search.take([seen(20, 2100)], MORE)
    assert search.end.place == after(20, 2100)
    # Where nothing can lie between, the page's last record is the end.
    search = a_search(now_ms=10_000, empty_from_ms=1021)
    search.take([], TIP)
    assert search.aim_ms is None


def test_what_was_empty_is_forgotten_once_a_record_is_found_there() -> None:
    for arrival_ms, empty_from_ms in ((49_999, 50_000), (50_000, None), (60_000, None)):
        search = a_search(empty_from_ms=50_000)
        search.take([seen(20, arrival_ms)], MORE)
        assert (search.landed, search.empty_from_ms) == (True, empty_from_ms)


def test_a_walk_that_was_too_long_tells_nothing() -> None:
    search = a_search()
    search.take([], MORE)
    assert (search.aim_ms, search.landed, search.empty_from_ms) == (None, False, None)
    assert search.end.place == after(13, 1020)


def test_of_the_page_found_only_what_is_within_the_horizon_is_taken() -> None:
    dense = a_view([seen(11, 1020), seen(12, 1020), seen(13, 1020)])
    search = a_search(horizon_ms=50_000, view=dense)
    search.take([seen(70, 50_000), seen(71, 50_000), seen(72, 50_001)], MORE)
    assert search.end.place == after(71, 50_000)
    # Out of order: what follows the first late one waits with it.
    search = a_search(horizon_ms=50_000)
    search.take([seen(70, 50_000), seen(71, 60_000), seen(72, 49_000)], MORE)
    assert search.end.place == after(70, 50_000)


def test_the_first_record_found_may_be_past_the_horizon_by_the_distance_of_two() -> None:
    slack = (50_000 - 1020) // 10
    search = a_search(horizon_ms=50_000)
    search.take([seen(70, 50_000 + slack), seen(71, 50_010 + slack)], MORE)
    assert search.end.place == after(70, 50_000 + slack)
    search = a_search(horizon_ms=50_000)
    search.take([seen(70, 50_000 + slack + 1)], MORE)
    assert search.end.place == after(13, 1020)
    assert search.aim_ms == (1020 + 50_000) // 2
    short = a_search(horizon_ms=1100)
    short.take([seen(70, 1100 + JUMP_MARGIN_MS)], MORE)
    assert short.end.place == after(70, 1100 + JUMP_MARGIN_MS)


def test_the_end_of_a_shard_past_the_horizon_is_not_reached() -> None:
    search = a_search(horizon_ms=50_000)
    search.take([seen(70, 50_000), seen(71, 80_000)], END)
    assert search.end.place == after(70, 50_000)


def test_where_traffic_has_swelled_the_jump_is_made_shorter() -> None:
    # A record every 10 ms in the page, one a millisecond where the jump lands: ten times as dense.
    flood = [seen(1000 + i, 50_000 + i) for i in range(-50, 1)]
    search = a_search(horizon_ms=50_000)
    search.take(flood, MORE)
    assert search.aim_ms == 1020 + (50_000 - 1020) // 10
    assert not search.landed
    # Once the tries are spent the record is the end all the same.
    search.take([seen(900 + i, 5900 + i) for i in range(20)], MORE)
    search.take([seen(800 + i, 1500 + i) for i in range(2)], MORE)
    assert search.end.place == after(801, 1501)


def test_two_records_are_enough_to_see_that_traffic_has_swelled() -> None:
    search = a_search(horizon_ms=50_000)
    search.take([seen(999, 49_999), seen(1000, 50_000)], MORE)
    assert (search.aim_ms, search.landed) == (1020 + (50_000 - 1020) // 10, False)
    # One tells nothing.
    search = a_search(horizon_ms=50_000)
    search.take([seen(1000, 50_000)], MORE)
    assert search.end.place == after(1000, 50_000)


def test_swelling_counts_in_bytes_as_in_records() -> None:
    heavy = [seen(100 + i, 49_000 + 10 * i, 2000) for i in range(50)]
    search = a_search(horizon_ms=50_000)
    search.take(heavy, MORE)
    assert search.aim_ms == 1020 + (50_000 - 1020) // 2
    # Twice as many a second of a tenth of the size: the records decide.
    light = a_search(horizon_ms=50_000)
    light.take([seen(100 + i, 49_000 + 5 * i, 100) for i in range(50)], MORE)
    assert light.aim_ms == 1020 + (50_000 - 1020) // 2
    weightless = a_search(horizon_ms=50_000, view=a_view([seen(11, 1000, 0), seen(12, 1020, 0)]))
    weightless.take([seen(100 + i, 49_000 + 20 * i, 0) for i in range(50)], MORE)
    assert weightless.landed


@pytest.mark.parametrize("step_ms", [7, 10, 50])
def test_steady_or_thinner_traffic_lets_the_jump_land(step_ms: int) -> None:
    search = a_search(horizon_ms=50_000)
    search.take([seen(100 + i, 50_000 + step_ms * (i - 49)) for i in range(50)], MORE)
    assert search.landed
    assert search.end.place == after(149, 50_000)


def test_without_a_limit_swelling_does_not_matter() -> None:
    search = a_search()
    search.take([seen(1000 + i, 99_800 + i // 10) for i in range(50)], MORE)
    assert search.landed


# Catching up, on a record list in place of a shard


@dataclass
class RecordList:
    """A shard that is read as the planner does, one batch at a time."""

    records: list[SeenRecord]
    closed: bool = False
    page: int = 100
    place: TrackedShard = field(default_factory=fresh)
    empty_from_ms: int | None = None
    read: int = 0

    def __post_init__(self) -> None:
        self._latest = list(accumulate((r.arrival_ms for r in self.records), max))

    def _page_from(self, index: int) -> tuple[list[SeenRecord], Reached]:
        found = self.records[index : index + self.page]
        if index + len(found) < len(self.records):
            return found, MORE
        return found, END if self.closed else TIP

    def batch(self, limits: Limits, now_ms: int) -> list[SeenRecord]:
        unread, reached = self._page_from(self.read)
        view = ShardView(shard_id(0), self.place, unread, reached, self.closed)
        horizon = plan_horizon([view], limits, now_ms)
        choice = choose_end(view, horizon)
        if isinstance(choice, Jump):
            search = JumpSearch(view, choice, horizon, now_ms, self.empty_from_ms)
            while search.aim_ms is not None:
                # AT_TIMESTAMP: the first record in sequence order that arrived then or later.
                search.take(*self._page_from(bisect_left(self._latest, search.aim_ms)))
            self.empty_from_ms = search.empty_from_ms
            choice = search.end
        assert choice is not None, "the oldest record is always taken"
        self.place, begin = choice.place, self.read
        match choice.place.position:
            case AfterSequenceNumber(number):
                # Numbers are 1, 2, 3, …, so this is also the count of what has been read.
                assert begin < number <= len(self.records)
                self.read = number
            case ShardEnd():
                self.read = len(self.records)
        return self.records[begin : self.read]

    def drain(self, limits: Limits, now_ms: int) -> list[int]:
        sizes = []
        while self.read < len(self.records):
            sizes.append(len(self.batch(limits, now_ms)))
        return sizes


def burst(count: int) -> list[SeenRecord]:
    """At a shard's write quota of a thousand a second."""
    return [seen(i + 1, 1_000_000 + i) for i in range(count)]


@pytest.mark.parametrize("silence_ms", [60_000, 3_600_000, 7 * 86_400_000])
@pytest.mark.parametrize("closed", [False, True])
def test_a_burst_and_then_silence_is_caught_up_in_logarithmically_many_batches(
    silence_ms: int, closed: bool
) -> None:
    counts = {}
    for size in (1_000, 10_000, 100_000):
        now = 1_000_000 + size + silence_ms
        shard = RecordList(burst(size), closed)
        # Under a limit that takes all, so that the closed one has to be searched as well.
        limits = Limits(max_records=10**9) if closed else UNLIMITED
        counts[size] = len(shard.drain(limits, now))
    for size, batches in counts.items():
        assert batches <= 3 + math.log2(size), counts


def test_a_live_shard_is_caught_up_in_one_jump() -> None:
    shard = RecordList([seen(i + 1, 1_000_000 + 10 * i) for i in range(100_000)])
    sizes = shard.drain(UNLIMITED, 1_000_000 + 10 * 100_000)
    assert len(sizes) <= 2


@pytest.mark.parametrize("seed", range(10))
def test_arrival_times_out_of_order_change_sizes_only(seed: int) -> None:
    rng = random.Random(seed)
    records = [
        seen(i + 1, 1_000_000 + 10 * i + rng.randint(-3000, 3000), rng.choice([0, 50, 5000]))
        for i in range(5_000)
    ]
    for limits in (UNLIMITED, Limits(max_records=500), Limits(max_bytes=100_000)):
        shard = RecordList(records, closed=rng.random() < 0.5)
        sizes = shard.drain(limits, 1_000_000 + 10 * 5_000)
        assert sum(sizes) == len(records)


@pytest.mark.parametrize("limit", [1, 50, 1000, 20_000])
def test_a_limit_is_kept_up_to_a_page_where_traffic_is_steady(limit: int) -> None:
    shard = RecordList([seen(i + 1, 1_000_000 + 10 * i) for i in range(50_000)])
    sizes = []
    while shard.read < min(50_000, 20 * limit):
        sizes.append(len(shard.batch(Limits(max_records=limit), 1_000_000 + 10 * 50_000)))
    assert max(sizes) <= limit + shard.page
    # And it is used: catching up is not slower than the limit by much.
    assert max(sizes) >= 0.75 * limit


def test_where_traffic_swells_a_batch_stays_near_its_limit() -> None:
    slow = [seen(i + 1, 1_000_000 + 1000 * i) for i in range(200)]
    flood = [seen(201 + i, 1_200_000 + i) for i in range(50_000)]
    shard = RecordList([*slow, *flood])
    sizes = shard.drain(Limits(max_records=1000), 1_300_000)
    assert sum(sizes) == 50_200
    assert max(sizes) <= 2 * 1000
