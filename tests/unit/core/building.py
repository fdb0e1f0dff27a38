"""Shards and places in few words: ranges in sixteenths of the hash-key space."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from kinesis_source.core.hashkeys import HashKeyRange
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
)
from kinesis_source.core.probes import SeenRecord
from kinesis_source.core.shards import Shard

#: Two numbers that follow each other although their texts do not.
DIGITS_55 = 10**55 - 1
DIGITS_56 = 10**55

POSITIONS = st.one_of(
    st.sampled_from([TRIM_HORIZON, SHARD_END]),
    st.integers(0, 2**63).map(AtTimestamp),
    st.integers(0, 10**56 - 1).map(AfterSequenceNumber),
)

_SIXTEENTH = 2**124


def shard_id(number: int) -> str:
    return f"shardId-{number:012}"


def span(low: int, high: int) -> HashKeyRange:
    """From the sixteenth `low` up to `high`, exclusive: `span(0, 16)` is the whole space."""
    return HashKeyRange(low * _SIXTEENTH, high * _SIXTEENTH - 1)


def shard(number: int, low: int, high: int, *parents: int, closed: bool = False) -> Shard:
    ids = [shard_id(p) for p in parents]
    return Shard(shard_id(number), span(low, high), *ids, closed=closed)


def listing(*shards: Shard) -> dict[str, Shard]:
    return {s.shard_id: s for s in shards}


def lineage(*shards: Shard) -> Lineage:
    return Lineage(listing(*shards))


def places(entries: Mapping[int, TrackedShard]) -> dict[str, TrackedShard]:
    return {shard_id(number): place for number, place in entries.items()}


def after(sequence_number: int, read_until_ms: int | None = None) -> TrackedShard:
    return TrackedShard(AfterSequenceNumber(sequence_number), read_until_ms)


def ended(read_until_ms: int | None = None) -> TrackedShard:
    return TrackedShard(SHARD_END, read_until_ms)


def fresh(read_until_ms: int | None = None) -> TrackedShard:
    return TrackedShard(TRIM_HORIZON, read_until_ms)


def numbers(shard_ids: object) -> set[int]:
    """The numbers of shard ids, so that a failed assertion can be read."""
    assert isinstance(shard_ids, set | frozenset | dict | list)
    return {int(i.removeprefix("shardId-")) for i in shard_ids}


def seen(sequence_number: int, arrival_ms: int, size_bytes: int = 1000) -> SeenRecord:
    return SeenRecord(sequence_number, arrival_ms, size_bytes)
