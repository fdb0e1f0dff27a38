"""Draws the shards of a stream as a tree, with the demo's counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kinesis_source.core.lineage_tree import TreeRow, tree_rows


@dataclass(frozen=True, slots=True)
class ShardView:
    """A shard as the demo shows it. `position` is its place in the query's last offset, None if
    it is not in it; `put` and `rows` count its records in the stream and in the sink."""

    shard_id: str
    parent_ids: tuple[str, ...]
    closed: bool
    position: str | None
    put: int
    rows: int


def short_name(shard_id: str) -> str:
    """`shardId-000000000012` → `shard 12`."""
    return f"shard {int(shard_id.rpartition('-')[2])}"


def draw_lineage(shards: Iterable[ShardView]) -> list[str]:
    """One line a shard, and one a reference to a merged shard."""
    by_id = {shard.shard_id: shard for shard in shards}
    rows = [
        _row(row, by_id[row.shard_id])
        for row in tree_rows({shard_id: shard.parent_ids for shard_id, shard in by_id.items()})
    ]
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {state}".rstrip() for name, state in rows]


def _row(row: TreeRow, shard: ShardView) -> tuple[str, str]:
    name = f"{row.branch}{short_name(row.shard_id)}"
    if row.repeated:
        return name, "(the merged shard above)"
    return name + (" (merged)" if len(shard.parent_ids) == 2 else ""), _state(shard)


def _state(shard: ShardView) -> str:
    state = "closed" if shard.closed else "open"
    return f"{state:<6}  {shard.rows:>6,} of {shard.put:>6,} rows   {_progress(shard)}"


def _progress(shard: ShardView) -> str:
    if shard.position is None:
        return "finished, has left the offset" if shard.rows else "not in the offset"
    if shard.position == "SHARD_END":
        return "finished: SHARD_END"
    kind, _, number = shard.position.partition(" ")
    return f"{kind} …{number[-8:]}" if number else kind
