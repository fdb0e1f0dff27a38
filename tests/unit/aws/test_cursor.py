"""The cursor on the local stream: what one page proves, and what only a second look proves."""

from __future__ import annotations

from typing import Literal

import pytest

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.cursor import CursorPage, ShardCursor
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.loss import Loss
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
    Position,
)
from kinesis_source.core.probes import Reached
from kinesis_source.errors import (
    ResourceNotFoundError,
    StreamNotFoundError,
    StreamRecreatedError,
    TransientServiceError,
)
from kinesis_source.testing import Fault, LocalKinesis, ManualClock

SHARD = "shardId-000000000000"
HOUR_MS = 3_600_000
TrimmedAnswer = Literal["horizon", "spin", "refuse"]
TRIMMED_ANSWERS: list[TrimmedAnswer] = ["horizon", "spin", "refuse"]


class Shard:
    """One shard of one stream, cursors on it, and the losses they told of."""

    def __init__(self, trimmed_answer: TrimmedAnswer = "horizon") -> None:
        self.clock = ManualClock()
        self.kinesis = LocalKinesis(self.clock, trimmed_answer=trimmed_answer)
        self.kinesis.create_stream("orders", max_record_kib=10_240)
        self.client = KinesisClient(
            self.kinesis.in_process_client(), StreamRef("orders"), self.clock
        )
        self.guard = StreamGuard(self.client)
        self.guard.check()
        self.losses: list[Loss] = []
        self.old: list[int] = []
        self.new: list[int] = []

    def put(self, count: int, size: int = 1) -> list[int]:
        return [
            self.kinesis.put_to_shard("orders", SHARD, b"x" * size, "key").sequence_number
            for _ in range(count)
        ]

    def cursor(
        self,
        position: Position = TRIM_HORIZON,
        read_until_ms: int | None = None,
        first_record: int | None = None,
    ) -> ShardCursor:
        place = TrackedShard(position, read_until_ms)
        on_loss = self.losses.append
        return ShardCursor(self.client, self.guard, SHARD, place, on_loss, first_record)

    def fault(self, kind: str, operation: str = "GetRecords", times: int = 1) -> None:
        self.kinesis.inject(Fault(kind, operation, times=times))  # type: ignore[arg-type]

    def calls(self, operation: str) -> int:
        return self.kinesis.calls[operation, SHARD]


@pytest.fixture
def shard() -> Shard:
    return Shard()


def numbers(page: CursorPage) -> list[int]:
    return [r.sequence_number for r in page.records]


def read_all(cursor: ShardCursor, limit: int = 100, most: int = 600) -> list[int]:
    """All records to the tip or the end of the shard."""
    read: list[int] = []
    for _ in range(most):
        page = cursor.next_page(limit)
        read += numbers(page)
        if page.reached is not Reached.MORE:
            return read
    raise AssertionError(f"neither tip nor end after {most} pages")


def test_pages_follow_one_another_along_one_iterator(shard: Shard) -> None:
    put = shard.put(5)
    cursor = shard.cursor()
    pages = [cursor.next_page(2) for _ in range(4)]
    assert [numbers(p) for p in pages] == [put[:2], put[2:4], put[4:], []]
    assert [p.reached for p in pages] == [Reached.MORE] * 2 + [Reached.TIP] * 2
    assert cursor.position == AfterSequenceNumber(put[4])
    assert shard.calls("GetShardIterator") == 1


def test_a_place_with_a_number_never_gives_that_record_again(shard: Shard) -> None:
    put = shard.put(3)
    assert read_all(shard.cursor(AfterSequenceNumber(put[1]))) == [put[2]]
    assert read_all(shard.cursor(AfterSequenceNumber(put[2]))) == []
    assert shard.losses == []


def test_a_finished_shard_has_no_cursor(shard: Shard) -> None:
    with pytest.raises(ValueError, match=f"{SHARD} is finished"):
        shard.cursor(SHARD_END)


