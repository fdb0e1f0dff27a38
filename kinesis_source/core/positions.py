"""A position: a place in one shard. A closed set of four kinds; `LATEST` is not one of them.

`TRIM_HORIZON`              before the oldest record that is left
`AT_TIMESTAMP ms`           before the first record that arrived at or after the time
`AFTER_SEQUENCE_NUMBER n`   after the record `n`, which has been read
`SHARD_END`                 after the last record of a closed shard

In an offset a position is text: the kind, and for the middle two a space and a decimal number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinesis_source.errors import OffsetFormatError


@dataclass(frozen=True, slots=True)
class TrimHorizon:
    def __str__(self) -> str:
        return "TRIM_HORIZON"


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """`timestamp_ms`: milliseconds since the epoch, inclusive."""

    timestamp_ms: int

    def __str__(self) -> str:
        return f"AT_TIMESTAMP {self.timestamp_ms}"


@dataclass(frozen=True, slots=True)
class AfterSequenceNumber:
    """`sequence_number`: exclusive; an integer, since texts of 55 and 56 digits sort wrongly."""

    sequence_number: int

    def __str__(self) -> str:
        return f"AFTER_SEQUENCE_NUMBER {self.sequence_number}"


@dataclass(frozen=True, slots=True)
class ShardEnd:
    def __str__(self) -> str:
        return "SHARD_END"


Position = TrimHorizon | AtTimestamp | AfterSequenceNumber | ShardEnd

TRIM_HORIZON = TrimHorizon()
SHARD_END = ShardEnd()


#: No leading zeros, so that a position has one text; 128 bits have 39 digits, the service uses 56.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,127}", re.ASCII)


def parse_position(text: object) -> Position:
    """The inverse of `str(position)`; raises `OffsetFormatError` for anything else."""
    if not isinstance(text, str):
        raise OffsetFormatError(f"a position must be text, found {text!r}")
    if text == "TRIM_HORIZON":
        return TRIM_HORIZON
    if text == "SHARD_END":
        return SHARD_END
    kind, _, number = text.partition(" ")
    if _NUMBER.fullmatch(number):
        if kind == "AFTER_SEQUENCE_NUMBER":
            return AfterSequenceNumber(int(number))
        if kind == "AT_TIMESTAMP":
            return AtTimestamp(int(number))
    raise OffsetFormatError(
        f"found the position {text!r}; expected TRIM_HORIZON, SHARD_END, "
        "'AT_TIMESTAMP <epoch milliseconds>' or 'AFTER_SEQUENCE_NUMBER <decimal number>'"
    )
