"""The order and the branches in which shards are drawn as a tree, oldest at the top.

A merged shard is drawn with all below it under its first parent; under its second stands a
reference to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class TreeRow(NamedTuple):
    """One line: `branch` is what is drawn before the shard. `repeated`: only a reference."""

    branch: str
    shard_id: str
    repeated: bool


def tree_rows(parents: Mapping[str, Sequence[str]]) -> list[TreeRow]:
    """`parents`: of each shard; those that are not themselves a key are taken as not there."""
    children: dict[str, list[str]] = {shard_id: [] for shard_id in parents}
    roots = []
    for shard_id in sorted(parents):
        known = [parent for parent in parents[shard_id] if parent in children]
        for parent in known:
            children[parent].append(shard_id)
        if not known:
            roots.append(shard_id)
    rows: list[TreeRow] = []
    drawn: set[str] = set()
    # Not by recursion: a year of daily reshards is deeper than Python goes.
    waiting = [(root, "", "") for root in reversed(roots)]
    while waiting:
        shard_id, branch, indent = waiting.pop()
        repeated = shard_id in drawn
        rows.append(TreeRow(branch, shard_id, repeated))
        if repeated:
            continue
        drawn.add(shard_id)
        for place, child in enumerate(reversed(children[shard_id])):
            last = place == 0
            waiting.append(
                (
                    child,
                    indent + ("└─ " if last else "├─ "),
                    indent + ("   " if last else "│  "),
                )
            )
    return rows