def test_the_read_until_time_follows_the_records(shard: Shard) -> None:
    begun_ms = shard.clock.now_ms()
    shard.put(1)
    shard.clock.advance(5_000)
    shard.put(1)
    cursor = shard.cursor(read_until_ms=begun_ms - 1)
    read_all(cursor)
    assert cursor.read_until_ms == begun_ms + 5_000


def test_the_read_until_time_never_goes_back(shard: Shard) -> None:
    """Arrival times may be out of order; what was known before is still true."""
    now_ms = shard.clock.now_ms()
    shard.kinesis.put_to_shard("orders", SHARD, b"x", "key", arrival_ms=now_ms - 5_000)
    cursor = shard.cursor(read_until_ms=now_ms)
    read_all(cursor)
    assert cursor.read_until_ms == now_ms


# Empty pages, iterators that expire or fail


def test_an_empty_page_is_not_the_tip(shard: Shard) -> None:
    put = shard.put(2)
    shard.kinesis.empty_pages("orders", SHARD, 3)
    cursor = shard.cursor()
    pages = [cursor.next_page(10) for _ in range(4)]
    assert [p.reached for p in pages] == [Reached.MORE] * 3 + [Reached.TIP]
    assert numbers(pages[-1]) == put


def test_empty_pages_before_the_record_of_the_place_are_no_doubt(shard: Shard) -> None:
    put = shard.put(2)
    shard.kinesis.empty_pages("orders", SHARD, 10)
    assert read_all(shard.cursor(AfterSequenceNumber(put[0]))) == [put[1]]
    assert shard.calls("GetShardIterator") == 1


@pytest.mark.parametrize("pages", [11, 60, 300])
def test_a_long_walk_to_a_record_that_is_there_is_no_loss(shard: Shard, pages: int) -> None:
    put = shard.put(2)
    shard.fault("empty_page", times=pages)
    cursor = shard.cursor(AfterSequenceNumber(put[0]), read_until_ms=shard.clock.now_ms())
    assert read_all(cursor) == [put[1]]
    assert shard.losses == []


def test_a_doubt_about_a_place_does_not_lead_over_all_that_was_read_before(shard: Shard) -> None:
    put = shard.put(1_000)
    shard.fault("empty_page", times=11)
    assert read_all(shard.cursor(AfterSequenceNumber(put[989])), limit=5) == put[990:]
    assert shard.calls("GetRecords") <= 11 + 1 + 2


def test_an_iterator_that_expired_while_nobody_asked(shard: Shard) -> None:
    put = shard.put(2)
    cursor = shard.cursor()
    cursor.next_page(1)
    shard.clock.advance(300_001)
    assert read_all(cursor) == [put[1]]


def test_iterators_that_expire_at_once_are_not_opened_for_ever(shard: Shard) -> None:
    put = shard.put(1)
    shard.fault("expired_iterator", times=6)
    cursor = shard.cursor()
    with pytest.raises(TransientServiceError, match="none of 6 shard iterators"):
        cursor.next_page(10)
    assert numbers(cursor.next_page(10)) == put


@pytest.mark.parametrize(
    "kind", ["throttle", "internal", "unavailable", "reset", "truncated", "truncated_consistent"]
)
@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
def test_a_failed_call_skips_nothing(shard: Shard, kind: str, operation: str) -> None:
    put = shard.put(4)
    cursor = shard.cursor(AfterSequenceNumber(put[0]))
    shard.fault(kind, operation)
    with pytest.raises(TransientServiceError):
        cursor.next_page(2)
    assert numbers(cursor.next_page(2)) == put[1:2]
    shard.fault(kind, "GetRecords")
    with pytest.raises(TransientServiceError):
        cursor.next_page(2)
    assert read_all(cursor) == put[2:]


def test_an_unknown_shard_is_for_the_caller(shard: Shard) -> None:
    place = TrackedShard(TRIM_HORIZON)
    cursor = ShardCursor(
        shard.client, shard.guard, "shardId-000000000009", place, shard.losses.append
    )
    with pytest.raises(ResourceNotFoundError):
        cursor.next_page(10)
    assert shard.losses == []


# The end of a shard


