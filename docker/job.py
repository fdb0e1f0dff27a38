"""An example job: prints what arrives in a Kinesis stream.

STREAM_NAME names the stream; KINESIS_ENDPOINT, if set, is used in place of AWS's own. Region and
credentials come from the usual places of the AWS SDK.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession


def connector_options() -> dict[str, str]:
    options = {"streamName": os.environ["STREAM_NAME"], "startingPosition": "TRIM_HORIZON"}
    if "KINESIS_ENDPOINT" in os.environ:
        options["endpointUrl"] = os.environ["KINESIS_ENDPOINT"]
    return options


def main() -> None:
    spark = SparkSession.builder.appName("kinesis-to-console").getOrCreate()
    records = spark.readStream.format("kinesis").options(**connector_options()).load()
    query = (
        records.selectExpr(
            "approximateArrivalTimestamp AS arrived",
            "shardId",
            "partitionKey",
            "CAST(data AS STRING) AS data",
        )
        .writeStream.format("console")
        .option("truncate", "false")
        # A real job keeps this on storage that outlives the machine.
        .option("checkpointLocation", "checkpoint")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
