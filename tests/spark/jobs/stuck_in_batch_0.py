"""Reads batch 0, writes down its rows, and never gets to its commit.

`stuck_in_batch_0.py ARGUMENTS_AS_JSON`: `options`, `checkpoint`, `rows` (the file).
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.spark.queries import rows_in


def main(arguments: dict[str, Any]) -> None:
    def take(frame: DataFrame, batch_id: int) -> None:
        rows = [(row.shard_id, row.sequence_number, row.data.hex()) for row in rows_in(frame)]
        unfinished = Path(arguments["rows"] + ".unfinished")
        unfinished.write_text(json.dumps([batch_id, rows]))
        unfinished.rename(arguments["rows"])
        threading.Event().wait()

    spark = SparkSession.builder.getOrCreate()
    frame = spark.readStream.format("kinesis").options(**arguments["options"]).load()
    writer = frame.writeStream.foreachBatch(take)
    writer.option("checkpointLocation", arguments["checkpoint"]).start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
