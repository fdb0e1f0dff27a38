"""`kinesis-source shards`: a stream of three generations as a tree, and as a document."""

from __future__ import annotations

import pytest

from kinesis_source.testing import LocalKinesis, ManualClock
from tests.unit.cli.command_line import CommandLine

SHARD = "shardId-{:012}".format
ORDERS = ("shards", "--stream", "orders", "--region", "us-east-1")
HOUR_MS = 3_600_000
TOP = 2**128 - 1


@pytest.fixture
def three_generations(kinesis: LocalKinesis, clock: ManualClock) -> LocalKinesis:
    """0 and 1; 0 was split into 2 and 3; 3 and 1 were merged into 4, an hour later; 4 was split
    into 5 and 6, which is empty."""
    kinesis.create_stream("orders", shards=2)
    put(kinesis, clock, 0, 1, 0)
    kinesis.split("orders", SHARD(0))
    clock.advance(HOUR_MS)
    put(kinesis, clock, 2, 3, 1)
    kinesis.merge("orders", SHARD(3), SHARD(1))
    put(kinesis, clock, 4)
    kinesis.split("orders", SHARD(4))
    put(kinesis, clock, 5)
    return kinesis


def put(kinesis: LocalKinesis, clock: ManualClock, *shards: int) -> None:
    """A record into each, a second apart."""
    for shard in shards:
        kinesis.put_to_shard("orders", SHARD(shard), b"x", "key")
        clock.advance(1000)


def test_three_generations_as_a_tree(
    command_line: CommandLine, three_generations: LocalKinesis
) -> None:
    ran = command_line(*ORDERS, kinesis=three_generations)
    assert ran.status == 0
    assert (
        ran.out
        == """\
Stream     orders  arn:aws:kinesis:us-east-1:123456789012:stream/orders
Created    2026-01-01T00:00:00.000Z
Status     ACTIVE
Retention  1 d
Shards     3 open, 4 closed

shard                                state   share of keys
shardId-000000000000                 closed  50 %
├─ shardId-000000000002              open    25 %
└─ shardId-000000000003              closed  25 %
   └─ shardId-000000000004 (merged)  closed  75 %
      ├─ shardId-000000000005        open    37.5 %
      └─ shardId-000000000006        open    37.5 %
shardId-000000000001                 closed  50 %
└─ shardId-000000000004              above
"""
    )


