"""The client over both faces of the local stream: HTTP with the SDK, and without sockets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kinesis_source.aws.client import IteratorStart, KinesisClient, RecordsPage, StreamRef
from kinesis_source.aws.session import connect
from kinesis_source.errors import (
    AccessDeniedError,
    CredentialsError,
    ExpiredIteratorError,
    InvalidArgumentError,
    KinesisSourceError,
    ResourceNotFoundError,
    TransientServiceError,
)
from kinesis_source.options import Options
from kinesis_source.testing import Fault, LocalKinesis, ManualClock

SHARD = "shardId-000000000000"
AWS_REPEATS = 4
"""More than the requests that the SDK makes in one call."""


@pytest.fixture
def clock() -> ManualClock:
    """The service's."""
    return ManualClock()


@pytest.fixture
def kinesis(clock: ManualClock) -> Iterator[LocalKinesis]:
    with LocalKinesis(clock=clock) as kinesis:
        kinesis.create_stream("orders", shards=2)
        yield kinesis


@pytest.fixture(params=["http", "in_process"])
def client(kinesis: LocalKinesis, request: pytest.FixtureRequest) -> Iterator[KinesisClient]:
    own_clock = ManualClock(0)
    if request.param == "in_process":
        yield KinesisClient(kinesis.in_process_client(), StreamRef("orders"), own_clock)
        return
    options = Options.parse(kinesis.spark_options("orders"))
    connection = connect(options, "driver", clock=own_clock)
    yield connection.client
    connection.close()


def read(client: KinesisClient, start: IteratorStart, limit: int = 10) -> RecordsPage:
    return client.get_records(SHARD, client.get_shard_iterator(SHARD, start), limit)


def test_records_arrive_as_they_were_put(
    client: KinesisClient, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    rng = random.Random(7)
    keys = ["plain", "grün", "\x00", None]
    put = [
        kinesis.put_to_shard(
            "orders",
            SHARD,
            rng.randbytes(n * 100),
            keys[n % 4],
            arrival_ms=clock.now_ms() - 50 + n,
        )
        for n in range(8)
    ]
    page = read(client, IteratorStart.trim_horizon())
    ledger = kinesis.ledger("orders").shards[SHARD].records
    assert [r.sequence_number for r in page.records] == [p.sequence_number for p in put]
    for got, expected in zip(page.records, ledger, strict=True):
        assert got.Data == expected.data
        assert got.PartitionKey == expected.partition_key
        assert got.arrival_ms == expected.arrival_ms
    assert (page.millis_behind, page.has_child_shards) == (0, False)
    assert page.size_bytes == sum(n * 100 for n in range(8))

    third = put[3].sequence_number
    at = read(client, IteratorStart.at_sequence_number(third), 1).records[0]
    after = read(client, IteratorStart.after_sequence_number(third), 1).records[0]
    timed = read(client, IteratorStart.at_timestamp(ledger[5].arrival_ms), 1).records[0]
    numbers = [p.sequence_number for p in put]
    assert [numbers.index(r.sequence_number) for r in (at, after, timed)] == [3, 4, 5]
    assert read(client, IteratorStart.latest()).records == []


def test_the_listing_and_the_end_of_a_shard(
    client: KinesisClient, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    before = clock.now_ms()
    clock.advance(1000)
    children = kinesis.split("orders", SHARD)
    shards = client.list_shards()
    assert len(shards) == 4
    assert [shards[SHARD].closed, *(shards[c].closed for c in children)] == [True, False, False]
    assert all(shards[c].parent_ids == (SHARD,) for c in children)
    assert set(client.list_shards(open_at_ms=before)) == set(shards) - set(children)
    page = read(client, IteratorStart.latest())
    assert page.next_iterator is None
    assert page.has_child_shards


def test_the_summary_and_the_services_time(
    client: KinesisClient, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    summary = client.describe_stream_summary()
    assert (summary.name, summary.status, summary.retention_ms) == ("orders", "ACTIVE", 86_400_000)
    assert summary.identity.arn.endswith(":stream/orders")
    clock.advance(5 * 3_600_000)
    client.list_shards()
    assert client.service_clock.now_ms() == clock.now_ms() // 1000 * 1000


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("throttle", TransientServiceError),
        ("limit_exceeded", TransientServiceError),
        ("internal", TransientServiceError),
        ("unavailable", TransientServiceError),
        ("reset", TransientServiceError),
        ("truncated", TransientServiceError),
        ("truncated_consistent", TransientServiceError),
        ("expired_iterator", ExpiredIteratorError),
        ("expired_credentials", CredentialsError),
        ("access_denied", AccessDeniedError),
        ("kms_throttle", TransientServiceError),
        ("kms_denied", AccessDeniedError),
    ],
)
def test_faults_become_errors_of_ours(
    client: KinesisClient,
    kinesis: LocalKinesis,
    kind: Any,
    expected: type[KinesisSourceError],
) -> None:
    iterator = client.get_shard_iterator(SHARD, IteratorStart.trim_horizon())
    kinesis.inject(Fault(kind, operation="GetRecords", times=AWS_REPEATS))
    with pytest.raises(expected) as caught:
        client.get_records(SHARD, iterator, 10)
    assert type(caught.value) is expected
    if isinstance(caught.value, TransientServiceError):
        assert caught.value.throttled is (kind in ("throttle", "limit_exceeded", "kms_throttle"))


@pytest.mark.parametrize("kind", ["truncated", "truncated_consistent"])
def test_no_answer_that_was_cut_is_believed(
    client: KinesisClient, kinesis: LocalKinesis, kind: Any
) -> None:
    for operation, call in (
        ("DescribeStreamSummary", client.describe_stream_summary),
        ("ListShards", client.list_shards),
        ("GetShardIterator", lambda: client.get_shard_iterator(SHARD, IteratorStart.latest())),
    ):
        kinesis.inject(Fault(kind, operation=operation, times=AWS_REPEATS))
        with pytest.raises(TransientServiceError):
            call()
        kinesis.clear_faults()


def test_refusals(client: KinesisClient, kinesis: LocalKinesis, clock: ManualClock) -> None:
    with pytest.raises(ResourceNotFoundError, match="shardId-000000000009"):
        client.get_shard_iterator("shardId-000000000009", IteratorStart.latest())
    with pytest.raises(InvalidArgumentError):
        read(client, IteratorStart.at_timestamp(clock.now_ms() + 1))
    kinesis.delete_stream("orders")
    with pytest.raises(ResourceNotFoundError, match="orders"):
        client.describe_stream_summary()
