"""What the service says of shards and records, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from kinesis_source.core.hashkeys import HashKeyRange


@dataclass(frozen=True, slots=True)
class Shard:
    """One entry of ListShards.

    `closed` is true once the service gives an ending sequence number. That number is past every
    record, so nothing here ever waits for it.
    """

    shard_id: str
    hash_keys: HashKeyRange
    parent_id: str | None = None
    adjacent_parent_id: str | None = None
    closed: bool = False

    @property
    def parent_ids(self) -> tuple[str, ...]:
        """The shards this one came from: none, one (split) or two (merge)."""
        return tuple(p for p in (self.parent_id, self.adjacent_parent_id) if p is not None)


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """Which stream this is: the same name and ARN with another creation time is another stream."""

    arn: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """DescribeStreamSummary, as far as it is used. `status`: the service's word, e.g. `ACTIVE`."""

    identity: StreamIdentity
    name: str
    status: str
    retention_ms: int
