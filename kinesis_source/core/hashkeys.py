"""Hash-key ranges of shards: closed intervals of integers that tile 0 … 2**128 - 1."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

#: The largest hash key (Kinesis API reference, HashKeyRange).
MAX_HASH_KEY = 2**128 - 1


@dataclass(frozen=True, slots=True, order=True)
class HashKeyRange:
    """A closed interval: both ends belong to it."""

    start: int
    end: int


WHOLE_KEY_SPACE = HashKeyRange(0, MAX_HASH_KEY)


def covers(ranges: Iterable[HashKeyRange], target: HashKeyRange) -> bool:
    """True if every key of `target` lies in one of `ranges`; they may overlap or stick out."""
    next_key = target.start
    for piece in sorted(ranges):
        if piece.start > next_key:
            return False
        next_key = max(next_key, piece.end + 1)
        if next_key > target.end:
            return True
    return next_key > target.end


def tiles(ranges: Iterable[HashKeyRange], target: HashKeyRange = WHOLE_KEY_SPACE) -> bool:
    """True if `ranges` cover `target` exactly once: no gap, no overlap, nothing outside."""
    next_key = target.start
    for piece in sorted(ranges):
        if piece.start != next_key:
            return False
        next_key = piece.end + 1
    return next_key == target.end + 1


def hash_key_of(partition_key: str) -> int:
    """The key that decides a record's shard: MD5 of the UTF-8 bytes as a 128-bit integer
    (Kinesis API reference, PutRecord)."""
    digest = hashlib.md5(partition_key.encode("utf-8"), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big")
