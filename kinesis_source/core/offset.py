"""The Spark offset: the connector's only record of progress, as canonical versioned JSON.

    {"shards": {"shardId-…": ["AFTER_SEQUENCE_NUMBER 495…", 1764585600000], …},
     "starts": {"shardId-…": ["AT_TIMESTAMP 1764585000000", 1764585000000], …},
     "stream": {"arn": "arn:aws:kinesis:…", "createdMs": 1764500000000},
     "v": 1}

* `shards`: each tracked shard's position, and its *read-until* time: everything that arrived in
  the shard before it is at or before the position (null: nothing is known of that).
* `starts`: only in the end of batch 0, the starting positions as they were resolved. Spark never
  stores `initialOffset()` and asks for it again on a replay, so the end carries them.
* Spark compares offsets as text, therefore keys are sorted and the same value is the same text.

The initial offset is the constant marker `{"initial": true, "v": 1}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinesis_source.core.positions import Position, parse_position
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import OffsetFormatError

#: Raised with every change of the format; older versions stay readable.
OFFSET_VERSION = 1
#: How much of another source's offset is shown.
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class TrackedShard:
    """One shard's progress. `read_until_ms`: milliseconds since the epoch, exclusive, or None."""

    position: Position
    read_until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Offset:
    """A complete statement of what has been read: every tracked shard with its exact position."""

    stream: StreamIdentity
    shards: Mapping[str, TrackedShard]
    starts: Mapping[str, TrackedShard] | None = None


@dataclass(frozen=True, slots=True)
class InitialOffset:
    """Before batch 0; holds nothing, since resolving the starting positions takes I/O."""


INITIAL_OFFSET = InitialOffset()


def serialize_offset(offset: Offset | InitialOffset) -> dict[str, Any]:
    """A JSON object whose keys are sorted at every level."""
    if isinstance(offset, InitialOffset):
        return {"initial": True, "v": OFFSET_VERSION}
    result: dict[str, Any] = {"shards": _serialize_shards(offset.shards)}
    if offset.starts is not None:
        result["starts"] = _serialize_shards(offset.starts)
    result["stream"] = {"arn": offset.stream.arn, "createdMs": offset.stream.created_ms}
    result["v"] = OFFSET_VERSION
    return result


def parse_offset(value: object) -> Offset | InitialOffset:
    """The inverse of `serialize_offset`. Raises `OffsetFormatError` naming what is wrong."""
    if not isinstance(value, dict) or "v" not in value:
        raise OffsetFormatError(
            f"found {repr(value)[:_MOST_SHOWN]}, which is no offset of format('kinesis'). Expected "
            "the checkpoint of a query that reads a Kinesis stream: give this query a "
            "checkpointLocation of its own or, if files were edited, restore them"
        )
    version = value["v"]
    if type(version) is not int or version != OFFSET_VERSION:
        raise OffsetFormatError(
            f"found an offset of version {version!r}; this release reads version {OFFSET_VERSION}. "
            "If a newer release wrote the checkpoint, run that release or a later one"
        )
    if value == {"initial": True, "v": version}:
        return INITIAL_OFFSET
    unknown = set(value) - {"shards", "starts", "stream", "v"}
    if unknown:
        raise OffsetFormatError(f"an offset of version 1 has no field {sorted(unknown)!r}")
    starts = value.get("starts")
    return Offset(
        stream=_parse_stream(value.get("stream")),
        shards=_parse_shards("shards", value.get("shards")),
        starts=None if starts is None else _parse_shards("starts", starts),
    )


def _serialize_shards(shards: Mapping[str, TrackedShard]) -> dict[str, list[str | int | None]]:
    return {
        shard_id: [str(shards[shard_id].position), shards[shard_id].read_until_ms]
        for shard_id in sorted(shards)
    }


def _parse_stream(value: object) -> StreamIdentity:
    match value:
        case {"arn": str(arn), "createdMs": int(created), **rest}:
            if not rest and not isinstance(created, bool):
                return StreamIdentity(arn, created)
    raise OffsetFormatError(
        f"found the stream {value!r}; expected an object with 'arn' and 'createdMs'"
    )


def _parse_shards(field: str, value: object) -> dict[str, TrackedShard]:
    if not isinstance(value, dict) or not value:
        raise OffsetFormatError(
            f"'{field}' must be an object of at least one shard, found {value!r}"
        )
    return {shard_id: _parse_shard(shard_id, entry) for shard_id, entry in value.items()}


def _parse_shard(shard_id: str, entry: object) -> TrackedShard:
    match entry:
        case [position, None]:
            return TrackedShard(_parse_position(shard_id, position))
        case [position, int(read_until)] if not isinstance(read_until, bool):
            return TrackedShard(_parse_position(shard_id, position), read_until)
    raise OffsetFormatError(
        f"found {entry!r} for {shard_id}; expected [position, read-until milliseconds or null]"
    )


def _parse_position(shard_id: str, text: object) -> Position:
    try:
        return parse_position(text)
    except OffsetFormatError as error:
        raise OffsetFormatError(f"{shard_id}: {error}") from None
