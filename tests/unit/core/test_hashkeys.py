from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.core.hashkeys import (
    MAX_HASH_KEY,
    WHOLE_KEY_SPACE,
    HashKeyRange,
    covers,
    hash_key_of,
    tiles,
)

RANGES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda p: HashKeyRange(min(p), max(p))),
    max_size=6,
)


def keys(piece: HashKeyRange) -> list[int]:
    return list(range(piece.start, piece.end + 1))


@given(RANGES, RANGES)
def test_the_predicates_agree_with_counting_keys(
    pieces: list[HashKeyRange], targets: list[HashKeyRange]
) -> None:
    held = [key for piece in pieces for key in keys(piece)]
    for target in targets:
        assert covers(pieces, target) == (set(keys(target)) <= set(held))
        assert tiles(pieces, target) == (sorted(held) == keys(target))


def test_the_whole_space_needs_its_last_key() -> None:
    middle = 2**127
    low = HashKeyRange(0, middle - 1)
    assert tiles([HashKeyRange(middle, MAX_HASH_KEY), low])
    assert not tiles([HashKeyRange(middle, MAX_HASH_KEY - 1), low])
    assert not covers([HashKeyRange(middle, MAX_HASH_KEY - 1), low], WHOLE_KEY_SPACE)
    assert not tiles([])
    assert not covers([], WHOLE_KEY_SPACE)


@pytest.mark.parametrize(
    ("partition_key", "digest"),
    [
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("ключ", "c3657b66c60a307292aae11f07b04ae7"),
    ],
)
def test_a_hash_key_is_the_md5_of_the_utf8_text(partition_key: str, digest: str) -> None:
    assert hash_key_of(partition_key) == int(digest, 16)
