"""The connector, writing down each call that an engine makes on its reader.

A call is one line of JSON in the file that the option `callsFile` names: `method`, and where it
has them `start`, `end` and `result` (offsets as they came), `limit` (type and fields) and
`ranges` (of `read`: shard, start and end).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kinesis_source.spark.partition import KinesisInputPartition
from kinesis_source.spark.source import KinesisDataSource

Offset = dict[str, Any]


class RecordingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Passes every call on to the connector's own reader."""

    def __init__(self, inner: Any, file: str) -> None:
        self._inner = inner
        self._file = file

    def prepareForTriggerAvailableNow(self) -> None:
        self._record("prepareForTriggerAvailableNow")
        self._inner.prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = self._inner.getDefaultReadLimit()
        self._record("getDefaultReadLimit")
        return limit

    def initialOffset(self) -> Offset:
        self._record("initialOffset")
        result: Offset = self._inner.initialOffset()
        return result

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        described = {"type": type(limit).__name__, **vars(limit)}
        try:
            result: Offset = self._inner.latestOffset(start, limit)
        except Exception as error:
            self._record("latestOffset", start=start, limit=described, error=type(error).__name__)
            raise
        self._record("latestOffset", start=start, limit=described, result=result)
        return result

    def reportLatestOffset(self) -> Offset | None:
        self._record("reportLatestOffset")
        result: Offset | None = self._inner.reportLatestOffset()
        return result

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._record("partitions", start=start, end=end)
        result: Sequence[InputPartition] = self._inner.partitions(start, end)
        return result

    def commit(self, end: Offset) -> None:
        self._record("commit", end=end)
        self._inner.commit(end)

    def stop(self) -> None:
        self._record("stop")
        self._inner.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KinesisInputPartition)
        ranges = [[r.shard_id, str(r.start.position), str(r.end)] for r in partition.ranges]
        self._record("read", ranges=ranges)
        batches: Iterator[pa.RecordBatch] = self._inner.read(partition)
        return batches

    def _record(self, method: str, **details: Any) -> None:
        line = json.dumps({"method": method, **details}) + "\n"
        # One write of a whole line: the calls come from several processes.
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


class RecordingSource(KinesisDataSource):
    """`format("recorded-kinesis")`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._file = options["callsFile"]
        super().__init__({n: v for n, v in options.items() if n.lower() != "callsfile"})

    @classmethod
    def name(cls) -> str:
        return "recorded-kinesis"

    def streamReader(self, schema: StructType) -> RecordingReader:  # type: ignore[override]
        return RecordingReader(super().streamReader(schema), self._file)