def test_the_hash_keys_in_full(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    kinesis.create_stream("orders", shards=2)
    ran = command_line(*ORDERS, "--full", kinesis=kinesis)
    assert ran.cells == {
        SHARD(0): ["open", "50 %", "0", str(2**127 - 1)],
        SHARD(1): ["open", "50 %", str(2**127), str(TOP)],
    }


def test_the_first_and_the_last_record_of_each_shard(
    command_line: CommandLine, three_generations: LocalKinesis
) -> None:
    ran = command_line(*ORDERS, "--records", kinesis=three_generations)
    for shard_id, shard in three_generations.ledger("orders").shards.items():
        if not shard.records:
            assert ran.cells[shard_id][2:] == ["none", "none"]
        elif shard_id != SHARD(4):  # whose last line is the reference
            first, last = shard.records[0].sequence_number, shard.records[-1].sequence_number
            assert ran.cells[shard_id][3::2] == [f"…{str(n)[-12:]}" for n in (first, last)]
    cells = ran.cells[SHARD(0)]
    assert cells[2::2] == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:02.000Z"]


def test_the_records_of_shards_with_much_between(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    """More than a page, and hours of silence before the end of a closed shard."""
    kinesis.create_stream("orders", shards=2)
    for shard in (0, 1):
        for _ in range(1500):
            kinesis.put_to_shard("orders", SHARD(shard), b"x", "key")
            clock.advance(1)
    kinesis.split("orders", SHARD(1))
    clock.advance(20 * HOUR_MS)
    kinesis.empty_pages("orders", SHARD(0), pages=3)
    ran = command_line(*ORDERS, "--records", "--json", kinesis=kinesis)
    ledger = kinesis.ledger("orders").shards
    for shard in ran.document["shards"][:2]:
        records = ledger[shard["shardId"]].records
        ends = [shard["oldest"]["sequenceNumber"], shard["newest"]["sequenceNumber"]]
        assert ends == [str(records[0].sequence_number), str(records[-1].sequence_number)]


def test_trimmed_shards_are_gone_and_stand_at_the_top(
    command_line: CommandLine, three_generations: LocalKinesis, clock: ManualClock
) -> None:
    clock.advance(23 * HOUR_MS + 1_800_000)  # shard 0 was closed more than a day ago
    put(three_generations, clock, 2)
    ran = command_line(*ORDERS, kinesis=three_generations)
    assert (
        ran.table
        == """\
shard                                state   share of keys
shardId-000000000000                 gone
├─ shardId-000000000002              open    25 %
└─ shardId-000000000003              closed  25 %
   └─ shardId-000000000004 (merged)  closed  75 %
      ├─ shardId-000000000005        open    37.5 %
      └─ shardId-000000000006        open    37.5 %
shardId-000000000001                 closed  50 %
└─ shardId-000000000004              above

gone: named as a parent; the service no longer has it, nor its records.
"""
    )


def test_a_shard_that_one_listing_lacks_is_not_called_gone(
    command_line: CommandLine, three_generations: LocalKinesis
) -> None:
    three_generations.hide("orders", SHARD(3), listings=1)
    ran = command_line(*ORDERS, kinesis=three_generations)
    assert ran.cells[SHARD(3)] == ["unlisted"]
    assert "unlisted: named as a parent and not listed, but not known to be gone." in ran.table


def test_a_listing_that_is_not_whole_is_called_so(
    command_line: CommandLine, three_generations: LocalKinesis
) -> None:
    three_generations.hide("orders", SHARD(5), listings=1)
    ran = command_line(*ORDERS, kinesis=three_generations)
    assert ran.table.endswith(
        "The shards without children do not cover every hash key once: the listing lags behind a "
        "reshard. Ask again.\n"
    )


def test_the_document(command_line: CommandLine, three_generations: LocalKinesis) -> None:
    ran = command_line(*ORDERS, "--json", "--records", kinesis=three_generations)
    document = ran.document
    assert document["stream"] == {
        "name": "orders",
        "arn": "arn:aws:kinesis:us-east-1:123456789012:stream/orders",
        "createdMs": 1_767_225_600_000,
        "status": "ACTIVE",
        "retentionMs": 24 * HOUR_MS,
    }
    assert document["coversKeySpaceOnce"] is True
    assert [shard["shardId"] for shard in document["shards"]] == [SHARD(i) for i in range(7)]
    [record] = three_generations.ledger("orders").shards[SHARD(4)].records
    end = {"sequenceNumber": str(record.sequence_number), "arrivalMs": record.arrival_ms}
    assert document["shards"][4] == {
        "shardId": SHARD(4),
        "state": "closed",
        "parents": [SHARD(3), SHARD(1)],
        "children": [SHARD(5), SHARD(6)],
        "hashKeys": {"start": str(2**126), "end": str(TOP)},
        "share": 0.75,
        "oldest": end,
        "newest": end,
    }
    assert document["shards"][6]["oldest"] is document["shards"][6]["newest"] is None


def test_without_records_none_is_read(
    command_line: CommandLine, three_generations: LocalKinesis
) -> None:
    ran = command_line(*ORDERS, "--json", kinesis=three_generations)
    assert all("oldest" not in shard for shard in ran.document["shards"])
    called = {operation for operation, _ in three_generations.calls}
    assert called == {"DescribeStreamSummary", "ListShards"}


def test_by_arn(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    kinesis.create_stream("orders")
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
    assert command_line("shards", "--stream", arn, kinesis=kinesis).status == 0
