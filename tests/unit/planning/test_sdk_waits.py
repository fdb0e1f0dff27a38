"""Ten minutes of throttling with the real SDK, whose own waits are put on the tests' clock."""

from __future__ import annotations

import types

import botocore.endpoint
import pytest

from kinesis_source.aws.session import Connection, connect
from kinesis_source.core.horizon import UNLIMITED
from kinesis_source.core.offset import INITIAL_OFFSET, InitialOffset, Offset
from kinesis_source.options import Options
from kinesis_source.planning.planner import StreamPlanner
from kinesis_source.reading.task import read_ranges
from kinesis_source.testing import Fault, LocalKinesis, ManualClock


class SdkTime(types.ModuleType):
    """Stands for the module `time` where the SDK waits between its own attempts."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("time")
        self.clock = clock
        self.slept_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.clock.sleep(seconds)

    def time(self) -> float:
        return self.clock.monotonic()


def test_ten_minutes_of_throttling_on_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    sdk_time = SdkTime(clock)
    monkeypatch.setattr(botocore.endpoint, "time", sdk_time)
    with LocalKinesis(clock) as kinesis:
        kinesis.create_stream("orders", shards=2)
        throttled, other = kinesis.shards("orders")
        options = Options.parse(
            {**kinesis.spark_options("orders"), "startingPosition": "TRIM_HORIZON"}
        )

        planning = connect(options, "driver", clock=clock)
        planner = StreamPlanner(options, planning)
        read: list[str] = []

        def one_batch(start: Offset | InitialOffset) -> Offset | InitialOffset:
            end = planner.latest_offset(start, UNLIMITED)
            if end is not start:
                assert isinstance(end, Offset)
                ranges = planner.ranges(start, end)
                # A task makes a connection of its own, which takes the SDK a third of a second.
                reading = Connection(planning.client, clock)
                batches = read_ranges(options, reading, end.stream, planner.retention_ms, ranges)
                for batch in batches:
                    read.extend(batch.column("sequenceNumber").to_pylist())
            clock.advance(4_000)
            return end

        offset = one_batch(INITIAL_OFFSET)
        until_ms = clock.now_ms() + 600_000
        for operation in ("GetRecords", "GetShardIterator"):
            kinesis.inject(Fault("throttle", operation, throttled, until_ms=until_ms))
        waiting = str(kinesis.put_to_shard("orders", throttled, b"x", "key").sequence_number)
        sent = []
        while clock.now_ms() < until_ms:
            sent.append(str(kinesis.put_to_shard("orders", other, b"x", "key").sequence_number))
            offset = one_batch(offset)
            # The last wait may end after the throttling does.
            assert [number for number in read if number != waiting] == sent, "the other shard waits"
        for _ in range(5):
            offset = one_batch(offset)
        planning.close()
    assert sorted(read) == sorted([*sent, waiting])
    assert len(sent) > 60
    assert sdk_time.slept_s > 5, "the SDK's own waits must have been among it"
