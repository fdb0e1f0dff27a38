"""How far a Spark checkpoint has come, for `kinesis-source checkpoint`: from its files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinesis_source.core.offset import Offset, TrackedShard, parse_offset
from kinesis_source.errors import CheckpointError, OffsetFormatError
from kinesis_source.spark_checkpoint import BatchEnd, SparkCheckpoint, choose_source


@dataclass(frozen=True, slots=True)
class PlannedEnd:
    """The end of one batch of the source. `timestamp_ms`: when it was planned, by the driver's
    clock, None if Spark did not write it down."""

    batch: int
    timestamp_ms: int | None
    offset: Offset

    def as_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "timeMs": self.timestamp_ms,
            "shards": shards_as_json(self.offset.shards),
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """`source`: its place or name in the query. `committed`: the last batch that completed;
    `planned`: a later one that has an end and did not complete, which a restart reads again to the
    same end. At least one of them is there."""

    location: str
    query_id: str | None
    source: str
    committed: PlannedEnd | None
    planned: PlannedEnd | None

    @property
    def latest(self) -> PlannedEnd:
        end = self.planned or self.committed
        assert end is not None
        return end

    @property
    def places(self) -> Mapping[str, TrackedShard]:
        """Where each shard has been read to; before the first commit, the starting positions."""
        if self.committed is not None:
            return self.committed.offset.shards
        return self.latest.offset.starts or {}

    def as_json(self) -> dict[str, Any]:
        stream = self.latest.offset.stream
        starts = self.latest.offset.starts if self.committed is None else None
        return {
            "checkpoint": self.location,
            "queryId": self.query_id,
            "source": self.source,
            "stream": {"arn": stream.arn, "createdMs": stream.created_ms},
            "committed": self.committed.as_json() if self.committed else None,
            "planned": self.planned.as_json() if self.planned else None,
            "starts": shards_as_json(starts) if starts is not None else None,
        }


def shards_as_json(shards: Mapping[str, TrackedShard]) -> dict[str, Any]:
    return {
        shard_id: {
            "position": str(shards[shard_id].position),
            "readUntilMs": shards[shard_id].read_until_ms,
        }
        for shard_id in sorted(shards)
    }


def read_progress(checkpoint: SparkCheckpoint, source: str | None) -> Progress:
    """`source`: which of the query's sources, None for its only Kinesis stream.

    Raises `CheckpointError` where the folder is not the checkpoint of a Kinesis query, and
    `OffsetFormatError` for an offset of another version.
    """
    checkpoint.check()
    # Commits first: what is planned between the two looks is then not committed, rightly.
    commits, offsets = checkpoint.commits(), checkpoint.offsets()
    last = checkpoint.end_of(offsets[-1])
    source = choose_source(last, source, checkpoint.shown)
    committed = None
    if commits:
        if commits[-1] not in offsets:
            raise CheckpointError(
                f"{checkpoint.shown} is damaged: batch {commits[-1]} is committed and its end is "
                f"not in offsets, whose last is {offsets[-1]}"
            )
        end = last if commits[-1] == last.batch else checkpoint.end_of(commits[-1])
        committed = _planned_end(end, source, checkpoint.shown)
    planned = None
    if not commits or last.batch > commits[-1]:
        planned = _planned_end(last, source, checkpoint.shown)
    return Progress(checkpoint.shown, checkpoint.query_id(), source, committed, planned)


def _planned_end(end: BatchEnd, source: str, shown: str) -> PlannedEnd | None:
    """None if the source had no offset yet."""
    text = end.of_source(source)
    if text is None:
        return None
    where = f"{shown}/offsets/{end.batch}"
    try:
        offset = parse_offset(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise OffsetFormatError(f"{where}: the offset is not JSON: {error}") from None
    except OffsetFormatError as error:
        raise OffsetFormatError(f"{where}: {error}") from None
    if not isinstance(offset, Offset):
        raise OffsetFormatError(
            f"{where}: found the initial offset, which Spark never writes down; expected the end "
            "of a batch. The offset log was edited"
        )
    return PlannedEnd(end.batch, end.timestamp_ms, offset)
