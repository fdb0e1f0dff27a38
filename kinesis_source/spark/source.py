"""`spark.readStream.format("kinesis")`.

Spark builds the data source and its reader in several processes and pickles them between them, so
neither does I/O nor holds a client before a method needs one.

| method | process |
|---|---|
| `KinesisDataSource(options)`, `schema` | a Python worker of the driver, at `load()` |
| `prepareForTriggerAvailableNow` … `commit`, `stop` | the planner process, one for a query's life |
| `read` | Python workers of the executors, one call a task |
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import BinaryType, StringType, StructType, TimestampType

from kinesis_source.aws.session import Connection, connect
from kinesis_source.errors import OptionError
from kinesis_source.options import Options
from kinesis_source.spark.stream_reader import KinesisStreamReader

SCHEMA = (
    StructType()
    .add("partitionKey", StringType())
    .add("data", BinaryType())
    .add("stream", StringType())
    .add("shardId", StringType())
    .add("sequenceNumber", StringType())
    .add("approximateArrivalTimestamp", TimestampType())
)


class KinesisDataSource(DataSource):
    """One Kinesis data stream as a streaming source."""

    #: How connections are made; module-level, since it is pickled by reference. Tests replace it.
    connect: Callable[..., Connection] = staticmethod(connect)

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises `OptionError` for options that are unknown, malformed or contradictory."""
        super().__init__(options)
        self._parsed = Options.parse(options)

    @classmethod
    def name(cls) -> str:
        return "kinesis"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        raise OptionError(
            "kinesis is a streaming source: use spark.readStream, with "
            ".trigger(availableNow=True) to read what is there and stop"
        )

    def streamReader(self, schema: StructType) -> KinesisStreamReader:
        problem = None
        if schema != SCHEMA:
            problem = OptionError(
                f"found the schema {schema.simpleString()}; the columns of a Kinesis stream are "
                f"fixed: {SCHEMA.simpleString()}. Leave out .schema(…) and select what you need"
            )
        return KinesisStreamReader(self._parsed, self.connect, problem)
