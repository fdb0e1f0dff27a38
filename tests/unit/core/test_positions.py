from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from kinesis_source.core.positions import (
    AfterSequenceNumber,
    Position,
    parse_position,
)
from kinesis_source.errors import OffsetFormatError
from tests.unit.core.building import DIGITS_55, DIGITS_56, POSITIONS


@given(POSITIONS)
def test_text_and_back(position: Position) -> None:
    assert parse_position(str(position)) == position
    assert pickle.loads(pickle.dumps(position)) == position


@pytest.mark.parametrize("number", [DIGITS_55, DIGITS_56])
def test_a_sequence_number_stays_exact(number: int) -> None:
    text = f"AFTER_SEQUENCE_NUMBER {number}"
    position = parse_position(text)
    assert position == AfterSequenceNumber(number)
    assert str(position) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "LATEST",
        "trim_horizon",
        "TRIM_HORIZON 5",
        "SHARD_END 5",
        "AT_TIMESTAMP",
        "AT_TIMESTAMP ",
        "AT_TIMESTAMP 1.5",
        "AT_TIMESTAMP -1",
        "AT_TIMESTAMP 007",
        "AT_TIMESTAMP 5 6",
        "AFTER_SEQUENCE_NUMBER",
        "AFTER_SEQUENCE_NUMBER 0x10",
        "AFTER_SEQUENCE_NUMBER  12",
        "AFTER_SEQUENCE_NUMBER ١٢",
        "AT_SEQUENCE_NUMBER 12",
    ],
)
def test_other_text_is_refused_and_shown(text: str) -> None:
    with pytest.raises(OffsetFormatError) as caught:
        parse_position(text)
    assert repr(text) in str(caught.value)
    assert "expected TRIM_HORIZON, SHARD_END" in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, ["TRIM_HORIZON"], {"kind": "TRIM_HORIZON"}])
def test_what_is_not_text_is_refused_and_shown(value: object) -> None:
    with pytest.raises(OffsetFormatError) as caught:
        parse_position(value)
    assert repr(value) in str(caught.value)