@pytest.mark.parametrize("shard_end", ["extra_page", "last_page"])
def test_the_end_of_a_closed_shard(shard: Shard, shard_end: Literal["extra_page"]) -> None:
    shard.kinesis.behaviour.shard_end = shard_end
    put = shard.put(3)
    shard.kinesis.split("orders", SHARD)
    cursor = shard.cursor()
    read: list[int] = []
    for _ in range(4):
        page = cursor.next_page(2)
        read += numbers(page)
    assert read == put
    assert page.reached is Reached.END
    calls = shard.calls("GetRecords")
    again = cursor.next_page(2)
    assert (again.reached, again.has_child_shards) == (Reached.END, True)
    assert shard.calls("GetRecords") == calls, "a shard that has ended is not asked again"


@pytest.mark.parametrize("times", [1, 2, 3])
def test_missing_iterators_on_an_open_shard(shard: Shard, times: int) -> None:
    """Its records go on, so whatever the cursor says of the end, nothing may be left out."""
    put = shard.put(6)
    cursor = shard.cursor()
    shard.fault("null_iterator", times=times)
    read: list[int] = []
    for _ in range(10):
        page = cursor.next_page(2)
        read += numbers(page)
        if page.reached is not Reached.MORE:
            break
    assert read == put
    assert page.reached is Reached.TIP


def test_one_missing_iterator_at_the_tip_is_not_the_end(shard: Shard) -> None:
    put = shard.put(1)
    cursor = shard.cursor()
    shard.fault("null_iterator")
    assert cursor.next_page(10).reached is Reached.MORE
    assert cursor.next_page(10).reached is Reached.TIP
    later = shard.put(1)
    assert read_all(cursor) == later
    assert cursor.position == AfterSequenceNumber(later[0])
    assert put != later


def test_a_missing_iterator_long_ago_does_not_confirm_an_end(shard: Shard) -> None:
    shard.put(1)
    cursor = shard.cursor()
    shard.fault("null_iterator")
    for _ in range(6):
        cursor.next_page(10)
    shard.fault("null_iterator")
    assert cursor.next_page(10).reached is Reached.MORE


def test_two_missing_iterators_and_records_that_fill_a_page(shard: Shard) -> None:
    """The page that should confirm the end is full with the record of the place alone."""
    put = shard.put(4, size=9 << 20)
    shard.kinesis.split("orders", SHARD)
    shard.fault("null_iterator", times=2)
    cursor = shard.cursor()
    read: list[int] = []
    for _ in range(12):
        page = cursor.next_page(10_000)
        read += numbers(page)
        if page.reached is Reached.END:
            break
    assert page.reached is Reached.END
    assert read == put


class OddlyEmpty:
    """Answers the next `odd` GetRecords with nothing: no record, no iterator, no children."""

    def __init__(self, kinesis: LocalKinesis) -> None:
        self._client = kinesis.in_process_client()
        self.odd = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def get_records(self, **request: object) -> dict[str, object]:
        answer = self._client.get_records(**request)
        if self.odd:
            self.odd -= 1
            del answer["NextShardIterator"]
            answer["Records"] = []
        return answer


@pytest.mark.parametrize("odd", [1, 2, 3])
def test_answers_without_anything_are_no_loss(shard: Shard, odd: int) -> None:
    """One makes the place doubtful; the next must not be taken for an empty shard."""
    put = shard.put(3)
    oddly_empty = OddlyEmpty(shard.kinesis)
    shard.client = KinesisClient(oddly_empty, StreamRef("orders"), shard.clock)
    shard.client.describe_stream_summary()
    cursor = shard.cursor(AfterSequenceNumber(put[0]))
    oddly_empty.odd = odd
    assert read_all(cursor) == put[1:]
    assert shard.losses == []


class WithoutChildShards:
    """A service (kinesalite is one) that ends a shard without naming its children."""

    def __init__(self, kinesis: LocalKinesis) -> None:
        self._client = kinesis.in_process_client()

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def get_records(self, **request: object) -> dict[str, object]:
        answer = self._client.get_records(**request)
        answer.pop("ChildShards", None)
        return answer


