"""The offset's text as its format is documented; nothing of the connector's own parser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

TRIM_HORIZON, AT_TIMESTAMP, AFTER_SEQUENCE_NUMBER, SHARD_END = range(4)

_KINDS = ("TRIM_HORIZON", "AT_TIMESTAMP", "AFTER_SEQUENCE_NUMBER", "SHARD_END")


@dataclass(frozen=True, slots=True)
class Entry:
    """A tracked shard: its place as (kind in order, its number or 0), and its read-until time."""

    place: tuple[int, int]
    read_until_ms: int | None

    @property
    def finished(self) -> bool:
        return self.place[0] == SHARD_END


Entries = Mapping[str, Entry]


def parse_entries(text: str, field: str = "shards") -> dict[str, Entry]:
    """The tracked shards of an offset, or of its `starts`; empty if it has none."""
    entries: dict[str, Entry] = {}
    for shard_id, (position, read_until_ms) in (json.loads(text).get(field) or {}).items():
        kind, _, number = position.partition(" ")
        entries[shard_id] = Entry((_KINDS.index(kind), int(number or 0)), read_until_ms)
    return entries
