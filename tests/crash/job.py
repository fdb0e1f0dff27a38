"""The process that is killed: `python -m tests.crash.job ARGUMENTS_AS_JSON`.

Two queries on one stream, each with a checkpoint: `parquet` into Spark's Parquet sink, and
`batches` with a `foreachBatch` that writes a batch into the folder of its number, in the place
of what is there. A query that fails is started again in the same Spark.

`options`, `master`, `folder`, `parent`: the process without which this one ends too.
Appends a line to `<folder>/events.jsonl` for each start, failure and refused start of a query,
and ends when `<folder>/stop` appears.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kinesis_source.clock import SystemClock

QUERIES = ("parquet", "batches")
SECONDS_BETWEEN_LOOKS = 0.1
LONGEST_DETAIL = 20_000


def writer_of(name: str, frame: DataFrame, sink: Path) -> DataStreamWriter:
    if name == "parquet":
        return frame.writeStream.format("parquet").option("path", str(sink))

    def write_in_place(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{sink}/{batch_id}")

    return frame.writeStream.foreachBatch(write_in_place)


def main(arguments: dict[str, Any]) -> None:
    folder = Path(arguments["folder"])
    clock = SystemClock()
    spark = SparkSession.builder.master(arguments["master"]).getOrCreate()

    def wanted() -> bool:
        return not (folder / "stop").exists() and os.getppid() == arguments["parent"]

    def tell(event: str, name: str, detail: str = "") -> None:
        line = {"event": event, "query": name, "pid": os.getpid(), "detail": detail}
        with (folder / "events.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def start(name: str) -> StreamingQuery | None:
        try:
            query = make(name)
        except (Py4JJavaError, PySparkException) as error:
            # `load()` asks a Python worker, too, and may find that it has been killed.
            tell("refused", name, str(error)[:LONGEST_DETAIL])
            return None
        tell("started", name)
        return query

    def make(name: str) -> StreamingQuery:
        frame = spark.readStream.format("kinesis").options(**arguments["options"]).load()
        writer = writer_of(name, frame, folder / name / "sink")
        writer = writer.option("checkpointLocation", str(folder / name / "checkpoint"))
        return writer.queryName(name).start()

    queries: dict[str, StreamingQuery | None] = {}
    for name in QUERIES:
        # One after the other: first batches at once can break the JVM's task serialization.
        query = queries[name] = start(name)
        while query is not None and query.isActive and query.lastProgress is None and wanted():
            clock.sleep(SECONDS_BETWEEN_LOOKS)
    while wanted():
        for name, query in queries.items():
            if query is not None and not query.isActive:
                tell("failed", name, str(query.exception())[:LONGEST_DETAIL])
                query = None
            if query is None:
                queries[name] = start(name)
        clock.sleep(SECONDS_BETWEEN_LOOKS)
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