def test_an_end_without_child_shards_needs_a_second_iterator(shard: Shard) -> None:
    put = shard.put(2)
    shard.kinesis.split("orders", SHARD)
    shard.client = KinesisClient(
        WithoutChildShards(shard.kinesis), StreamRef("orders"), shard.clock
    )
    cursor = shard.cursor()
    assert numbers(cursor.next_page(10)) == put
    opened = shard.calls("GetShardIterator")
    reached = [cursor.next_page(10) for _ in range(4)]
    assert Reached.END in [p.reached for p in reached]
    assert not any(p.has_child_shards for p in reached)
    assert shard.calls("GetShardIterator") == opened + 1


# Aged positions


@pytest.fixture(params=TRIMMED_ANSWERS)
def aged(request: pytest.FixtureRequest) -> Shard:
    """Two records, 25 hours ago, and one now; the first two are trimmed."""
    shard = Shard(request.param)
    shard.old = shard.put(2)
    shard.clock.advance(25 * HOUR_MS)
    shard.new = shard.put(1)
    shard.guard.check()
    return shard


def test_a_quiet_shard_whose_position_was_trimmed_raises_no_alarm(aged: Shard) -> None:
    read_until_ms = aged.clock.now_ms() - HOUR_MS
    cursor = aged.cursor(AfterSequenceNumber(aged.old[1]), read_until_ms)
    assert read_all(cursor) == aged.new
    assert aged.losses == []


def test_a_trimmed_position_with_an_old_read_until_time_is_loss(aged: Shard) -> None:
    read_until_ms = aged.clock.now_ms() - 25 * HOUR_MS
    cursor = aged.cursor(AfterSequenceNumber(aged.old[0]), read_until_ms)
    assert read_all(cursor) == aged.new
    (loss,) = aged.losses
    assert (loss.stream, loss.shard_id) == ("orders", SHARD)
    assert loss.position == AfterSequenceNumber(aged.old[0])
    assert loss.read_until_ms == read_until_ms
    assert loss.until_ms is not None
    horizon_ms = aged.clock.now_ms() - 24 * HOUR_MS
    assert horizon_ms <= loss.until_ms <= horizon_ms + 10_000, "never before what is gone"


def test_a_trimmed_position_of_which_nothing_is_known_is_loss(aged: Shard) -> None:
    cursor = aged.cursor(AfterSequenceNumber(aged.old[0]))
    assert read_all(cursor) == aged.new
    assert len(aged.losses) == 1


def test_a_loss_that_is_refused_reads_nothing(aged: Shard) -> None:
    class Refused(Exception):
        pass

    def refuse(loss: Loss) -> None:
        raise Refused

    place = TrackedShard(AfterSequenceNumber(aged.old[0]), 1)
    cursor = ShardCursor(aged.client, aged.guard, SHARD, place, refuse)
    with pytest.raises(Refused):
        read_all(cursor)
    assert cursor.position == place.position


def test_the_retention_is_asked_for_again_before_anything_is_called_loss(aged: Shard) -> None:
    """It was raised meanwhile: what was read until 30 hours ago is still within it."""
    read_until_ms = aged.clock.now_ms() - 24 * HOUR_MS - 500_000
    aged.kinesis.set_retention_hours("orders", 48)
    cursor = aged.cursor(AfterSequenceNumber(aged.old[1]), read_until_ms)
    assert read_all(cursor) == aged.new
    assert aged.losses == []


@pytest.mark.parametrize("answer", TRIMMED_ANSWERS)
def test_an_aged_position_that_is_still_there_is_no_loss(answer: TrimmedAnswer) -> None:
    """Nothing after it can have gone while it is there itself, however old its read-until time."""
    shard = Shard(answer)
    put = shard.put(3)
    shard.clock.advance(24 * HOUR_MS - 5)
    shard.client.describe_stream_summary()
    cursor = shard.cursor(AfterSequenceNumber(put[1]), shard.clock.now_ms() - 24 * HOUR_MS)
    assert read_all(cursor) == [put[2]]
    assert shard.losses == []


