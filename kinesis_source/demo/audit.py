"""Compares what the producer recorded with what is in the sink. Pure.

A record is known by its key and its number within the key.

lost          put, and in no row
repeated      rows beyond the first for one record
out of order  within a key, rows that come after a row with a higher number. Rows come in the
              order of their batch, then their file, then their place in the file.
changed       rows that differ from what was put (data, shard, sequence number), or were never put
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kinesis_source.demo.producer import AcceptedRecord, decode


@dataclass(frozen=True, slots=True)
class SinkRow:
    """A row of the sink and where it lies. `index` is its place in the file, from 0."""

    batch: int
    file: str
    index: int
    partition_key: str
    data: bytes
    shard_id: str
    sequence_number: str


@dataclass(frozen=True, slots=True)
class AuditResult:
    put: int
    rows: int
    lost: int
    repeated: int
    out_of_order: int
    changed: int

    @property
    def passed(self) -> bool:
        return not (self.lost or self.repeated or self.out_of_order or self.changed)


def audit(accepted: Iterable[AcceptedRecord], rows: Iterable[SinkRow]) -> AuditResult:
    expected = {(record.key, record.number): record for record in accepted}
    seen: set[tuple[str, int]] = set()
    highest: dict[str, int] = {}
    row_count = repeated = out_of_order = changed = 0
    for row in sorted(rows, key=lambda row: (row.batch, row.file, row.index)):
        row_count += 1
        try:
            key, number = decode(row.data)
        except (ValueError, KeyError, TypeError):
            changed += 1
            continue
        found = AcceptedRecord(
            row.partition_key, number, row.data, row.shard_id, row.sequence_number
        )
        if expected.get((key, number)) != found:
            changed += 1
        if (key, number) in seen:
            repeated += 1
        elif number < highest.get(key, -1):
            out_of_order += 1
        seen.add((key, number))
        highest[key] = max(number, highest.get(key, -1))
    return AuditResult(
        put=len(expected),
        rows=row_count,
        lost=len(expected.keys() - seen),
        repeated=repeated,
        out_of_order=out_of_order,
        changed=changed,
    )
