"""Reads the sink as any Spark job would, in a process of its own, and writes one Arrow file.

    python -m kinesis_source.demo.readback SINK ARROW_FILE

Spark itself leaves out files of batches that did not finish. The columns are those of the
source, `file_name`, and `row_index`, a row's place in its file.
"""

from __future__ import annotations

import sys

import pyarrow.feather as feather
from pyspark.sql import SparkSession


def main(sink: str, arrow_file: str) -> None:
    spark = SparkSession.builder.appName("kinesis-demo-readback").getOrCreate()
    rows = spark.read.parquet(sink).select("*", "_metadata.file_name", "_metadata.row_index")
    feather.write_feather(rows.toArrow(), arrow_file)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
