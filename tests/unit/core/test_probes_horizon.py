from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.core.horizon import ESTIMATE_FACTOR, UNLIMITED, Limits, plan_horizon
from kinesis_source.core.probes import (
    QUOTA_BYTES_PER_MS,
    QUOTA_RECORDS_PER_MS,
    Density,
    Reached,
    SeenRecord,
    ShardView,
    density_of,
)
from tests.unit.core.building import fresh, seen, shard_id

MORE, TIP, END = Reached.MORE, Reached.TIP, Reached.END


def a_view(records: Sequence[SeenRecord], reached: Reached = TIP, number: int = 0) -> ShardView:
    return ShardView(shard_id(number), fresh(), records, reached, closed=False)


def every(step_ms: int, count: int, start_ms: int = 0, size_bytes: int = 1000) -> list[SeenRecord]:
    return [seen(i + 1, start_ms + i * step_ms, size_bytes) for i in range(count)]


# Views


def test_up_to_a_time_is_a_prefix_in_sequence_order() -> None:
    # 40 arrived late in the sequence: what follows it is taken only with it.
    view = a_view([seen(1, 10), seen(2, 40), seen(3, 20), seen(4, 50)])
    assert [view.seen_until(t) for t in (9, 10, 39, 40, 49, 50)] == [0, 1, 1, 3, 3, 4]
    assert view.seen_until(None) == 4
    assert view.last_seen_ms == 50
    assert a_view([seen(1, 40), seen(2, 20)]).last_seen_ms == 40


def test_volume_is_counted_as_far_as_seen_and_estimated_beyond() -> None:
    records = [seen(1, 0, 500), seen(2, 10, 100), seen(3, 20, 300)]
    more, tip = a_view(records, MORE), a_view(records, TIP)
    assert more.volume_until(-1) == (0.0, 0.0)
    assert more.volume_until(19) == tip.volume_until(19) == (2.0, 600.0)
    assert more.volume_until(20) == tip.volume_until(20) == (3.0, 900.0)
    assert tip.volume_until(120) == (3.0, 900.0)
    # Two records of 400 bytes in all follow the first within 20 ms.
    assert more.volume_until(120) == (3.0 + 10.0, 900.0 + 2000.0)
    assert a_view([], MORE).volume_until(5) == (0.0, 0.0)
    assert (more.has_more, tip.has_more, a_view([], END).has_more) == (True, False, False)


def test_density_of_a_page() -> None:
    assert density_of(every(10, 101)) == Density(0.1, 100.0)
    assert density_of([seen(1, 30), seen(2, 10, 700), seen(3, 50, 300)]) == Density(0.05, 25.0)
    # A page that arrived within a millisecond, and pages that tell nothing.
    assert density_of([seen(1, 5), seen(2, 5, 100)]) == Density(1.0, 100.0)
    quota = Density(QUOTA_RECORDS_PER_MS, QUOTA_BYTES_PER_MS)
    assert density_of([]) == density_of([seen(1, 5)]) == quota


# The horizon


def test_without_limits_or_without_records_there_is_no_horizon() -> None:
    assert plan_horizon([a_view(every(1, 5), MORE)], UNLIMITED, 100) is None
    assert plan_horizon([], Limits(max_records=1), 100) is None
    assert plan_horizon([a_view([], MORE)], Limits(max_records=1), 100) is None


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_records=10),
        Limits(max_bytes=10_000),
        Limits(max_bytes_per_shard=5_000),
        Limits(10, 10_000, 5_000),
    ],
)
def test_limits_that_take_all_there_is_give_no_horizon(limits: Limits) -> None:
    views = [a_view(every(1, 5), number=n) for n in (0, 1)]
    assert plan_horizon(views, limits, 100) is None
    one_more = [*views, a_view([seen(1, 60)], number=2)]
    if limits.max_bytes_per_shard is None or limits.max_records is not None:
        assert plan_horizon(one_more, limits, 100) == 59


@pytest.mark.parametrize(
    "limits", [Limits(max_records=0), Limits(max_bytes=1), Limits(max_bytes_per_shard=1)]
)
def test_the_oldest_unread_record_is_taken_under_any_limit(limits: Limits) -> None:
    views = [a_view(every(10, 5, 700), MORE), a_view(every(10, 5, 300), MORE, 1)]
    assert plan_horizon(views, limits, 5000) == 300


def test_all_shards_are_read_to_one_time() -> None:
    early, late = a_view(every(10, 50)), a_view(every(10, 50, 200), number=1)
    # Up to 199 only the first shard counts, from 200 on both do: 20 + 2 × 5.
    assert plan_horizon([early, late], Limits(max_records=30), 5000) == 249
    assert (early.seen_until(249), late.seen_until(249)) == (25, 5)


def test_a_sparse_shard_waits_for_a_busy_one() -> None:
    # Catching up spreads no event times: the sparse shard's record is days later.
    busy = a_view(every(1, 100), MORE)
    sparse = a_view([seen(1, 200_000_000)], TIP, 1)
    horizon = plan_horizon([busy, sparse], Limits(max_records=1000), 300_000_000)
    assert horizon is not None
    assert 900 <= horizon <= 1100
    assert sparse.seen_until(horizon) == 0


