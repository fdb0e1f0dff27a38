"""What a task is given: enough to read its part of the batch without any other state."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from kinesis_source.core.ranges import ShardRange
from kinesis_source.core.shards import StreamIdentity


@dataclass(frozen=True)
class KinesisInputPartition(InputPartition):
    """`region`: the driver's, since executors may be configured otherwise. `driver_host`: the
    name of its machine. No credentials: those of the options travel with the reader, all others are
    each machine's own."""

    stream: StreamIdentity
    retention_ms: int | None
    region: str
    driver_host: str
    ranges: tuple[ShardRange, ...]
