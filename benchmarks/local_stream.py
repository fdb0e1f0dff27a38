"""How fast the local stream answers GetRecords over HTTP.

    python benchmarks/local_stream.py [--seconds 5]

The server runs in a process of its own, filled through PutRecords; one client process reads
whole pages with http.client, as raw bytes. Prints MB/s of payload (decoded `Data`) for three
record sizes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from kinesis_source.clock import SystemClock

ROOT = Path(__file__).resolve().parent.parent
#: Record size in bytes, and how many fill about one page of 10 MiB or 10,000 records.
SHAPES = ((100, 10_000), (1_000, 10_000), (100_000, 100))


@contextmanager
def server() -> Iterator[str]:
    """The local stream in a process of its own; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kinesis_source.testing"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


class Client:
    """The least that speaks AWS JSON 1.1."""

    def __init__(self, endpoint_url: str) -> None:
        self._connection = HTTPConnection(endpoint_url.removeprefix("http://"))

    def raw(self, operation: str, **request: Any) -> bytes:
        headers = {"X-Amz-Target": f"Kinesis_20131202.{operation}", "Authorization": "none"}
        self._connection.request("POST", "/", json.dumps(request), headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"{operation}: {response.status} {body[:200]!r}")
        return body

    def call(self, operation: str, **request: Any) -> Any:
        return json.loads(self.raw(operation, **request))


def fill(client: Client, stream: str, size: int, count: int) -> None:
    client.call("CreateStream", StreamName=stream, ShardCount=1)
    entry = {"Data": b64encode(bytes(size)).decode(), "PartitionKey": "key"}
    at_once = min(500, 5_000_000 // size)
    for start in range(0, count, at_once):
        entries = [entry] * min(at_once, count - start)
        client.call("PutRecords", StreamName=stream, Records=entries)


def measure(client: Client, stream: str, seconds: float) -> tuple[float, float]:
    """MB of payload per second, and milliseconds per page, after one unmeasured page."""
    shard_id = client.call("ListShards", StreamName=stream)["Shards"][0]["ShardId"]
    iterator = client.call(
        "GetShardIterator",
        StreamName=stream,
        ShardId=shard_id,
        ShardIteratorType="TRIM_HORIZON",
    )["ShardIterator"]
    page = client.call("GetRecords", ShardIterator=iterator)
    payload = sum(len(record["Data"]) * 3 // 4 for record in page["Records"])
    clock = SystemClock()
    started, pages = clock.monotonic(), 0
    while (elapsed := clock.monotonic() - started) < seconds:
        client.raw("GetRecords", ShardIterator=iterator)
        pages += 1
    return payload * pages / elapsed / 1e6, elapsed / pages * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="measured time for each size")
    seconds = parser.parse_args().seconds
    with server() as url:
        client = Client(url)
        print(f"{'record bytes':>12} {'page records':>12} {'MB/s':>8} {'ms a page':>10}")
        for size, count in SHAPES:
            stream = f"records-{size}"
            fill(client, stream, size, count)
            rate, page_ms = measure(client, stream, seconds)
            print(f"{size:>12} {count:>12} {rate:>8.0f} {page_ms:>10.1f}")


if __name__ == "__main__":
    main()