def test_a_sparse_shard_that_is_first_does_not_wait() -> None:
    busy = a_view(every(1, 100, 5000), MORE)
    sparse = a_view([seen(1, 0), seen(2, 4000)], TIP, 1)
    horizon = plan_horizon([busy, sparse], Limits(max_records=52), 300_000)
    assert horizon == 5049
    assert sparse.seen_until(horizon) == 2


def test_the_limit_a_shard_holds_for_the_shard_that_has_most() -> None:
    heavy, light = a_view(every(10, 50, 0, 4000)), a_view(every(10, 50, 0, 10), number=1)
    assert plan_horizon([light, heavy], Limits(max_bytes_per_shard=40_000), 5000) == 99
    assert plan_horizon([light, light], Limits(max_bytes_per_shard=40_000), 5000) is None
    assert plan_horizon([heavy, heavy], Limits(max_bytes=40_000), 5000) == 49


def test_the_tightest_limit_decides() -> None:
    views = [a_view(every(10, 100))]
    assert plan_horizon(views, Limits(50, 30_000, 40_000), 5000) == 299
    assert plan_horizon(views, Limits(20, 30_000, 40_000), 5000) == 199
    assert plan_horizon(views, Limits(50, 50_000, 40_000), 5000) == 399


def test_behind_the_seen_records_the_density_they_arrived_with_is_assumed() -> None:
    view = a_view(every(10, 101), MORE)  # up to 1000 ms, and on at 0.1 a millisecond
    assert plan_horizon([view], Limits(max_records=501), 10**6) == 1000 + 4000
    assert plan_horizon([view], Limits(max_bytes=201_000), 10**6) == 1000 + 1000


def test_an_estimate_goes_no_further_than_the_quota_allows_traffic_to_swell() -> None:
    # Two records a day apart, then perhaps a flood at the service's write quota.
    view = a_view([seen(1, 0), seen(2, 86_400_000)], MORE)
    now = 900_000_000
    assert plan_horizon([view], Limits(max_records=100), now) == 86_400_000 + ESTIMATE_FACTOR * 100
    megabytes = Limits(max_bytes=int(QUOTA_BYTES_PER_MS * 500) - 1)
    assert plan_horizon([view], megabytes, now) == 86_400_000 + ESTIMATE_FACTOR * 499
    a_shard = Limits(max_bytes_per_shard=int(QUOTA_BYTES_PER_MS * 500))
    assert plan_horizon([view], a_shard, now) == 86_400_000 + ESTIMATE_FACTOR * 500
    # Of several limits the tightest, and of several shards the one that is furthest behind.
    assert plan_horizon([view], Limits(10, 10**9, 10**9), now) == 86_400_000 + ESTIMATE_FACTOR * 10
    other = a_view([seen(1, 86_400_000), seen(2, 2 * 86_400_000)], MORE, 1)
    both = plan_horizon([view, other], Limits(max_records=100), now)
    assert both == 86_400_000 + ESTIMATE_FACTOR * 100
    # One that was seen to its tip holds nobody back.
    tip = a_view([seen(1, 0)], TIP, 2)
    assert plan_horizon([tip, view], Limits(max_records=100), now) == both


def test_nothing_is_estimated_past_the_service_clock() -> None:
    view = a_view(every(10, 101), MORE)
    assert plan_horizon([view], Limits(max_records=501), 2000) is None
    assert plan_horizon([view], Limits(max_records=150), 2000) == 1490
    # The clock is whole seconds, so records may be later than it.
    assert plan_horizon([a_view(every(10, 101))], Limits(max_records=100), 500) == 999
    assert plan_horizon([a_view(every(10, 101))], Limits(max_records=101), 500) is None


RECORDS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 50)).map(lambda r: seen(0, *r)), max_size=8
)


@given(
    st.lists(RECORDS, min_size=1, max_size=4),
    st.none() | st.integers(0, 20),
    st.none() | st.integers(0, 400),
    st.none() | st.integers(0, 200),
    st.integers(0, 60),
)
def test_the_horizon_is_the_latest_time_within_all_limits(
    shards: list[list[SeenRecord]],
    max_records: int | None,
    max_bytes: int | None,
    per_shard: int | None,
    now_ms: int,
) -> None:
    """Against counting, where everything was seen."""

    def within(time_ms: int) -> bool:
        taken: list[list[int]] = []
        for records in shards:
            sizes = []
            for record in records:
                if record.arrival_ms > time_ms:
                    break
                sizes.append(record.size_bytes)
            taken.append(sizes)
        total = sum(map(sum, taken))
        return (
            (max_records is None or sum(map(len, taken)) <= max_records)
            and (max_bytes is None or total <= max_bytes)
            and (per_shard is None or all(sum(sizes) <= per_shard for sizes in taken))
        )

    views = [a_view(records, number=n) for n, records in enumerate(shards)]
    found = plan_horizon(views, Limits(max_records, max_bytes, per_shard), now_ms)
    times = [r.arrival_ms for records in shards for r in records]
    if not times or within(max(times)):
        assert found is None
    else:
        oldest = min(records[0].arrival_ms for records in shards if records)
        last = max(times)
        expected = max((t for t in range(oldest, last + 1) if within(t)), default=oldest)
        assert found == expected
