"""A task reads its shards side by side: in order, within its buffer, and gone when it is over."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.session import Connection
from kinesis_source.clock import SystemClock
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import TRIM_HORIZON, AfterSequenceNumber
from kinesis_source.core.ranges import ShardRange
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import AccessDeniedError, DataLossError, StreamRecreatedError
from kinesis_source.options import Options
from kinesis_source.reading import shard_reader, task
from kinesis_source.reading.arrow import SCHEMA, TARGET_BYTES
from kinesis_source.testing import Fault, LocalKinesis, ManualClock

HOUR_MS = 3_600_000


class Task:
    """A stream of some shards, and tasks that read all of it."""

    def __init__(self, shards: int) -> None:
        self.clock = ManualClock()
        self.kinesis = LocalKinesis(self.clock)
        self.kinesis.create_stream("orders", shards=shards, max_record_kib=10_240)
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.closed = 0

    def put(self, shard_id: str, count: int, size: int = 1) -> None:
        for _ in range(count):
            put = self.kinesis.put_to_shard("orders", shard_id, b"x" * size, "key")
            self.numbers[shard_id].append(put.sequence_number)

    def ranges(self) -> list[ShardRange]:
        return [
            ShardRange(i, TrackedShard(TRIM_HORIZON), AfterSequenceNumber(numbers[-1]), numbers[0])
            for i, numbers in self.numbers.items()
        ]

    def read(self, threads: int, **options: str) -> Iterator[pa.RecordBatch]:
        parsed = Options.parse({"streamName": "orders", "region": "us-east-1", **options})
        client = KinesisClient(self.kinesis.in_process_client(), StreamRef("orders"), self.clock)
        connection = Connection(client, self.clock, threads, self._count_close)
        identity = client.describe_stream_summary().identity
        return task.read_ranges(parsed, connection, identity, 24 * HOUR_MS, self.ranges())

    def _count_close(self) -> None:
        self.closed += 1


def by_shard(batches: list[pa.RecordBatch]) -> dict[str, list[int]]:
    read: dict[str, list[int]] = defaultdict(list)
    for batch in batches:
        for row in batch.select(["shardId", "sequenceNumber"]).to_pylist():
            read[row["shardId"]].append(int(row["sequenceNumber"]))
    return read


def reading_threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("shard-reader")}


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = reading_threads()
    yield
    for thread in reading_threads() - before:
        thread.join(timeout=5)
        assert not thread.is_alive(), f"{thread.name} goes on after its task"


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_each_shard_comes_whole_and_in_order(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reader, "PAGE_LIMIT", 7)
    reading = Task(shards=12)
    rng = random.Random(2)
    for shard_id in reading.kinesis.shards("orders"):
        reading.put(shard_id, rng.randint(1, 60))
    batches = list(reading.read(threads))
    assert by_shard(batches) == reading.numbers
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    assert reading.closed == 1


def test_several_shards_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that is waited for does not hold up the others."""
    monkeypatch.setattr(shard_reader, "PAGE_LIMIT", 5)
    reading = Task(shards=3)
    # While the throttled shard waits, hours pass on the tests' clock.
    reading.kinesis.set_retention_hours("orders", 8760)
    slow, *others = reading.kinesis.shards("orders")
    for shard_id in (slow, *others):
        reading.put(shard_id, 20)
    reading.kinesis.inject(Fault("throttle", "GetRecords", slow, times=None))
    batches = reading.read(2)
    read: list[pa.RecordBatch] = []
    while sum(map(len, by_shard(read).values())) < 40:
        read.append(next(batches))
    assert set(by_shard(read)) == set(others)
    reading.kinesis.clear_faults()
    read += batches
    assert by_shard(read) == reading.numbers


def test_no_more_is_read_ahead_than_the_buffer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reader, "PAGE_LIMIT", 5)
    monkeypatch.setattr(task, "BUFFER_BYTES", 1 << 20)
    reading = Task(shards=2)
    for shard_id in reading.kinesis.shards("orders"):
        reading.put(shard_id, 100, size=100_000)
    batches = reading.read(2)
    read = [next(batches)]
    calls = -1
    while calls != (calls := sum(reading.kinesis.calls.values())):
        SystemClock().sleep(0.1)
    pages = sum(n for (name, _), n in reading.kinesis.calls.items() if name == "GetRecords")
    # Pages of 0.5 MB: one with Spark, one more that fits, one in the hands of each thread.
    assert pages <= 5
    read += batches
    assert by_shard(read) == reading.numbers


