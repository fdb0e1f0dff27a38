from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.core.offset import (
    INITIAL_OFFSET,
    Offset,
    TrackedShard,
    parse_offset,
    serialize_offset,
)
from kinesis_source.core.positions import SHARD_END, TRIM_HORIZON, AfterSequenceNumber, AtTimestamp
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.errors import OffsetFormatError
from tests.unit.core.building import DIGITS_55, DIGITS_56, POSITIONS, shard_id

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
STREAM = StreamIdentity(ARN, 1764500000000)

TRACKED = st.builds(TrackedShard, POSITIONS, st.none() | st.integers(0, 2**53))
SHARDS = st.dictionaries(st.integers(0, 9999).map(shard_id), TRACKED, min_size=1, max_size=6)
OFFSETS = st.builds(
    Offset,
    st.builds(StreamIdentity, st.text(min_size=1), st.integers(0, 2**53)),
    SHARDS,
    st.none() | SHARDS,
)


def example() -> dict[str, Any]:
    return {
        "shards": {shard_id(0): ["TRIM_HORIZON", None]},
        "stream": {"arn": ARN, "createdMs": 1764500000000},
        "v": 1,
    }


@given(OFFSETS)
def test_json_text_and_back(offset: Offset) -> None:
    text = json.dumps(serialize_offset(offset))
    again = parse_offset(json.loads(text))
    assert again == offset
    assert json.dumps(serialize_offset(again)) == text
    assert pickle.loads(pickle.dumps(offset)) == offset


@given(OFFSETS, st.integers(0, 2**32))
def test_the_same_offset_is_the_same_text_in_whatever_order_it_was_built(
    offset: Offset, seed: int
) -> None:
    items = list(offset.shards.items())
    random.Random(seed).shuffle(items)
    shuffled = Offset(offset.stream, dict(items), offset.starts)
    assert json.dumps(serialize_offset(shuffled)) == json.dumps(serialize_offset(offset))


@given(OFFSETS)
def test_keys_are_sorted_at_every_level(offset: Offset) -> None:
    value = serialize_offset(offset)
    assert json.dumps(value) == json.dumps(value, sort_keys=True)


def test_the_text_of_version_1_is_frozen() -> None:
    offset = Offset(
        STREAM,
        {
            shard_id(3): TrackedShard(AfterSequenceNumber(DIGITS_55), 1764585600000),
            shard_id(1): TrackedShard(AfterSequenceNumber(DIGITS_56), 1764585600001),
            shard_id(2): TrackedShard(SHARD_END),
        },
        {
            shard_id(2): TrackedShard(TRIM_HORIZON),
            shard_id(1): TrackedShard(AtTimestamp(1764585000000), 1764585000000),
        },
    )
    assert json.dumps(serialize_offset(offset)) == (
        '{"shards": {"shardId-000000000001": ["AFTER_SEQUENCE_NUMBER 1' + "0" * 55 + '", '
        '1764585600001], "shardId-000000000002": ["SHARD_END", null], "shardId-000000000003": '
        '["AFTER_SEQUENCE_NUMBER ' + "9" * 55 + '", 1764585600000]}, '
        '"starts": {"shardId-000000000001": ["AT_TIMESTAMP 1764585000000", 1764585000000], '
        '"shardId-000000000002": ["TRIM_HORIZON", null]}, '
        f'"stream": {{"arn": "{ARN}", "createdMs": 1764500000000}}, "v": 1}}'
    )


def test_starts_are_left_out_where_there_are_none() -> None:
    offset = Offset(STREAM, {shard_id(0): TrackedShard(TRIM_HORIZON)})
    assert serialize_offset(offset) == example()
    assert parse_offset(example()) == offset


def test_the_initial_offset_is_a_constant() -> None:
    assert serialize_offset(INITIAL_OFFSET) == {"initial": True, "v": 1}
    assert parse_offset({"initial": True, "v": 1}) is INITIAL_OFFSET


@pytest.mark.parametrize("version", [None, 0, 2, "1", True])
def test_an_unknown_version_is_refused_before_anything_else(version: object) -> None:
    for value in ({"v": version, "new": []}, {"initial": True, "v": version}):
        with pytest.raises(OffsetFormatError) as caught:
            parse_offset(value)
        assert f"version {version!r}" in str(caught.value)
        assert "reads version 1" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        5,
        [],
        '{"v": 1}',
        {"orders": {"0": 120, "1": 98}},
        {"logOffset": 7},
        {"shards": {}, "stream": {}},
    ],
)
def test_the_offset_of_another_source_is_refused(value: object) -> None:
    with pytest.raises(OffsetFormatError) as caught:
        parse_offset(value)
    assert f"found {value!r}, which is no offset of format('kinesis')" in str(caught.value)
    assert "a checkpointLocation of its own" in str(caught.value)


def test_of_a_large_offset_of_another_source_some_is_shown() -> None:
    with pytest.raises(OffsetFormatError) as caught:
        parse_offset({"orders": {str(number): number for number in range(1_000)}})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"extra": 1}, "['extra']"),
        ({"initial": True}, "['initial']"),
        ({"stream": None}, "None"),
        ({"stream": {"arn": ARN}}, "'arn'"),
        ({"stream": {"arn": ARN, "createdMs": "5"}}, "'5'"),
        ({"stream": {"arn": None, "createdMs": 5}}, "None"),
        ({"stream": {"arn": ARN, "createdMs": 5, "name": "orders"}}, "'name'"),
        ({"shards": None}, "'shards' must be an object"),
        ({"shards": {}}, "'shards' must be an object of at least one shard"),
        ({"shards": [shard_id(0)]}, "'shards'"),
        ({"starts": {}}, "'starts' must be an object of at least one shard"),
        ({"shards": {shard_id(7): "TRIM_HORIZON"}}, shard_id(7)),
        ({"shards": {shard_id(7): ["TRIM_HORIZON"]}}, shard_id(7)),
        ({"shards": {shard_id(7): ["TRIM_HORIZON", None, 1]}}, shard_id(7)),
        ({"shards": {shard_id(7): ["TRIM_HORIZON", "5"]}}, shard_id(7)),
        ({"shards": {shard_id(7): ["TRIM_HORIZON", False]}}, shard_id(7)),
        ({"shards": {shard_id(7): ["TRIM_HORIZON", 5.0]}}, shard_id(7)),
        ({"shards": {shard_id(7): [None, 5]}}, "None"),
        ({"shards": {shard_id(7): ["LATEST", 5]}}, "'LATEST'"),
        ({"starts": {shard_id(7): ["LATEST", 5]}}, "'LATEST'"),
    ],
)
def test_a_malformed_offset_is_refused_and_shown(change: dict[str, Any], found: str) -> None:
    with pytest.raises(OffsetFormatError) as caught:
        parse_offset(example() | change)
    assert found in str(caught.value)
