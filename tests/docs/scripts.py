"""Runs the Python blocks of a page as they stand, one after another in one namespace, as a notebook
does: a block may use what the blocks above it on the page have defined.

Before a block runs, the streams that it names hold records and the lease tables that it names have
a lease for each shard. After it, what it left is tried: a query that runs is read to the end of the
stream and stopped, a streaming frame from which no query was started is read once. A block that
starts at TRIM_HORIZON, or from a lease table, must have read records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kinesis_source.testing import LocalKinesis
from tests.docs.blocks import Block
from tests.support.dynamodb import LocalDynamoDB
from tests.support.kcl_rows import kcl_2

#: What the blocks say.
REGION = "eu-west-1"
ACCOUNT = "123456789012"
#: What a block says that cannot be so here, and what is put in its place; `{}` is a folder.
SUBSTITUTIONS = (
    (r"s3a?://my-bucket/", "{}/"),
    (r'processingTime="[^"]+"', 'processingTime="0 seconds"'),
)
RECORDS = 50

_STREAM = re.compile(r'"?streamName"?[,:=] *"([^"]+)"|:stream/([\w.-]+)"')
_TABLE = re.compile(r'"?(?:startFrom|write)LeaseTable"?[,:=] *"([^"]+)"')
_READS_FROM_THE_BEGINNING = re.compile("TRIM_HORIZON|EARLIEST|startFromLeaseTable")


class Scripts:
    def __init__(self, folder: Path, kinesis: LocalKinesis, dynamodb: LocalDynamoDB) -> None:
        self._folder = folder
        self._kinesis = kinesis
        self._dynamodb = dynamodb
        self._namespaces: dict[str, dict[str, Any]] = {}
        self._streams: set[str] = set()
        self._rows = 0
        #: Of the last batch with rows, as Spark prints it.
        self.last_progress = ""

    def run(self, block: Block, spark: SparkSession) -> None:
        self._prepare(block.text)
        text = block.text
        for pattern, replacement in SUBSTITUTIONS:
            text = re.sub(pattern, replacement.format(self._folder / block.page), text)
        namespace = self._namespaces.setdefault(
            block.page, {"__name__": "__main__", "spark": spark}
        )
        known = dict(namespace)
        self._rows, started = 0, []
        with self._ending_queries(started):
            # The lines of a traceback are those of the page.
            exec(compile("\n" * block.line + text, block.page, "exec"), namespace)
        for query in spark.streams.active:
            self._finish(query)
            started.append(query)
        if not started:
            for name, value in namespace.items():
                is_new = isinstance(value, DataFrame) and known.get(name) is not value
                if is_new and value.isStreaming:
                    self._read_once(value)
        if _READS_FROM_THE_BEGINNING.search(text):
            assert self._rows, "no record was read"

    def _prepare(self, text: str) -> None:
        for name in {a or b for a, b in _STREAM.findall(text)} - self._streams:
            self._streams.add(name)
            self._kinesis.create_stream(name, shards=2)
            for number in range(RECORDS):
                self._kinesis.put(name, b'{"order": %d}' % number, f"customer-{number % 7}")
        streams = [a or b for a, b in _STREAM.findall(text)]
        for table in set(_TABLE.findall(text)) - set(self._tables()):
            shards = self._kinesis.ledger(streams[0]).shards.values()
            rows = [kcl_2(s.shard_id, "TRIM_HORIZON", s.hash_range) for s in shards]
            self._dynamodb.create_lease_table(table, rows)

    def _tables(self) -> list[str]:
        names: list[str] = self._dynamodb.client.list_tables()["TableNames"]
        return names

    @contextmanager
    def _ending_queries(self, ended: list[StreamingQuery]) -> Iterator[None]:
        """`awaitTermination()` of a query that would run for ever ends it once all is read."""

        def await_termination(query: StreamingQuery, timeout: float | None = None) -> bool:
            self._finish(query)
            ended.append(query)
            return True

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StreamingQuery, "awaitTermination", await_termination)
            yield

    def _finish(self, query: StreamingQuery) -> None:
        query.processAllAvailable()
        query.stop()
        self._count(query)

    def _read_once(self, frame: DataFrame) -> None:
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        self._count(query)

    def _count(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            self._rows += progress.numInputRows
            if progress.numInputRows:
                self.last_progress = progress.json
