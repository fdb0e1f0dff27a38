"""One run of a query on real Spark: `python -m tests.compat.spark_run ARGUMENTS_AS_JSON RESULT`.

`options`, `checkpoint`, `trigger`, `fails_in`. The result: batch → [shard, sequence number] of
each row, also of the batch that failed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

Batches = dict[int, list[list[str]]]


def run(spark: SparkSession, arguments: dict[str, Any]) -> Batches:
    """Until it ends by itself or as `fails_in` says."""
    batches: Batches = {}

    def take(frame: DataFrame, batch: int) -> None:
        rows = frame.select("shardId", "sequenceNumber").collect()
        batches[batch] = [list(row) for row in rows]
        if batch == arguments["fails_in"]:
            raise RuntimeError(f"planted in batch {batch}")

    frame = spark.readStream.format("kinesis").options(**arguments["options"]).load()
    writer = frame.writeStream.foreachBatch(take)
    once = {"once": True}
    writer = writer.trigger(**(once if arguments["trigger"] == "once" else {"availableNow": True}))
    query = writer.option("checkpointLocation", arguments["checkpoint"]).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if f"planted in batch {arguments['fails_in']}" not in str(error):
            raise
    else:
        assert arguments["fails_in"] is None, f"no batch {arguments['fails_in']}: {batches}"
    return batches


def main(arguments: str, result: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    Path(result).write_text(json.dumps(run(spark, json.loads(arguments))))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
