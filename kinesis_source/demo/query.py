"""The job of the demo, in a process of its own: a Kinesis stream into a Parquet sink.

    python -m kinesis_source.demo.query OPTIONS_AS_JSON SINK CHECKPOINT

Nothing is registered: Spark finds `format("kinesis")` in the installed package. It runs until
its standard input is closed, so it never outlives the demo.
"""

from __future__ import annotations

import json
import sys
import threading

from pyspark.sql import SparkSession

#: Between two batches, so that a person can follow them.
TRIGGER_INTERVAL = "1 second"


def main(options_json: str, sink: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("kinesis-demo").getOrCreate()
    records = spark.readStream.format("kinesis").options(**json.loads(options_json)).load()
    query = (
        records.writeStream.format("parquet")
        .option("path", sink)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=TRIGGER_INTERVAL)
        .start()
    )

    def stop_at_end_of_input() -> None:
        sys.stdin.read()
        query.stop()

    threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
