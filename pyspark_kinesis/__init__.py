"""Lets Spark find `format("kinesis")`: it imports installed packages named `pyspark_*` and looks
for `DefaultSource`.

One such package that cannot be imported disables the look-up of all, so nothing is imported here
but pyspark; the connector itself, with boto3 and pyarrow, comes when a query is built. With it
comes the error of a PySpark that is too old: that, too, must be able to import this.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

try:
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError:  # before 4.0, where nothing looks for this package
    DataSource = object  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from kinesis_source.spark.source import KinesisDataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Makes a `kinesis_source.spark.source.KinesisDataSource` when it is constructed."""

    def __new__(cls, options: MutableMapping[str, str]) -> KinesisDataSource:  # type: ignore[misc]
        from kinesis_source.spark.source import KinesisDataSource

        return KinesisDataSource(options)

    @classmethod
    def name(cls) -> str:
        return "kinesis"
