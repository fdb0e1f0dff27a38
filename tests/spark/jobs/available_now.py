"""All that is in a stream, read in one run: `available_now.py ARGUMENTS_AS_JSON`.

`options`; `checkpoint`; `result`, the file for the rows and for where driver and executors found
the package; `attempts`, if given, a folder and what the first attempt of partition 0 does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def where_imported(_: object) -> str:
    import kinesis_source

    return str(kinesis_source.__file__)


def main(arguments: dict[str, Any]) -> None:
    spark = SparkSession.builder.getOrCreate()
    rows: list[list[str]] = []

    def take(frame: DataFrame, _: int) -> None:
        batch = frame.rdd
        if "attempts" in arguments:
            from tests.spark.attempts import twice

            folder, first = arguments["attempts"]
            batch = batch.mapPartitions(twice(Path(folder), first))
        rows.extend([row.shardId, row.sequenceNumber, row.data.hex()] for row in batch.collect())

    frame = spark.readStream.format("kinesis").options(**arguments["options"]).load()
    writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", arguments["checkpoint"]).start().awaitTermination()
    on_executors = spark.sparkContext.range(2).map(where_imported).collect()
    result = {"rows": rows, "imported": sorted({where_imported(None), *on_executors})}
    Path(arguments["result"]).write_text(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
