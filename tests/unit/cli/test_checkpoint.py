"""`kinesis-source checkpoint`, on checkpoints that real Sparks have written, and their streams."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kinesis_source.testing import Fault, LocalKinesis, ManualClock
from tests.compat.fixtures import HERE, load_fixture
from tests.compat.history import restore
from tests.unit.cli.command_line import CommandLine

SHARD = "shardId-{:012}".format
HOUR_MS = 3_600_000
MINUTES_10 = 600_000


def path_of(moment: str) -> str:
    return str(HERE / "0.1.0" / moment / "checkpoint")


@pytest.fixture
def kinesis(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[LocalKinesis]:
    """The stream as it was when the checkpoint of the named fixture was taken."""
    with restore(load_fixture(f"0.1.0/{request.param}").history, clock) as kinesis:
        yield kinesis


def on_stream_of(moment: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kinesis", [moment], indirect=True)


# From the files alone


def test_what_is_committed_and_what_is_planned(
    command_line: CommandLine, clock: ManualClock
) -> None:
    clock.advance(90 * 60_000)
    path = path_of("merge_half_drained")
    ran = command_line("checkpoint", path)
    assert ran.status == 0
    assert (
        ran.out
        == f"""\
Checkpoint  {path} (source 0, query ba3c2a82-bfd7-42da-b5cf-b3fbb09ea0b9)
Stream      arn:aws:kinesis:us-east-1:123456789012:stream/orders, created 2026-01-01T00:00:00.000Z
Committed   batch 1, planned 2026-12-01T11:47:41.173Z
Planned     batch 2, planned 2026-12-01T11:47:42.173Z, not committed: a restart reads it to the \
same end

shard                 read to              all read until                            \
 end of batch 2
shardId-000000000000  SHARD_END            2026-01-01T00:00:00.050Z                  \
 the same
shardId-000000000001  AFTER …275870388242  2026-01-01T00:01:00.100Z (1 h 28 min ago) \
 AFTER …319960760338

