"""The executors: tasks that read input partitions, in any order, some failing, some twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from tests.support.checkpoint import Row, check_same_rows

#: spark.sql.execution.arrow.maxRecordsPerBatch.
MAX_ROWS_PER_RECORD_BATCH = 10_000

_pickler: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]


def pickled(value: object) -> bytes:
    """As Spark pickles what goes from one of its Python processes to another."""
    data: bytes = _pickler.dumps(value)
    return data


def unpickled(data: bytes) -> Any:
    return _pickler.loads(data)


class BrokenContract(AssertionError):
    """The reader gave Spark something that real Spark would refuse or read wrongly."""


@dataclass(frozen=True, slots=True)
class TaskFaults:
    """What happens to the tasks of a batch; the two rates are probabilities per input partition."""

    failure_rate: float = 0.0
    speculation_rate: float = 0.0
    two_actions: bool = False


NO_TASK_FAULTS = TaskFaults()


class Attempt:
    """One attempt of one task, in a worker of its own; `fails_after` in record batches."""

    def __init__(
        self, job: ReadJob, index: int, partition: bytes, fails_after: int | None = None
    ) -> None:
        self.index = index
        self.fails_after = fails_after
        self.rows: list[Row] = []
        self._job = job
        self._batches = job.open(partition)

    def step(self) -> bool:
        """Take one record batch; false at the end."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        self.rows.extend(self._job.rows_of(batch))
        return True

    def fail(self) -> None:
        self._batches.close()


class ReadJob:
    """What Spark ships to the workers of one run: the pickled reader and the schema."""

    def __init__(self, data_source: bytes, schema: StructType) -> None:
        from pyspark.sql.datasource_internal import _streamReader

        source = unpickled(data_source)
        self._command = pickled((source, _streamReader(source, schema)))
        self._schema = schema
        self._arrow_schema = to_arrow_schema(schema, timezone="UTC")

    def open(self, partition: bytes) -> Generator[pa.RecordBatch, None, None]:
        source: DataSource
        reader: DataSourceStreamReader
        source, reader = unpickled(self._command)
        value = unpickled(partition)
        if not isinstance(value, InputPartition):
            raise BrokenContract(f"an input partition is a {type(value).__name__}")
        records = reader.read(value)
        if not isinstance(records, Iterator):
            raise BrokenContract(f"read() returned a {type(records).__name__}, not an iterator")
        yield from records_to_arrow_batches(
            records, MAX_ROWS_PER_RECORD_BATCH, self._schema, source
        )

    def rows_of(self, batch: pa.RecordBatch) -> list[Row]:
        """The rows of a record batch; Spark checks only the first one's schema, we check all."""
        if not batch.schema.equals(self._arrow_schema):
            raise BrokenContract(f"expected {self._arrow_schema}, found {batch.schema}")
        batch.validate()
        columns = [
            (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
            for column in batch.columns
        ]
        return list(zip(*columns, strict=True))

    def run(
        self,
        partitions: list[bytes],
        faults: TaskFaults,
        rng: random.Random,
        passing: Callable[[str], None],
        may_lack: Callable[[Row], bool] = lambda row: False,
    ) -> list[Row]:
        """Read all input partitions, interleaved by `rng`; the rows in partition order.

        `may_lack`: the rows that a later attempt may lack.
        """
        rows = self._run_once(partitions, faults, rng, passing, may_lack)
        if faults.two_actions:
            again = self._run_once(partitions, faults, rng, passing, may_lack)
            check_same_rows("the second action", rows, again, may_lack)
        return rows

    def _run_once(
        self,
        partitions: list[bytes],
        faults: TaskFaults,
        rng: random.Random,
        passing: Callable[[str], None],
        may_lack: Callable[[Row], bool],
    ) -> list[Row]:
        finished: dict[int, list[Row]] = {}
        running: list[Attempt] = []
        try:
            for index, partition in enumerate(partitions):
                fails_after = rng.randrange(3) if rng.random() < faults.failure_rate else None
                running.append(Attempt(self, index, partition, fails_after))
                if rng.random() < faults.speculation_rate:
                    running.append(Attempt(self, index, partition))
            while running:
                attempt = running[rng.randrange(len(running))]
                if attempt.fails_after == 0:
                    attempt.fail()
                    running.remove(attempt)
                    running.append(Attempt(self, attempt.index, partitions[attempt.index]))
                elif attempt.step():
                    passing("record batch")
                    if attempt.fails_after is not None:
                        attempt.fails_after -= 1
                else:
                    running.remove(attempt)
                    other = finished.setdefault(attempt.index, attempt.rows)
                    if other is not attempt.rows:
                        what = f"input partition {attempt.index}"
                        check_same_rows(what, other, attempt.rows, may_lack)
        finally:
            for attempt in running:
                attempt.fail()
        return [row for index in range(len(partitions)) for row in finished[index]]