def test_a_kept_iterator_that_the_horizon_overtakes_is_found_out(shard: Shard) -> None:
    """The service carries an iterator silently to the oldest record left."""
    old = shard.put(4)
    shard.clock.advance(24 * HOUR_MS - 60_000)
    shard.guard.check()
    cursor = shard.cursor()
    assert numbers(cursor.next_page(2)) == old[:2]
    shard.clock.advance(120_000)
    new = shard.put(1)
    assert read_all(cursor) == new
    (loss,) = shard.losses
    assert loss.position == AfterSequenceNumber(old[1])


def test_that_holds_for_a_clock_that_is_known_to_the_second_only(shard: Shard) -> None:
    """Every answer came at the end of a second, so the estimate is 0.9 s behind: by it the place is
    within the retention, by the service's clock it is not."""
    shard.clock.advance(900)
    shard.client = KinesisClient(
        shard.kinesis.in_process_client(), StreamRef("orders"), shard.clock
    )
    shard.guard = StreamGuard(shard.client)
    shard.guard.check()
    old = shard.put(4)
    cursor = shard.cursor()
    assert numbers(cursor.next_page(2)) == old[:2]
    shard.clock.advance(24 * HOUR_MS + 500)
    new = shard.put(1)
    assert read_all(cursor) == new
    assert [loss.position for loss in shard.losses] == [AfterSequenceNumber(old[1])]


def test_a_walk_over_empty_pages_that_the_horizon_overtakes_is_found_out(shard: Shard) -> None:
    """The iterator was carried over the gap while it gave nothing."""
    old = shard.put(4)
    shard.clock.advance(24 * HOUR_MS - 60_000)
    shard.guard.check()
    cursor = shard.cursor()
    assert numbers(cursor.next_page(2)) == old[:2]
    shard.fault("empty_page")
    assert cursor.next_page(2).records == []
    shard.clock.advance(120_000)
    new = shard.put(1)
    assert read_all(cursor) == new
    assert [loss.position for loss in shard.losses] == [AfterSequenceNumber(old[1])]


