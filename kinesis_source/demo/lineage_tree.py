"""Draws the shards of a stream as a tree, oldest at the top. Pure.

A merged shard is drawn in full below its first parent; below its second stands a reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


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
    by_id = {shard.shard_id: shard for shard in sorted(shards, key=lambda shard: shard.shard_id)}
    children: dict[str, list[str]] = {shard_id: [] for shard_id in by_id}
    roots = []
    for shard in by_id.values():
        known = [parent for parent in shard.parent_ids if parent in by_id]
        for parent in known:
            children[parent].append(shard.shard_id)
        if not known:
            roots.append(shard.shard_id)
    drawn: set[str] = set()
    rows = [row for root in roots for row in _draw(root, by_id, children, drawn, "", "")]
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {state}".rstrip() for name, state in rows]


def _draw(
    shard_id: str,
    by_id: Mapping[str, ShardView],
    children: Mapping[str, list[str]],
    drawn: set[str],
    first: str,
    rest: str,
) -> Iterator[tuple[str, str]]:
    shard = by_id[shard_id]
    if shard_id in drawn:
        yield f"{first}{short_name(shard_id)}", "(the merged shard above)"
        return
    drawn.add(shard_id)
    merged = " (merged)" if len(shard.parent_ids) == 2 else ""
    yield f"{first}{short_name(shard_id)}{merged}", _state(shard)
    for place, child in enumerate(children[shard_id], start=1):
        last = place == len(children[shard_id])
        yield from _draw(
            child,
            by_id,
            children,
            drawn,
            rest + ("└─ " if last else "├─ "),
            rest + ("   " if last else "│  "),
        )


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
