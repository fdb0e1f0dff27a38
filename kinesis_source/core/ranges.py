"""From two offsets to shard ranges, and from ranges to tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kinesis_source.core.offset import InitialOffset, Offset, TrackedShard
from kinesis_source.core.positions import AfterSequenceNumber, Position, ShardEnd
from kinesis_source.errors import OffsetFormatError, StreamRecreatedError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ShardRange:
    """What one batch reads of one shard: after `start`, up to and including `end`.

    `end` is a record's number or SHARD_END. `first_record`: the first record after `start`, where
    the planner has seen it; the range means the same without.
    """

    shard_id: str
    start: TrackedShard
    end: AfterSequenceNumber | ShardEnd
    first_record: int | None = None


def plan_ranges(
    start: Offset | InitialOffset,
    end: Offset,
    first_records: Mapping[tuple[str, Position], int],
) -> list[ShardRange]:
    """The ranges of the batch (`start`, `end`], by shard id; from the two offsets alone.

    `first_records`: where it was seen, the first record after a shard's position.

    A shard that only `end` holds has entered in this batch: it is not read, and is empty if it is
    already at SHARD_END. Raises `CheckpointError` if `end` does not follow `start`.
    """
    if isinstance(start, InitialOffset):
        if end.starts is None:
            raise OffsetFormatError(
                "the end of batch 0 does not hold the starting positions ('starts'); the offset "
                "log was not written by this connector or was edited"
            )
        places = end.starts
    else:
        if start.stream != end.stream:
            raise StreamRecreatedError(
                f"a batch starts in stream {start.stream} and ends in {end.stream}; expected one "
                "stream. The offset log was edited or mixed: use a new checkpointLocation"
            )
        places = start.shards
    ranges = []
    for shard_id in sorted(end.shards):
        before, after = places.get(shard_id), end.shards[shard_id]
        if before is None or before.position == after.position:
            continue
        ranges.append(
            _range(shard_id, before, after, first_records.get((shard_id, before.position)))
        )
    return ranges


def _range(
    shard_id: str, before: TrackedShard, after: TrackedShard, first_record: int | None
) -> ShardRange:
    match before.position, after.position:
        case AfterSequenceNumber(low), AfterSequenceNumber(high) if high <= low:
            pass
        case ShardEnd(), _:
            pass
        case _, (AfterSequenceNumber() | ShardEnd()) as end:
            return ShardRange(shard_id, before, end, first_record)
    raise OffsetFormatError(
        f"{shard_id} goes from {before.position} to {after.position} in one batch; expected a "
        "later position. The offset log was edited or belongs to another query"
    )


def pack_ranges(ranges: Sequence[Item], per_task: int) -> list[list[Item]]:
    """Distribute over as few tasks as `per_task` allows, evenly; empty without ranges."""
    tasks = -(-len(ranges) // per_task)
    return [list(ranges[i::tasks]) for i in range(tasks)]
