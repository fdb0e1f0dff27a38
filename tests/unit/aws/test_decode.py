from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.aws.decode import (
    Record,
    check_complete,
    decode_get_records,
    to_ms,
    to_record,
    to_records,
)

#: 2013-12-02, the API's own date, to 2100.
MILLISECONDS = st.integers(1_385_942_400_000, 4_102_444_800_000)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def response(body: bytes, status: int = 200, **headers: str) -> dict[str, Any]:
    sent = {"content-type": "application/x-amz-json-1.1"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return {"status_code": status, "headers": sent, "body": body}


def decode(body: bytes, status: int = 200, **headers: str) -> tuple[dict[str, Any], bytes]:
    """What the SDK is given, and what is left for its parser."""
    answer, customized = response(body, status, **headers), {}
    decode_get_records(response_dict=answer, customized_response_dict=customized, model=None)
    return customized, answer["body"]


def wire_record(seconds: str = "1733049000.123", data: bytes = b"x", **more: object) -> str:
    members = {"SequenceNumber": "49" * 28, "Data": base64.b64encode(data).decode(), **more}
    return json.dumps(members)[:-1] + f', "ApproximateArrivalTimestamp": {seconds}}}'


@pytest.mark.parametrize(
    ("wire", "ms"),
    [
        ("1733049000.123", 1733049000123),
        ("1733049000.001", 1733049000001),
        ("1733049000.999", 1733049000999),
        ("1733049000", 1733049000000),
        ("1.733049000123E9", 1733049000123),
        ("1.73304900E9", 1733049000000),
    ],
)
def test_arrival_times_are_exact_to_the_millisecond(wire: str, ms: int) -> None:
    page, _ = decode(f'{{"Records": [{wire_record(wire)}]}}'.encode())
    assert page["Records"][0].arrival_ms == ms


@given(ms=MILLISECONDS, offset=st.integers(-14, 14))
def test_every_form_of_a_timestamp_gives_the_same_milliseconds(ms: int, offset: int) -> None:
    seconds, thousandths = divmod(ms, 1000)
    moment = (EPOCH + timedelta(milliseconds=ms)).astimezone(timezone(timedelta(hours=offset)))
    assert to_ms(moment) == ms
    assert to_ms(float(f"{seconds}.{thousandths:03}")) == ms
    for value in (moment, ms / 1000):
        raw = {"SequenceNumber": "1", "ApproximateArrivalTimestamp": value, "Data": b""}
        assert to_record(raw).arrival_ms == ms


def test_a_record_has_all_its_members() -> None:
    data = bytes(range(256))
    body = (
        '{"Records": ['
        + wire_record(data=data, PartitionKey="grün", EncryptionType="KMS", New={"a": [1]})
        + ","
        + wire_record(data=b"", PartitionKey=None)
        + "]}"
    )
    page, left = decode(body.encode())
    first, second = page["Records"]
    assert (first.Data, first.PartitionKey) == (data, "grün")
    assert first.sequence_number == int("49" * 28)
    assert (second.Data, second.PartitionKey) == (b"", None)
    assert left == b""


def test_members_that_are_absent_or_null_stay_absent() -> None:
    assert decode(b"{}")[0] == {}
    assert decode(b'{"Records": [], "NextShardIterator": null}')[0] == {"Records": []}
    assert decode(
        b'{"Records": [], "NextShardIterator": "it", "MillisBehindLatest": 0, "ChildShards": []}'
    )[0] == {"Records": [], "NextShardIterator": "it", "MillisBehindLatest": 0, "ChildShards": []}


def test_a_body_cut_anywhere_raises() -> None:
    whole = f'{{"MillisBehindLatest": 0, "Records": [{wire_record()}]}}'.encode()
    for length in range(len(whole)):
        with pytest.raises(msgspec.DecodeError):
            decode(whole[:length])
        with pytest.raises(msgspec.DecodeError):
            check_complete(response(whole[:length]))
    check_complete(response(whole))


@pytest.mark.parametrize(
    "body",
    [
        b"<html>proxy</html>",
        b"null",
        b"[]",
        b'{"Records": {}}',
        b'{"Records": [{"SequenceNumber": "1", "ApproximateArrivalTimestamp": 1}]}',
        b'{"Records": [{"SequenceNumber": "1", "ApproximateArrivalTimestamp": 1, "Data": "?"}]}',
    ],
)
def test_a_body_that_is_not_a_page_raises(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(body)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, {}),
        (500, {}),
        (200, {"content_encoding": "gzip"}),
        (200, {"content_type": "application/x-amz-cbor-1.1"}),
    ],
)
def test_errors_and_other_encodings_are_left_to_the_sdk(
    status: int, headers: dict[str, str]
) -> None:
    assert decode(b"\x00anything", status, **headers) == ({}, b"\x00anything")
    check_complete(response(b"\x00anything", status, **headers))


def test_records_already_decoded_are_not_copied() -> None:
    page = [Record("1", 1.0, b"a"), Record("2", 1.0, b"b")]
    assert to_records(page) is page
    assert to_record(page[0]) is page[0]
    assert to_records([]) == []
