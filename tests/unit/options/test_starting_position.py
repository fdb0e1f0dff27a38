from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
)
from kinesis_source.core.starting_position import (
    LATEST,
    PerShard,
    StartingPosition,
    parse_starting_position,
)

A, B, C, D = (f"shardId-{n:012}" for n in range(4))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("LATEST", LATEST),
        (" latest ", LATEST),
        ("TRIM_HORIZON", TRIM_HORIZON),
        ("Earliest", TRIM_HORIZON),
        ("AT_TIMESTAMP 2026-01-02T03:04:05.678Z", AtTimestamp(1767323045678)),
        ("at_timestamp 2026-01-02T05:04:05.678+02:00", AtTimestamp(1767323045678)),
        ("AT_TIMESTAMP 2026-01-02 03:04:05Z", AtTimestamp(1767323045000)),
        ("AT_TIMESTAMP 2026-01-02T03:04:05.678999Z", AtTimestamp(1767323045678)),
        ("AT_TIMESTAMP 1767323045678", AtTimestamp(1767323045678)),
        ("{}", PerShard(LATEST, {})),
        (
            json.dumps(
                {
                    "default": "at_timestamp 1767323045678",
                    A: f"AFTER_SEQUENCE_NUMBER {'49' * 28}",
                    B: "SHARD_END",
                    C: "EARLIEST",
                    D: "LATEST",
                }
            ),
            PerShard(
                AtTimestamp(1767323045678),
                {
                    A: AfterSequenceNumber(int("49" * 28)),
                    B: SHARD_END,
                    C: TRIM_HORIZON,
                    D: LATEST,
                },
            ),
        ),
    ],
)
def test_what_is_accepted(text: str, value: StartingPosition) -> None:
    assert parse_starting_position(text) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert parse_starting_position(str(value)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected LATEST"),
        ("LATEST now", "expected LATEST"),
        ("NEWEST", "expected LATEST"),
        ("AT_TIMESTAMP", "2026-01-02T03:04:05.678Z"),
        ("AT_TIMESTAMP noon", "'noon'"),
        ("AT_TIMESTAMP 2026-01-02T03:04:05", "needs an offset"),
        ("AT_TIMESTAMP 2026-01-02", "needs an offset"),
        ("AT_TIMESTAMP 1767323045", "looks like seconds"),
        ("AT_TIMESTAMP -5", "milliseconds"),
        ("AT_TIMESTAMP 1969-12-31T00:00:00Z", "before 1970"),
        ("SHARD_END", "name the shard"),
        ("AFTER_SEQUENCE_NUMBER 5", "name the shard"),
        ("{", "expected JSON"),
        (f'{{"{A}": "LATEST", "{A}": "TRIM_HORIZON"}}', f"'{A}' is given twice"),
        ('{"shard-1": "LATEST"}', "'shard-1'"),
        ('{"Default": "LATEST"}', "'Default'"),
        ('{"default": "SHARD_END"}', "'default'"),
        (f'{{"{A}": 5}}', f"'{A}': expected text, found 5"),
        (f'{{"{A}": {{"a": 1}}}}', f"'{A}': expected text"),
        (f'{{"{A}": "4960"}}', "AFTER_SEQUENCE_NUMBER <number> or SHARD_END, found '4960'"),
        (f'{{"{A}": "AFTER_SEQUENCE_NUMBER 4x"}}', "expected digits, found '4x'"),
        (f'{{"{A}": "AFTER_SEQUENCE_NUMBER"}}', "expected digits"),
        (f'{{"{A}": "AT_TIMESTAMP 2026-01-02T03:04:05"}}', "needs an offset"),
    ],
)
def test_what_is_refused_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_starting_position(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2023-04-04T08:00:00-04:00", AtTimestamp(1680609600000)),  # AWS Glue
        ("2023-04-04T12:00:00Z", AtTimestamp(1680609600000)),
        ('{"at_timestamp": "2023-04-04T12:00:00Z"}', AtTimestamp(1680609600000)),
        (
            '{"at_timestamp": "06/25/2020 10:23:45 PDT", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}',
            AtTimestamp(1593105825000),
        ),
        (  # awslabs: the last line of a file in offsets/
            '{"metadata":{"streamName":"orders","batchId":"7"},'
            f'"{A}":{{"iteratorType":"AFTER_SEQUENCE_NUMBER","iteratorPosition":"4960",'
            '"subSequenceNumber":"-1","isLast":"true"},'
            f'"{B}":{{"iteratorType":"AFTER_SEQUENCE_NUMBER","iteratorPosition":"4970",'
            '"subSequenceNumber":"2","isLast":"true"},'
            f'"{C}":{{"iteratorType":"TRIM_HORIZON","iteratorPosition":"",'
            '"subSequenceNumber":"-1","isLast":"true"},'
            f'"{D}":{{"iteratorType":"AT_TIMESTAMP","iteratorPosition":"1767323045678",'
            '"subSequenceNumber":"-1","isLast":"true"}}',
            PerShard(
                LATEST,
                {
                    A: AfterSequenceNumber(4960),
                    B: AfterSequenceNumber(4970),
                    C: TRIM_HORIZON,
                    D: AtTimestamp(1767323045678),
                },
                "orders",
            ),
        ),
        (  # qubole: the same without the sub-sequence number
            f'{{"{A}":{{"iteratorType":"AFTER_SEQUENCE_NUMBER","iteratorPosition":"4960"}},'
            '"metadata":{"streamName":"my.cool.stream2","batchId":"7"},'
            f'"{B}":{{"iteratorType":"SHARD_END","iteratorPosition":""}}}}',
            PerShard(LATEST, {A: AfterSequenceNumber(4960), B: SHARD_END}, "my.cool.stream2"),
        ),
    ],
)
def test_the_forms_of_other_connectors(text: str, value: StartingPosition) -> None:
    assert parse_starting_position(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2023-04-04T08:00:00", "needs an offset"),
        ("2023-04-04 noon", "expected a time"),
        ("1680609600000", "expected LATEST"),
        ('{"at_timestamp": "06/25/2020 10:23:45 PDT"}', "without a 'format', expected a time"),
        ('{"at_timestamp": 1680609600000}', "expected text, found 1680609600000"),
        ('{"at_timestamp": "2023-04-04T12:00:00Z", "zone": "PDT"}', "found 'zone'"),
        (
            '{"at_timestamp": "25/6/2020 CST", "format": "d/M/yyyy z"}',
            "Or write AT_TIMESTAMP 2026-01-02T03:04:05Z",
        ),
        ('{"at_timestamp": "1969-01-01 00 Z", "format": "yyyy-MM-dd HH X"}', "before 1970"),
        (
            f'{{"{A}": {{"iteratorType": "AT_SEQUENCE_NUMBER", "iteratorPosition": "4960"}}}}',
            f"for '{A}': it stands inside an aggregated record",
        ),
        (
            f'{{"{A}": {{"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "4960", '
            '"subSequenceNumber": "0", "isLast": "false"}}',
            "inside an aggregated record",
        ),
        (f'{{"{A}": {{"iteratorType": "NEWEST", "iteratorPosition": ""}}}}', "found 'NEWEST '"),
        ('{"metadata": "TRIM_HORIZON"}', "for 'metadata': expected 'default' or a shard id"),
    ],
)
def test_what_is_refused_of_other_connectors_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_starting_position(text)
    assert reason in str(caught.value)


@given(ms=st.integers(100_000_000_000, 4_102_444_800_000), hours=st.integers(-14, 14))
def test_both_forms_of_a_time_are_exact(ms: int, hours: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    text = time.astimezone(timezone(timedelta(hours=hours))).isoformat(timespec="milliseconds")
    assert parse_starting_position(f"AT_TIMESTAMP {text}") == AtTimestamp(ms)
    assert parse_starting_position(f"AT_TIMESTAMP {ms}") == AtTimestamp(ms)