How far behind that is, and what may expire: --lag asks the service.
"""
    )


def test_before_the_first_commit_the_starts_are_shown(command_line: CommandLine) -> None:
    ran = command_line("checkpoint", path_of("per_shard_map"), "--full")
    assert "Committed   nothing yet\nPlanned     batch 0," in ran.out
    starts = {shard_id: cells[0] for shard_id, cells in ran.cells.items()}
    number = "49670424472731169861061894383153765757641772386972860418"
    assert starts == {
        SHARD(0): f"AFTER_SEQUENCE_NUMBER {number}",
        SHARD(1): "SHARD_END",
        SHARD(2): "AT_TIMESTAMP 1767225604110",
        SHARD(3): "not yet",
        SHARD(4): "not yet",
    }


def test_nothing_is_planned_beyond_the_last_commit(command_line: CommandLine) -> None:
    ran = command_line("checkpoint", path_of("parent_at_shard_end"))
    assert "Committed   batch 1," in ran.out
    assert "Planned     nothing beyond that\n" in ran.out
    assert "end of batch" not in ran.out


def test_the_document(command_line: CommandLine) -> None:
    path = path_of("batch_0_uncommitted_at_latest")
    at_latest = {"position": "AT_TIMESTAMP 1767225608000", "readUntilMs": 1_767_225_608_000}
    assert command_line("checkpoint", path, "--json").document == {
        "checkpoint": path,
        "queryId": "e32a0894-bbfb-4308-b4d6-09330396b657",
        "source": "0",
        "stream": {
            "arn": "arn:aws:kinesis:us-east-1:123456789012:stream/orders",
            "createdMs": 1_767_225_600_000,
        },
        "committed": None,
        "planned": {
            "batch": 0,
            "timeMs": 1_796_125_620_920,
            "shards": {SHARD(0): at_latest, SHARD(1): at_latest},
        },
        "starts": {SHARD(0): at_latest, SHARD(1): at_latest},
    }


# With the service


@on_stream_of("merge_half_drained")
def test_the_lag_of_each_shard(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    """No option names the stream: the checkpoint does."""
    clock.advance(MINUTES_10)
    ran = command_line("checkpoint", path_of("merge_half_drained"), "--lag", kinesis=kinesis)
    assert "Retention   1 d\n" in ran.out
    assert ran.cells[SHARD(0)][-1] == "the same"
    assert ran.cells[SHARD(1)][-3:] == ["closed", "13 min 4 s", "23 h 46 min"]
    assert ran.cells[SHARD(2)] == [
        "not yet",
        "open",
        "11 min 4 s",
        "23 h 48 min",
        f"waits for {SHARD(1)}",
    ]


@on_stream_of("merge_half_drained")
def test_what_expires_within_a_quarter_of_the_retention_is_at_risk(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    path = path_of("merge_half_drained")
    # The oldest unread record is three minutes old now.
    clock.advance(18 * HOUR_MS - 200_000)
    assert "at risk" not in command_line("checkpoint", path, "--lag", kinesis=kinesis).out
    clock.advance(25_000)
    ran = command_line("checkpoint", path, "--lag", kinesis=kinesis)
    assert ran.cells[SHARD(1)][-1] == "at risk"
    assert "at risk: unread records expire within a quarter of the retention period." in ran.out
    [at_risk] = [
        shard_id
        for shard_id, lag in command_line("checkpoint", path, "--lag", "--json", kinesis=kinesis)
        .document["lag"]["shards"]
        .items()
        if lag["atRisk"]
    ]
    assert at_risk == SHARD(1)


@on_stream_of("reshard_uncommitted")
def test_what_is_lost_already(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    """A day later: the parent that was being read is gone, and so is its child that has closed."""
    clock.advance(25 * HOUR_MS)
    ran = command_line("checkpoint", path_of("reshard_uncommitted"), "--lag", kinesis=kinesis)
    assert ran.cells[SHARD(0)][-2:] == ["gone", "data loss"]
    assert ran.cells[SHARD(2)][-2:] == ["gone", "data loss"]
    assert ran.cells[SHARD(1)][-3:] == ["open", "caught up", "data loss"]
    assert f"{SHARD(0)}: the service no longer has this shard" in ran.out
    assert f"{SHARD(1)}: data loss in {SHARD(1)} of stream orders: " in ran.out
    assert "A query that goes on from here stops with DataLossError" in ran.out


@on_stream_of("between_batches")
def test_a_quiet_stream_is_caught_up_however_old_its_positions_are(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    """What was put after the last batch has gone to two shards; the third one never had any."""
    clock.advance(20 * HOUR_MS)
    ran = command_line("checkpoint", path_of("between_batches"), "--lag", "--json", kinesis=kinesis)
    lag = ran.document["lag"]
    behind = {shard_id: lag["shards"][shard_id]["millisBehindLatest"] for shard_id in lag["shards"]}
    assert behind.keys() == {SHARD(0), SHARD(1), SHARD(2)}
    assert behind[SHARD(0)] == 0
    assert behind[SHARD(1)] >= 20 * HOUR_MS - 1000  # the service's clock is known to a second
    assert lag["shards"][SHARD(0)] == {
        "state": "open",
        "millisBehindLatest": 0,
        "expiresInMs": None,
        "atRisk": False,
        "lost": None,
        "waitsFor": [],
    }


@on_stream_of("between_batches")
def test_throttles_are_waited_out(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    kinesis.inject(Fault("throttle", operation="GetRecords", times=4))
    ran = command_line("checkpoint", path_of("between_batches"), "--lag", kinesis=kinesis)
    assert ran.status == 0
    assert "unknown" not in ran.out


@on_stream_of("between_batches")
def test_a_stream_of_that_name_made_again_is_another_stream(
    command_line: CommandLine, kinesis: LocalKinesis, clock: ManualClock
) -> None:
    kinesis.delete_stream("orders")
    clock.advance(1000)
    kinesis.create_stream("orders")
    ran = command_line("checkpoint", path_of("between_batches"), "--lag", kinesis=kinesis)
    assert (ran.status, ran.out) == (2, "")
    assert re.search("a stream deleted and made again is another stream", ran.err)


@on_stream_of("between_batches")
def test_the_stream_of_another_query(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    kinesis.create_stream("clicks")
    ran = command_line(
        "checkpoint",
        path_of("between_batches"),
        "--lag",
        "--stream",
        "clicks",
        kinesis=kinesis,
    )
    assert ran.status == 2
    assert "stream/orders, but the options name arn:aws" in ran.err


@on_stream_of("between_batches")
def test_a_shard_that_gives_no_answer_is_unknown_and_the_others_are_told(
    command_line: CommandLine, kinesis: LocalKinesis
) -> None:
    kinesis.inject(Fault("throttle", operation="GetRecords", shard_id=SHARD(1), times=None))
    ran = command_line("checkpoint", path_of("between_batches"), "--lag", kinesis=kinesis)
    assert ran.status == 0
    assert ran.cells[SHARD(1)][-1] == "unknown"
    assert ran.cells[SHARD(2)][-2] == "open"
