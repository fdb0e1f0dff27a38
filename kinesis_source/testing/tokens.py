"""Shard iterators and listing tokens: opaque text that carries its own state and a checksum."""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64, crc32
from typing import NamedTuple

#: Both kinds are refused when older than this (API reference, GetShardIterator and ListShards).
TOKEN_LIFE_MS = 300_000

_ITERATOR = struct.Struct(">IIQQI??")
_LISTING = struct.Struct(">IQIQ")


class IteratorToken(NamedTuple):
    """A place in a shard: an index into `Shard.records`."""

    stream_uid: int
    shard_index: int
    record_index: int
    issued_ms: int
    #: Empty pages still to come before a record.
    empty_pages: int = 0
    #: Opened at a position, not at the tip, and no record returned since.
    fresh: bool = False
    #: Opened at a trimmed sequence number and never to return anything.
    spins: bool = False

    def serialize(self) -> str:
        return _seal(b"i", _ITERATOR.pack(*self))

    @classmethod
    def parse(cls, text: object) -> IteratorToken | None:
        packed = _unseal(b"i", text, _ITERATOR.size)
        return None if packed is None else cls._make(_ITERATOR.unpack(packed))


class ListingToken(NamedTuple):
    """A place in a listing that the service keeps."""

    stream_uid: int
    listing: int
    offset: int
    issued_ms: int

    def serialize(self) -> str:
        return _seal(b"l", _LISTING.pack(*self))

    @classmethod
    def parse(cls, text: object) -> ListingToken | None:
        packed = _unseal(b"l", text, _LISTING.size)
        return None if packed is None else cls._make(_LISTING.unpack(packed))


def _seal(kind: bytes, packed: bytes) -> str:
    return b2a_base64(
        b"\0\0\0\0\0\0\0\1" + kind + packed + crc32(packed).to_bytes(4, "big"), newline=False
    ).decode("ascii")


def _unseal(kind: bytes, text: object, size: int) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        raw = a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    packed, checksum = raw[9:-4], raw[-4:]
    if raw[8:9] != kind or len(packed) != size or crc32(packed).to_bytes(4, "big") != checksum:
        return None
    return packed
