"""What the connector's decoding of GetRecords saves against the SDK's own.

    python benchmarks/decoding.py [--pages 20]

One local stream in a process of its own; the same pages are read over HTTP in turns, by plain
boto3 into Python tuples, and by the connector's client into Arrow record batches. Prints MB/s of
payload of both and their ratio, for three record sizes. The ratio is the figure: the rates depend
on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
from typing import Any

import boto3
from local_stream import SHAPES, Client, fill, server

from kinesis_source.aws.client import IteratorStart
from kinesis_source.aws.session import connect
from kinesis_source.clock import SystemClock
from kinesis_source.options import Options
from kinesis_source.reading.arrow import to_record_batches

PAGE_LIMIT = 10_000


def plain(client: Any, stream: str, shard_id: str) -> int:
    """One page as tuples; its bytes of data."""
    iterator = client.get_shard_iterator(
        StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    rows = [
        (
            record["PartitionKey"],
            record["Data"],
            stream,
            shard_id,
            record["SequenceNumber"],
            record["ApproximateArrivalTimestamp"],
        )
        for record in client.get_records(ShardIterator=iterator, Limit=PAGE_LIMIT)["Records"]
    ]
    return sum(len(row[1]) for row in rows)


def connector(client: Any, stream: str, shard_id: str) -> int:
    """The same page as Arrow record batches."""
    iterator = client.get_shard_iterator(shard_id, IteratorStart.trim_horizon())
    records = client.get_records(shard_id, iterator, PAGE_LIMIT).records
    for batch in to_record_batches(records, stream, shard_id):
        assert batch.num_rows
    return sum(len(record.Data) for record in records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20, help="pages of each size and kind")
    pages = parser.parse_args().pages
    clock = SystemClock()
    with server() as url:
        access = {
            "region_name": "us-east-1",
            "aws_access_key_id": "a",
            "aws_secret_access_key": "s",
        }
        sdk = boto3.client("kinesis", endpoint_url=url, **access)
        print(f"{'record bytes':>12} {'boto3 MB/s':>11} {'connector MB/s':>15} {'ratio':>6}")
        for size, count in SHAPES:
            stream = f"records-{size}"
            fill(Client(url), stream, size, count)
            options = Options.parse(
                {
                    "streamName": stream,
                    "region": "us-east-1",
                    "endpointUrl": url,
                    "awsAccessKeyId": "a",
                    "awsSecretKey": "s",
                }
            )
            ours = connect(options, "executor").client
            shard_id = next(iter(ours.list_shards()))
            seconds = {plain: 0.0, connector: 0.0}
            size_bytes = 0
            for _ in range(pages):
                for read, client in ((plain, sdk), (connector, ours)):
                    started = clock.monotonic()
                    size_bytes = read(client, stream, shard_id)
                    seconds[read] += clock.monotonic() - started
            rates = {read: size_bytes * pages / seconds[read] / 1e6 for read in seconds}
            ratio = rates[connector] / rates[plain]
            print(f"{size:>12} {rates[plain]:>11.1f} {rates[connector]:>15.1f} {ratio:>6.1f}")


if __name__ == "__main__":
    main()
