"""Sequence numbers with the layout that kinesalite found in real ones (KINESIS.md, "Reading").

From the top: `2` (4 bits) | shard creation in seconds (36) | low digit of the shard's index (4)
| record index (64) | zero (8) | arrival in seconds (36) | shard's index (32) | `2` (4).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: The record index inside every EndingSequenceNumber; no record has it.
END_INDEX = 2**63 - 1

#: In a stream with `sequence_digits=55`, the record index at which 56 digits begin.
GROWTH_INDEX = 24

_TOP = 2 << 184
_VERSION = 2


class SequenceParts(NamedTuple):
    """What a sequence number encodes."""

    created_s: int
    record_index: int
    arrival_s: int
    shard_index: int


class SequenceNumbers:
    """Makes and reads the numbers of one stream.

    With `digits=55` the whole layout is moved down so that the first records of every first
    shard have 55 digits and the later ones 56: compared as text they would be out of order.
    """

    def __init__(self, created_s: int, digits: Literal[55, 56] = 56) -> None:
        self._spread = digits == 56
        self._shift = 0
        if digits == 55:
            self._shift = self.encode(SequenceParts(created_s, GROWTH_INDEX, 0, 0)) - 10**55

    def encode(self, parts: SequenceParts) -> int:
        low_digit = parts.shard_index & 0xF if self._spread else 0
        return (
            _TOP
            | parts.created_s << 148
            | low_digit << 144
            | parts.record_index << 80
            | parts.arrival_s << 36
            | parts.shard_index << 4
            | _VERSION
        ) - self._shift

    def decode(self, number: int) -> SequenceParts | None:
        """None if no stream with this layout could have made the number."""
        raw = number + self._shift
        if raw >> 184 != 2:
            return None
        parts = SequenceParts(
            created_s=raw >> 148 & 0xFFFFFFFFF,
            record_index=raw >> 80 & 0xFFFFFFFFFFFFFFFF,
            arrival_s=raw >> 36 & 0xFFFFFFFFF,
            shard_index=raw >> 4 & 0xFFFFFFFF,
        )
        return parts if self.encode(parts) == number else None
