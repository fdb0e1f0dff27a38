"""What the client of docs/clusters.md does after its first lines, which are put before these.

`spark`, `records` and `query` are the page's; `FOLDER` is the sink's. Prints a JSON object a line.
"""

# ruff: noqa: F821 - the names above
from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame


def tell(what: str, value: object) -> None:
    print(json.dumps({what: value}), flush=True)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.1)


def write_in_place(batch: DataFrame, batch_id: int) -> None:
    batch.write.mode("overwrite").parquet(f"{FOLDER}/batches/{batch_id}")


names = ("kinesis_source", "pyspark_kinesis", "py4j")
tell("on the client", [name for name in names if importlib.util.find_spec(name) is not None])
until(lambda: query.lastProgress is not None or not query.isActive)
tell("progress", json.loads(query.lastProgress.json)["sources"][0])
until(lambda: (Path(FOLDER) / "stop").exists() or not query.isActive)
query.stop()

writer = records.writeStream.foreachBatch(write_in_place).trigger(availableNow=True)
writer = writer.option("checkpointLocation", f"{FOLDER}/checkpoint-batches")
tell("foreachBatch ended by itself", writer.start().awaitTermination(60))

wrong = spark.readStream.format("kinesis").option("streamNmae", "orders").load()
try:
    wrong.writeStream.format("noop").start()
except PySparkException as error:
    tell("wrong option", str(error))

missing = spark.readStream.format("kinesis").options(**OPTIONS | {"streamName": "no-such"}).load()
failing = missing.writeStream.format("noop").start()
until(lambda: not failing.isActive)
tell("wrong stream", str(failing.exception()))
