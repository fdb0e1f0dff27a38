"""A stream into Parquet until it is killed: `into_parquet.py ARGUMENTS_AS_JSON`.

`options`, `sink`, `checkpoint`, and `hold`, a folder: the task that finds the file `hold` in it
writes `held` and stands still in the middle of its rows.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(arguments: dict[str, Any]) -> None:
    folder = Path(arguments["hold"])

    def pass_or_hold(key: str) -> str:
        if (folder / "hold").exists():
            (folder / "held").touch()
            threading.Event().wait()
        return key

    step = f.udf(pass_or_hold, useArrow=False)
    spark = SparkSession.builder.getOrCreate()
    frame = spark.readStream.format("kinesis").options(**arguments["options"]).load()
    writer = frame.withColumn("partitionKey", step("partitionKey")).writeStream.format("parquet")
    writer = writer.option("path", arguments["sink"])
    writer.option("checkpointLocation", arguments["checkpoint"]).start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