def test_a_batch_that_is_larger_than_the_buffer_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "BUFFER_BYTES", 1000)
    reading = Task(shards=2)
    for shard_id in reading.kinesis.shards("orders"):
        reading.put(shard_id, 3, size=2_000_000)
    assert by_shard(list(reading.read(2))) == reading.numbers


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_of_one_shard_ends_the_task(threads: int) -> None:
    reading = Task(shards=4)
    for shard_id in reading.kinesis.shards("orders"):
        reading.put(shard_id, 10)
    reading.kinesis.deny("GetRecords")
    with pytest.raises(AccessDeniedError, match="kinesis:GetRecords"):
        list(reading.read(threads))
    assert reading.closed == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_loss_in_one_shard(threads: int, caplog: pytest.LogCaptureFixture) -> None:
    reading = Task(shards=4)
    lost, *others = reading.kinesis.shards("orders")
    reading.put(lost, 5)
    reading.clock.advance(25 * HOUR_MS)
    for shard_id in others:
        reading.put(shard_id, 5)
    with pytest.raises(DataLossError, match=lost):
        list(reading.read(threads))
    read = by_shard(list(reading.read(threads, failOnDataLoss="false")))
    assert read == {i: reading.numbers[i] for i in others}
    assert f"data loss in {lost}" in caplog.text


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_task_that_is_given_up_leaves_nothing_running(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_reader, "PAGE_LIMIT", 2)
    monkeypatch.setattr(task, "BUFFER_BYTES", 100)
    reading = Task(shards=4)
    for shard_id in reading.kinesis.shards("orders"):
        reading.put(shard_id, 50)
    batches = reading.read(4)
    for _ in range(taken):
        next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert reading.closed == (1 if taken else 0)


def test_a_thread_that_waits_out_an_outage_ends_with_its_task() -> None:
    reading = Task(shards=2)
    first, second = reading.kinesis.shards("orders")
    reading.put(first, 5)
    reading.put(second, 5)
    reading.kinesis.inject(Fault("unavailable", "GetRecords", second, times=None))
    batches = reading.read(2)
    next(batches)
    batches.close()  # type: ignore[attr-defined]


def test_a_connection_with_one_thread_starts_none() -> None:
    reading = Task(shards=2)
    for shard_id in reading.kinesis.shards("orders"):
        reading.put(shard_id, 5)
    before = reading_threads()
    batches = reading.read(1)
    next(batches)
    assert reading_threads() == before
    list(batches)


def test_record_batches_are_of_about_a_megabyte() -> None:
    reading = Task(shards=1)
    (shard_id,) = reading.kinesis.shards("orders")
    reading.put(shard_id, 100, size=100_000)
    reading.put(shard_id, 2, size=3_000_000)
    reading.put(shard_id, 10, size=0)
    sizes = [batch.column("data").nbytes for batch in reading.read(1)]
    assert 11 <= len(sizes) <= 14
    assert sorted(sizes)[-2:] > [3_000_000, 3_000_000]
    assert all(size <= TARGET_BYTES + 4 * 20 for size in sorted(sizes)[:-2])


def test_another_stream_than_the_batch_was_planned_for() -> None:
    reading = Task(shards=1)
    (shard_id,) = reading.kinesis.shards("orders")
    reading.put(shard_id, 5)
    client = KinesisClient(reading.kinesis.in_process_client(), StreamRef("orders"), reading.clock)
    options = Options.parse({"streamName": "orders", "region": "us-east-1"})
    identity = StreamIdentity("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1)
    reading.clock.advance(25 * HOUR_MS)  # so that there is a doubt
    reading.put(shard_id, 1)
    with pytest.raises(StreamRecreatedError):
        list(
            task.read_ranges(
                options,
                Connection(client, reading.clock),
                identity,
                24 * HOUR_MS,
                [
                    ShardRange(
                        shard_id, TrackedShard(AfterSequenceNumber(1)), AfterSequenceNumber(2)
                    )
                ],
            )
        )