class SlowToOpen:
    """Two minutes pass before an iterator AFTER a number is opened."""

    def __init__(self, kinesis: LocalKinesis, clock: ManualClock) -> None:
        self._client = kinesis.in_process_client()
        self._clock = clock

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def get_shard_iterator(self, **request: object) -> object:
        if request["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER":
            self._clock.advance(120_000)
        return self._client.get_shard_iterator(**request)


@pytest.mark.parametrize("answer", TRIMMED_ANSWERS)
def test_a_position_that_is_trimmed_right_after_it_was_seen(answer: TrimmedAnswer) -> None:
    """A doubt was settled by the oldest record left, which is at or before the position; when the
    service is asked for what comes after it, both are gone."""
    shard = Shard(answer)
    old = shard.put(2)
    begun_ms = shard.clock.now_ms()
    shard.clock.advance(24 * HOUR_MS - 60_000)
    new = shard.put(1)
    shard.client = KinesisClient(
        SlowToOpen(shard.kinesis, shard.clock), StreamRef("orders"), shard.clock
    )
    shard.guard = StreamGuard(shard.client)
    shard.guard.check()
    shard.fault("empty_page", times=11)
    assert read_all(shard.cursor(AfterSequenceNumber(old[1]), begun_ms)) == new
    assert [loss.position for loss in shard.losses] == [AfterSequenceNumber(old[1])]


@pytest.mark.parametrize("read_until_hours", [25, None])
def test_a_position_that_was_doubted_and_is_there_is_no_loss(
    shard: Shard, read_until_hours: int | None
) -> None:
    """However old the read-until time is: the oldest record left lies before the position."""
    old = shard.put(2)
    shard.clock.advance(HOUR_MS)
    new = shard.put(1)
    shard.fault("empty_page", times=11)
    now_ms = shard.clock.now_ms()
    read_until_ms = None if read_until_hours is None else now_ms - read_until_hours * HOUR_MS
    assert read_all(shard.cursor(AfterSequenceNumber(old[1]), read_until_ms)) == new
    assert shard.losses == []


def test_a_start_by_time_begins_where_a_new_iterator_would(shard: Shard) -> None:
    """One that stood at the tip also gives what comes later with an earlier time."""
    at_ms = shard.clock.now_ms()
    kept = shard.cursor(AtTimestamp(at_ms), at_ms)
    assert kept.next_page(10).reached is Reached.TIP
    shard.kinesis.put_to_shard("orders", SHARD, b"x", "key", arrival_ms=at_ms - 500)
    put = shard.put(2)
    assert read_all(shard.cursor(AtTimestamp(at_ms), at_ms)) == put
    assert read_all(kept) == put


def test_what_arrives_late_and_early_while_a_start_by_time_is_walked_to(shard: Shard) -> None:
    """No tip was seen before it, only an empty page."""
    shard.clock.advance(60_000)
    shard.guard.check()
    start_ms = shard.clock.now_ms()
    cursor = shard.cursor(AtTimestamp(start_ms), start_ms)
    shard.fault("empty_page")
    assert cursor.next_page(10).records == []
    early, late = (
        shard.kinesis.put_to_shard("orders", SHARD, b"x", "key", arrival_ms=start_ms + plus_ms)
        for plus_ms in (-2_000, 0)
    )
    assert read_all(cursor) == [late.sequence_number]
    assert early.sequence_number < late.sequence_number


def test_a_start_by_time_that_has_aged_is_loss(shard: Shard) -> None:
    begun_ms = shard.clock.now_ms()
    shard.put(2)
    shard.clock.advance(25 * HOUR_MS)
    new = shard.put(1)
    shard.guard.check()
    cursor = shard.cursor(AtTimestamp(begun_ms), begun_ms)
    assert read_all(cursor) == new
    assert [loss.position for loss in shard.losses] == [AtTimestamp(begun_ms)]


def test_a_start_by_time_within_a_retention_that_was_raised_is_no_loss(shard: Shard) -> None:
    begun_ms = shard.clock.now_ms()
    shard.kinesis.set_retention_hours("orders", 48)
    put = shard.put(2)
    shard.clock.advance(25 * HOUR_MS)
    shard.client.describe_stream_summary()
    assert read_all(shard.cursor(AtTimestamp(begun_ms), begun_ms)) == put
    assert shard.losses == []


def test_a_start_that_ages_while_the_way_to_its_first_record_is_walked(shard: Shard) -> None:
    begun_ms = shard.clock.now_ms()
    shard.put(2)
    shard.clock.advance(24 * HOUR_MS - 60_000)
    shard.guard.check()
    cursor = shard.cursor(TRIM_HORIZON, begun_ms)
    shard.fault("empty_page")
    assert cursor.next_page(10).records == []
    shard.clock.advance(120_000)
    new = shard.put(1)
    assert read_all(cursor) == new
    assert len(shard.losses) == 1


def test_a_child_that_was_left_waiting_too_long_is_loss(shard: Shard) -> None:
    parents_end_ms = shard.clock.now_ms()
    shard.put(2)
    shard.clock.advance(25 * HOUR_MS)
    new = shard.put(1)
    shard.guard.check()
    assert read_all(shard.cursor(TRIM_HORIZON, parents_end_ms)) == new
    assert len(shard.losses) == 1, "said once"


def test_a_loss_is_told_once_though_nothing_is_left_to_read(shard: Shard) -> None:
    parents_end_ms = shard.clock.now_ms()
    shard.put(2)
    shard.clock.advance(25 * HOUR_MS)
    cursor = shard.cursor(TRIM_HORIZON, parents_end_ms)
    for _ in range(3):
        assert cursor.next_page(10).records == []
    assert len(shard.losses) == 1


def test_a_start_without_a_read_until_time_promises_what_is_left(shard: Shard) -> None:
    shard.put(2)
    shard.clock.advance(25 * HOUR_MS)
    new = shard.put(1)
    shard.guard.check()
    assert read_all(shard.cursor(TRIM_HORIZON)) == new
    assert shard.losses == []


# The hint


def test_the_hint_spares_the_walk_over_a_gap(shard: Shard) -> None:
    put = shard.put(3)
    shard.kinesis.empty_pages("orders", SHARD, 200, each_iterator=True)
    assert numbers(shard.cursor(first_record=put[0]).next_page(10)) == put
    assert shard.calls("GetRecords") == 1


def test_the_record_of_the_place_is_not_asked_for_where_the_next_is_known(shard: Shard) -> None:
    put = shard.put(4)
    assert (
        numbers(shard.cursor(AfterSequenceNumber(put[0]), first_record=put[1]).next_page(10))
        == (put[1:])
    )
    assert shard.calls("GetShardIterator") == 1


@pytest.mark.parametrize("pages", [11, 60])
def test_a_long_walk_to_a_hint_that_is_there_is_no_loss(shard: Shard, pages: int) -> None:
    put = shard.put(3)
    shard.fault("empty_page", times=pages)
    assert read_all(shard.cursor(first_record=put[0])) == put
    assert shard.losses == []


def test_a_hint_that_no_record_has_is_given_up(shard: Shard) -> None:
    put = shard.put(4)
    wrong = (put[1] + put[2]) // 2
    assert read_all(shard.cursor(AfterSequenceNumber(put[0]), first_record=wrong)) == put[1:]


@pytest.mark.parametrize("answer", TRIMMED_ANSWERS)
def test_a_hint_that_has_been_trimmed_is_loss(answer: TrimmedAnswer) -> None:
    shard = Shard(answer)
    hint = shard.put(2)[0]
    shard.clock.advance(25 * HOUR_MS)
    new = shard.put(2)
    shard.guard.check()
    cursor = shard.cursor(TRIM_HORIZON, first_record=hint)
    assert read_all(cursor) == new
    assert len(shard.losses) == 1


@pytest.mark.parametrize("answer", TRIMMED_ANSWERS)
def test_a_hint_that_has_been_trimmed_from_a_shard_left_empty_is_loss(
    answer: TrimmedAnswer,
) -> None:
    shard = Shard(answer)
    hint = shard.put(2)[0]
    shard.kinesis.set_retention_hours("orders", 168)
    shard.clock.advance(60 * HOUR_MS)
    shard.kinesis.split("orders", SHARD)
    cursor = shard.cursor(TRIM_HORIZON, first_record=hint)
    shard.kinesis.set_retention_hours("orders", 48)
    assert read_all(cursor) == []
    assert len(shard.losses) == 1


# Another stream


def test_a_stream_made_again_is_refused_by_number_and_by_iterator(shard: Shard) -> None:
    put = shard.put(2)
    kept = shard.cursor()
    kept.next_page(1)
    shard.kinesis.delete_stream("orders")
    shard.kinesis.create_stream("orders")
    shard.put(2)
    for cursor in (kept, shard.cursor(AfterSequenceNumber(put[0]))):
        with pytest.raises(StreamRecreatedError):
            cursor.next_page(10)


def test_a_stream_made_again_is_refused_where_nothing_had_been_read(shard: Shard) -> None:
    """No number can tell the streams apart, only the iterator that the service refuses."""
    cursor = shard.cursor()
    cursor.next_page(10)
    shard.kinesis.delete_stream("orders")
    shard.kinesis.create_stream("orders")
    shard.put(2)
    with pytest.raises(StreamRecreatedError):
        cursor.next_page(10)


def test_a_refused_number_on_a_deleted_stream_says_so(shard: Shard) -> None:
    put = shard.put(1)
    cursor = shard.cursor(AfterSequenceNumber(put[0] ^ 1))
    shard.kinesis.delete_stream("orders")
    with pytest.raises((StreamNotFoundError, ResourceNotFoundError)):
        cursor.next_page(10)


def test_moving_on_to_a_record_found_elsewhere(shard: Shard) -> None:
    put = shard.put(5)
    page = shard.cursor().next_page(3)
    for following in (None, "an iterator that the service does not know"):
        cursor = shard.cursor()
        cursor.move_to(page.records[2], following)
        assert cursor.position == AfterSequenceNumber(put[2])
        assert read_all(cursor) == put[3:]
