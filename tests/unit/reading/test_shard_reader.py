"""One shard range on the local stream: exactly its records, however the service behaves."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import pytest

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.loss import Loss
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
    Position,
    ShardEnd,
)
from kinesis_source.core.ranges import ShardRange
from kinesis_source.errors import (
    AccessDeniedError,
    ConfigurationError,
    DataLossError,
    KinesisSourceError,
    StreamNotFoundError,
    StreamRecreatedError,
)
from kinesis_source.reading.shard_reader import ShardReader
from kinesis_source.testing import Fault, FaultKind, LocalKinesis, ManualClock

SHARD = "shardId-000000000000"
HOUR_MS = 3_600_000
SECOND_BYTES = 2 << 20


class Reading:
    """A stream of one shard and readers of ranges of it."""

    def __init__(self, quotas: bool = False) -> None:
        self.clock = ManualClock()
        self.kinesis = LocalKinesis(self.clock, quotas=quotas)
        self.kinesis.create_stream("orders", max_record_kib=10_240)
        client = KinesisClient(self.kinesis.in_process_client(), StreamRef("orders"), self.clock)
        self.connection = Connection(client, self.clock)
        self.guard = StreamGuard(client)
        self.guard.check()
        self.losses: list[Loss] = []

    def put(self, count: int, size: int = 1) -> list[int]:
        return [
            self.kinesis.put_to_shard("orders", SHARD, b"x" * size, "key").sequence_number
            for _ in range(count)
        ]

    def reader(
        self,
        start: Position,
        end: int | ShardEnd,
        *,
        read_until_ms: int | None = None,
        first_record: int | None = None,
        max_bytes_per_s: int = SECOND_BYTES,
        on_loss: Callable[[Loss], None] | None = None,
        cut_off_s: float | None = None,
    ) -> ShardReader:
        shard_range = ShardRange(
            SHARD,
            TrackedShard(start, read_until_ms),
            AfterSequenceNumber(end) if isinstance(end, int) else end,
            first_record,
        )
        on_loss = on_loss or self.losses.append
        return ShardReader(
            self.connection,
            self.guard,
            shard_range,
            max_bytes_per_s,
            on_loss,
            cut_off_s=cut_off_s,
        )

    def read(self, start: Position, end: int | ShardEnd, **rest: object) -> list[int]:
        reader = self.reader(start, end, **rest)  # type: ignore[arg-type]
        pages = list(reader.read())
        assert all(pages), "no list is empty"
        return [record.sequence_number for page in pages for record in page]

    def calls(self, operation: str) -> int:
        return self.kinesis.calls[operation, SHARD]


@pytest.fixture
def reading() -> Reading:
    return Reading()


def test_the_start_is_exclusive_and_the_end_inclusive(reading: Reading) -> None:
    put = reading.put(10)
    assert reading.read(TRIM_HORIZON, put[4]) == put[:5]
    assert reading.read(AfterSequenceNumber(put[4]), put[5]) == [put[5]]
    assert reading.read(AfterSequenceNumber(put[4]), put[9]) == put[5:]


def test_a_start_by_time(reading: Reading) -> None:
    reading.put(2)
    reading.clock.advance(1_000)
    put = reading.put(3)
    at_ms = reading.clock.now_ms()
    reading.clock.advance(1_000)
    reading.put(1)
    assert reading.read(AtTimestamp(at_ms), put[-1], read_until_ms=at_ms) == put


def test_a_range_is_read_twice_alike_whatever_is_put_meanwhile(reading: Reading) -> None:
    put = reading.put(5)
    first = reading.read(TRIM_HORIZON, put[-1])
    reading.put(5)
    reading.kinesis.split("orders", SHARD)
    assert reading.read(TRIM_HORIZON, put[-1], first_record=put[0]) == first


def test_one_call_reads_a_small_range(reading: Reading) -> None:
    put = reading.put(50)
    reading.read(TRIM_HORIZON, put[-1])
    assert (reading.calls("GetShardIterator"), reading.calls("GetRecords")) == (1, 1)


def test_to_the_end_of_a_shard(reading: Reading) -> None:
    put = reading.put(5)
    reading.kinesis.split("orders", SHARD)
    assert reading.read(AfterSequenceNumber(put[1]), SHARD_END) == put[2:]
    assert reading.read(AfterSequenceNumber(put[4]), SHARD_END) == []


@pytest.mark.parametrize("end", ["record", "shard end"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_missing_iterators(reading: Reading, end: str, times: int) -> None:
    put = reading.put(30_000)
    if end == "shard end":
        reading.kinesis.split("orders", SHARD)
    reading.kinesis.inject(Fault("null_iterator", times=times))
    assert reading.read(TRIM_HORIZON, SHARD_END if end == "shard end" else put[-2]) == (
        put if end == "shard end" else put[:-1]
    )


@pytest.mark.parametrize("times", [1, 2, 3, 6])
def test_missing_iterators_between_records_that_fill_pages(reading: Reading, times: int) -> None:
    put = reading.put(4, size=9 << 20)
    reading.kinesis.split("orders", SHARD)
    reading.kinesis.inject(Fault("null_iterator", times=times))
    assert reading.read(TRIM_HORIZON, SHARD_END) == put


def test_empty_pages_before_and_behind(reading: Reading) -> None:
    put = reading.put(3)
    reading.kinesis.empty_pages("orders", SHARD, 40, each_iterator=True)
    assert reading.read(TRIM_HORIZON, put[-1]) == put
    reading.kinesis.inject(Fault("empty_page", times=25))
    assert reading.read(AfterSequenceNumber(put[0]), put[-1]) == put[1:]
    assert reading.losses == []


def test_the_first_record_that_the_planner_saw_spares_the_walk(reading: Reading) -> None:
    put = reading.put(3)
    reading.kinesis.empty_pages("orders", SHARD, 300, each_iterator=True)
    assert reading.read(TRIM_HORIZON, put[-1], first_record=put[0]) == put
    assert reading.calls("GetRecords") == 1


@pytest.mark.parametrize(
    "kind",
    [
        "throttle",
        "internal",
        "unavailable",
        "reset",
        "truncated",
        "truncated_consistent",
        "expired_iterator",
        "kms_throttle",
    ],
)
def test_trouble_is_waited_out(reading: Reading, kind: FaultKind) -> None:
    put = reading.put(25_000)
    reading.kinesis.inject(Fault(kind, "GetRecords", times=None, probability=0.7))
    assert reading.read(TRIM_HORIZON, put[-1]) == put


def test_a_long_outage_warns_once_a_minute(
    reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    put = reading.put(1)
    until_ms = reading.clock.now_ms() + 300_000
    reading.kinesis.inject(Fault("unavailable", "GetRecords", until_ms=until_ms))
    with caplog.at_level(logging.WARNING):
        assert reading.read(TRIM_HORIZON, put[0]) == put
    told = [r.getMessage() for r in caplog.records]
    assert 4 <= len(told) <= 6
    assert all(SHARD in text and "GetRecords" in text for text in told)
    assert reading.calls("GetRecords") <= 300 / 10 + 8


def test_a_host_that_gets_no_answer_at_all_gives_up(reading: Reading) -> None:
    put = reading.put(1)
    reading.kinesis.inject(Fault("reset", times=None))
    began = reading.clock.monotonic()
    with pytest.raises(ConfigurationError) as failed:
        reading.read(TRIM_HORIZON, put[0], cut_off_s=300.0)
    assert 300 < reading.clock.monotonic() - began < 330
    host = f"{SHARD}: host {socket.gethostname()} has had no answer for 3"
    assert str(failed.value).startswith(host)
    assert "check this host's routes, proxy and DNS. Nothing is lost" in str(failed.value)


@pytest.mark.parametrize("kind", ["throttle", "unavailable", "truncated"])
def test_a_refusal_is_an_answer(reading: Reading, kind: FaultKind) -> None:
    """Of a service that has trouble, which another worker would meet too."""
    put = reading.put(1)
    until_ms = reading.clock.now_ms() + 900_000
    reading.kinesis.inject(Fault(kind, "GetRecords", until_ms=until_ms))
    assert reading.read(TRIM_HORIZON, put[0], cut_off_s=300.0) == put


def test_answers_in_between_begin_the_time_anew(reading: Reading) -> None:
    put = reading.put(1)
    reading.kinesis.inject(Fault("reset", times=None, probability=0.5))
    reading.kinesis.inject(Fault("throttle", until_ms=reading.clock.now_ms() + 1_800_000))
    assert reading.read(TRIM_HORIZON, put[0], cut_off_s=300.0) == put


def test_what_waiting_does_not_mend_is_raised(reading: Reading) -> None:
    put = reading.put(1)
    reading.kinesis.deny("GetRecords")
    with pytest.raises(AccessDeniedError):
        reading.read(TRIM_HORIZON, put[0])


def test_another_stream_of_the_name_is_refused(reading: Reading) -> None:
    put = reading.put(3)
    reading.kinesis.delete_stream("orders")
    reading.kinesis.create_stream("orders")
    with pytest.raises(StreamRecreatedError):
        reading.read(AfterSequenceNumber(put[0]), put[2])


# Pace


def test_reading_keeps_to_five_calls_a_second(reading: Reading) -> None:
    reading.put(3)
    reading.kinesis.split("orders", SHARD)
    reading.kinesis.empty_pages("orders", SHARD, 100, each_iterator=True)
    begun_ms = reading.clock.now_ms()
    reading.read(TRIM_HORIZON, SHARD_END)
    assert reading.clock.now_ms() - begun_ms >= 100 * 200


@pytest.mark.parametrize(("rate", "seconds"), [(2 << 20, 20), (1 << 20, 40)])
def test_reading_keeps_to_the_rate(rate: int, seconds: int) -> None:
    reading = Reading(quotas=True)
    put = reading.put(5, size=8 << 20)
    begun_ms = reading.clock.now_ms()
    assert reading.read(TRIM_HORIZON, put[-1], max_bytes_per_s=rate) == put
    elapsed_s = (reading.clock.now_ms() - begun_ms) / 1000
    assert seconds * 0.75 <= elapsed_s <= seconds * 1.3
    assert sum(reading.kinesis.throttled.values()) <= 1


# Loss


def test_a_range_whose_shard_has_gone(reading: Reading) -> None:
    put = reading.put(3)
    reading.kinesis.split("orders", SHARD)
    reading.clock.advance(25 * HOUR_MS)
    assert reading.read(AfterSequenceNumber(put[0]), SHARD_END) == []
    (loss,) = reading.losses
    assert "the shard no longer exists" in loss.describe()
    assert loss.position == AfterSequenceNumber(put[0])


@pytest.mark.parametrize("left", [0, 1, 5])
def test_a_range_whose_records_have_gone(reading: Reading, left: int) -> None:
    put = reading.put(3)
    reading.clock.advance(25 * HOUR_MS)
    reading.put(left)
    assert reading.read(TRIM_HORIZON, put[-1]) == []
    assert len(reading.losses) == 1
    reading.losses.clear()
    begun_ms = reading.clock.now_ms() - 26 * HOUR_MS
    assert reading.read(AfterSequenceNumber(put[0]), put[-1], read_until_ms=begun_ms) == []
    assert reading.losses


def test_a_range_of_which_some_records_have_gone(reading: Reading) -> None:
    old = reading.put(3)
    reading.clock.advance(13 * HOUR_MS)
    new = reading.put(3)
    reading.clock.advance(12 * HOUR_MS)
    read_until_ms = reading.clock.now_ms() - 25 * HOUR_MS
    assert (
        reading.read(
            AfterSequenceNumber(old[0]), new[-1], read_until_ms=read_until_ms, first_record=old[1]
        )
        == new
    )
    assert len(reading.losses) == 1
    assert "may be lost" in reading.losses[0].describe()


def test_a_first_record_that_has_been_trimmed_is_loss(reading: Reading) -> None:
    """The position is TRIM_HORIZON, which promises little; but this record had been planned."""
    old = reading.put(3)
    reading.clock.advance(13 * HOUR_MS)
    new = reading.put(3)
    reading.clock.advance(12 * HOUR_MS)
    assert reading.read(TRIM_HORIZON, new[-1], first_record=old[0]) == new
    assert len(reading.losses) == 1


def test_loss_that_is_refused_is_raised(reading: Reading) -> None:
    def refuse(loss: Loss) -> None:
        raise DataLossError(loss.describe())

    put = reading.put(3)
    reading.clock.advance(25 * HOUR_MS)
    with pytest.raises(DataLossError):
        reading.read(TRIM_HORIZON, put[-1], on_loss=refuse)


def test_a_tip_that_lies_before_the_end_is_no_loss_while_older_records_are_there(
    reading: Reading,
) -> None:
    """An answer that lags behind what another one showed is waited for, but not for ever."""
    put = reading.put(3)
    begun_ms = reading.clock.now_ms()
    with pytest.raises(KinesisSourceError, match="Nothing is lost; start the query again"):
        reading.read(AfterSequenceNumber(put[1]), put[2] + (1 << 40))
    assert reading.losses == []
    assert 60_000 <= reading.clock.now_ms() - begun_ms <= 300_000


class Doubtful:
    """Answers the next GetRecords as listed: `tip`, as if there were nothing more; `walk`, an empty
    page on the way; `odd`, neither. Then comes the event, and the truth."""

    def __init__(self, kinesis: LocalKinesis, answers: list[str]) -> None:
        self._client = kinesis.in_process_client()
        self.answers = answers
        self.event: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def get_records(self, **request: object) -> dict[str, object]:
        answer = self._client.get_records(**request)
        if not self.answers:
            return answer
        kind = self.answers.pop(0)
        if not self.answers:
            self.event()
        empty: dict[str, object] = {"Records": [], "MillisBehindLatest": 1_000 * (kind == "walk")}
        return empty if kind == "odd" else empty | {"NextShardIterator": request["ShardIterator"]}


def doubtful(reading: Reading, answers: list[str]) -> Doubtful:
    client = Doubtful(reading.kinesis, answers)
    reading.connection = Connection(
        KinesisClient(client, StreamRef("orders"), reading.clock), reading.clock
    )
    reading.guard = StreamGuard(reading.connection.client)
    reading.guard.check()
    return client


@pytest.mark.parametrize(
    "answers",
    [
        ["tip"],
        ["tip", "tip"],
        ["tip", "tip", "walk", "walk"],
        ["tip", "tip", "odd", "odd"],
        ["tip", "tip", "walk", "odd", "odd"],
    ],
    ids=" ".join,
)
def test_a_range_is_not_gone_while_its_last_record_is_there(
    reading: Reading, answers: list[str]
) -> None:
    """The tip came before the end; whatever the service says next, the record decides."""
    put = reading.put(1)
    client = doubtful(reading, answers)
    assert reading.read(TRIM_HORIZON, put[0]) == put
    assert reading.losses == []
    assert client.answers == []


def test_a_range_is_gone_when_that_is_said_again_and_again(reading: Reading) -> None:
    put = reading.put(1)
    doubtful(reading, ["tip", "tip", "odd", "odd", "odd"])
    assert reading.read(TRIM_HORIZON, put[0]) == []
    assert len(reading.losses) == 1


def test_a_stream_that_goes_while_a_range_is_in_doubt_is_no_loss(reading: Reading) -> None:
    put = reading.put(1)
    client = doubtful(reading, ["tip", "tip"])
    client.event = lambda: reading.kinesis.delete_stream("orders")
    with pytest.raises(StreamNotFoundError):
        reading.read(TRIM_HORIZON, put[0])
    assert reading.losses == []


def test_a_record_that_shows_up_late_is_read(reading: Reading) -> None:
    put = reading.put(2)
    reader = reading.reader(TRIM_HORIZON, put[1] + 1)
    pages = reader.read()
    assert [r.sequence_number for r in next(pages)] == put
    later = reading.put(1)
    assert list(pages) == []
    assert later[0] > put[1] + 1


def test_aggregated_records_are_told_of_once(
    reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    aggregated = b"\xf3\x89\x9a\xc2" + b"x" * 30
    put = [
        reading.kinesis.put_to_shard("orders", SHARD, aggregated, "key").sequence_number
        for _ in range(25_000)
    ]
    assert reading.read(TRIM_HORIZON, put[-1]) == put
    told = [r.getMessage() for r in caplog.records if "Producer Library" in r.getMessage()]
    assert len(told) == 1
