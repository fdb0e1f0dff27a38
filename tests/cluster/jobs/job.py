"""The job of every run on the cluster: a stream into a sink until the file `stop` appears.

It reads `arguments.json` in its working directory: `options`; `sink`, "parquet" or "batches";
`folder` for the sink, the checkpoint and the files by which test and job talk; `before`, if given,
Python statements run with `spark` before the source is used.

A task that finds the file `hold` in the folder writes `held-<host>-<partition>-<attempt>` in the
middle of its rows and stands still until `hold` is gone.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def main(arguments: dict[str, Any]) -> None:
    folder = Path(arguments["folder"])

    def pass_or_hold(key: str) -> str:
        if (folder / "hold").exists():
            context, host = TaskContext.get(), os.environ["SPARK_LOCAL_HOSTNAME"]
            (folder / f"held-{host}-{context.partitionId()}-{context.attemptNumber()}").touch()
            while (folder / "hold").exists():
                threading.Event().wait(0.05)
        return key

    def write_in_place(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{folder}/sink/{batch_id}")

    spark = SparkSession.builder.getOrCreate()
    exec(arguments.get("before", ""), {"spark": spark})
    records = spark.readStream.format("kinesis").options(**arguments["options"]).load()
    step = f.udf(pass_or_hold, useArrow=False)
    writer = records.withColumn("partitionKey", step("partitionKey")).writeStream
    if arguments["sink"] == "parquet":
        writer = writer.format("parquet").option("path", f"{folder}/sink")
    else:
        writer = writer.foreachBatch(write_in_place)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    while not (folder / "stop").exists():
        query.awaitTermination(0.1)  # raises what ended the query
    query.stop()
    spark.stop()


main(json.loads(Path("arguments.json").read_text()))
