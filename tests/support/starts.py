"""What a starting position promises, worked out from the true history of the stream.

A promise gives for each shard the index of the first record that has to be read; a shard without
an entry is not read at all. The instant of LATEST is known only to lie in a window, so there are
two promises: what *must* be read (from the window's end) and what *may* be (from its beginning).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.offsets import AFTER_SEQUENCE_NUMBER, Entries, Entry
from tests.support.truth import TrueShard, Truth

#: Shard id → index of the first record to be read.
Promise = dict[str, int]

TRIM_HORIZON = "TRIM_HORIZON"
LATEST = "LATEST"


@dataclass(frozen=True, slots=True)
class Start:
    """A `startingPosition`, in the words of the option.

    `default` is TRIM_HORIZON, LATEST or `AT_TIMESTAMP ms`; `shards` gives single shards one of
    these, SHARD_END or `AFTER_SEQUENCE_NUMBER n`.
    """

    default: str
    shards: Mapping[str, str] = field(default_factory=dict)

    @property
    def option(self) -> str:
        if not self.shards:
            return self.default
        return json.dumps({"default": self.default, **self.shards})

    def named_numbers(self) -> Entries:
        """The shards for which it names a record, as entries of an offset."""
        found = {i: value.split() for i, value in self.shards.items() if " " in value}
        return {
            i: Entry((AFTER_SEQUENCE_NUMBER, int(value)), None)
            for i, (kind, value) in found.items()
            if kind == "AFTER_SEQUENCE_NUMBER"
        }


def promise(start: Start, truth: Truth, latest_ms: int) -> Promise:
    """What has to be read if LATEST means the instant `latest_ms`.

    A shard named by the start begins at its position. Ancestors of a named shard are not read,
    descendants of a shard that is read are read whole, and the default counts for the rest.
    """
    before_named = {ancestor for named in start.shards for ancestor in truth.ancestors(named)}
    firsts: Promise = {}
    for shard in truth.shards():  # parents come before their children
        position = start.shards.get(shard.shard_id)
        if position is not None:
            firsts[shard.shard_id] = _index_of(position, shard, latest_ms)
        elif shard.shard_id in before_named:
            continue
        elif any(parent in firsts for parent in shard.parent_ids):
            firsts[shard.shard_id] = 0
        elif (first := _first_by_default(start.default, shard, latest_ms)) is not None:
            firsts[shard.shard_id] = first
    return firsts


def _first_by_default(default: str, shard: TrueShard, latest_ms: int) -> int | None:
    if default == TRIM_HORIZON:
        return 0
    since_ms = latest_ms if default == LATEST else int(default.split()[1])
    if shard.created_ms > since_ms:
        return 0
    if shard.closed_ms is not None and shard.closed_ms <= since_ms:
        return None
    return shard.index_at_time(since_ms)


def _index_of(position: str, shard: TrueShard, latest_ms: int) -> int:
    kind, _, value = position.partition(" ")
    if kind == "TRIM_HORIZON":
        return 0
    if kind == "AFTER_SEQUENCE_NUMBER":
        return sum(record.sequence_number <= int(value) for record in shard.records)
    if kind == "SHARD_END":
        return len(shard.records)
    return shard.index_at_time(latest_ms if kind == LATEST else int(value))
