"""Puts an order a second into the stream of compose.yaml, for the example job to print."""

from __future__ import annotations

import json
import os
from itertools import count

import boto3

from kinesis_source.clock import SystemClock


def main() -> None:
    kinesis = boto3.client("kinesis", endpoint_url=os.environ["KINESIS_ENDPOINT"])
    clock = SystemClock()
    for number in count():
        kinesis.put_record(
            StreamName=os.environ["STREAM_NAME"],
            PartitionKey=f"customer-{number % 7}",
            Data=json.dumps({"order": number}).encode(),
        )
        clock.sleep(1)


if __name__ == "__main__":
    main()
