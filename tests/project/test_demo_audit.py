"""The demo's judge: each kind of fault is counted, and only that."""

from __future__ import annotations

import dataclasses

import pytest

from kinesis_source.demo.audit import AuditResult, SinkRow, audit
from kinesis_source.demo.producer import AcceptedRecord, encode

ACCEPTED = [
    AcceptedRecord(key, number, encode(key, number), f"shard-{key}", str(1000 + number))
    for number in range(4)
    for key in ("a", "b")
]


def sink_rows() -> list[SinkRow]:
    """All of `ACCEPTED`: numbers 0 and 1 in batch 0, 2 and 3 in batch 1; a file for each key."""
    return [
        SinkRow(
            batch=record.number // 2,
            file=f"part-{record.number // 2}-{record.key}",
            index=record.number % 2,
            partition_key=record.key,
            data=record.data,
            shard_id=record.shard_id,
            sequence_number=record.sequence_number,
        )
        for record in ACCEPTED
    ]


def test_a_faithful_sink_passes_whatever_the_order_in_which_its_rows_are_listed() -> None:
    result = audit(ACCEPTED, reversed(sink_rows()))
    assert result == AuditResult(put=8, rows=8, lost=0, repeated=0, out_of_order=0, changed=0)
    assert result.passed


def test_a_missing_row_is_lost() -> None:
    result = audit(ACCEPTED, sink_rows()[:-1])
    assert (result.lost, result.rows) == (1, 7)
    assert not result.passed


def test_a_second_row_for_a_record_is_repeated_and_not_also_out_of_order() -> None:
    rows = sink_rows()
    again = dataclasses.replace(rows[0], batch=1, file="part-2", index=0)
    result = audit(ACCEPTED, [*rows, again])
    assert (result.repeated, result.out_of_order, result.lost) == (1, 0, 0)
    assert not result.passed


def test_two_records_of_a_key_swapped_within_a_file_are_out_of_order() -> None:
    rows = sink_rows()
    first = next(row for row in rows if row.partition_key == "a" and row.index == 0)
    second = next(row for row in rows if row.file == first.file and row.index == 1)
    rows.remove(first)
    rows.remove(second)
    rows += [dataclasses.replace(first, index=1), dataclasses.replace(second, index=0)]
    result = audit(ACCEPTED, rows)
    assert (result.out_of_order, result.lost, result.repeated) == (1, 0, 0)
    assert not result.passed


def test_a_later_batch_with_earlier_records_is_out_of_order() -> None:
    rows = [
        dataclasses.replace(row, batch=1 - row.batch) if row.partition_key == "b" else row
        for row in sink_rows()
    ]
    result = audit(ACCEPTED, rows)
    assert (result.out_of_order, result.changed) == (2, 0)
    assert not result.passed


@pytest.mark.parametrize(
    "change",
    [
        {"data": b"not an order"},
        {"data": encode("a", 77)},
        {"partition_key": "b"},
        {"shard_id": "shard-other"},
        {"sequence_number": "9"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_row_that_differs_from_what_was_put_is_changed(change: dict[str, object]) -> None:
    rows = sink_rows()
    rows[0] = dataclasses.replace(rows[0], **change)
    result = audit(ACCEPTED, rows)
    assert result.changed == 1
    assert not result.passed
