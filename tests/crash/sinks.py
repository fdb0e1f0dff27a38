"""What the two sinks of the job hold, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from kinesis_source.demo.audit import SinkRow
from kinesis_source.demo.spark_files import Sink


def rows_of_parquet(folder: Path) -> list[SinkRow]:
    """Of the files in the sink's log: the others are left-overs that Spark does not read."""
    log = Sink(folder)
    log.refresh()
    rows: list[SinkRow] = []
    for file in sorted(folder.glob("*.parquet")):
        try:
            batch = log.batch_of(file.name)
        except KeyError:
            continue
        rows.extend(_rows(file, batch))
    return rows


def rows_of_batches(folder: Path, count: int) -> list[SinkRow]:
    """Of the first `count` batches, which were all committed; each folder must be whole."""
    rows: list[SinkRow] = []
    for batch in range(count):
        assert (folder / str(batch) / "_SUCCESS").exists(), f"batch {batch} was committed unwritten"
        for file in sorted((folder / str(batch)).glob("*.parquet")):
            rows.extend(_rows(file, batch))
    return rows


def _rows(file: Path, batch: int) -> Iterator[SinkRow]:
    columns = ["partitionKey", "data", "shardId", "sequenceNumber"]
    table = pq.ParquetFile(file).read(columns)
    for index, row in enumerate(table.to_pylist()):
        yield SinkRow(batch, file.name, index, *(row[name] for name in columns))
