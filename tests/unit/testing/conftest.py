"""A local stream on a manual clock, and short ways to read it in process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from kinesis_source.testing import InProcessClient, LocalKinesis, ManualClock


class Reader:
    """Reads one stream through the in-process client."""

    def __init__(self, client: InProcessClient, stream: str) -> None:
        self.client = client
        self.stream = stream

    def iterator(self, shard_id: str, kind: str = "TRIM_HORIZON", **more: Any) -> str:
        answer = self.client.get_shard_iterator(
            StreamName=self.stream, ShardId=shard_id, ShardIteratorType=kind, **more
        )
        return str(answer["ShardIterator"])

    def page(self, iterator: str, **more: Any) -> dict[str, Any]:
        return self.client.get_records(ShardIterator=iterator, **more)

    def data(self, shard_id: str, kind: str = "TRIM_HORIZON", **more: Any) -> list[bytes]:
        """The data of the first page from a position."""
        page = self.page(self.iterator(shard_id, kind, **more))
        return [record["Data"] for record in page["Records"]]

    def shards(self, **more: Any) -> dict[str, dict[str, Any]]:
        answer = self.client.list_shards(StreamName=self.stream, **more)
        return {shard["ShardId"]: shard for shard in answer["Shards"]}

    def refusal(self, operation: str, **request: Any) -> tuple[str, str]:
        """Code and message of the error that the call must end in."""
        with pytest.raises(ClientError) as caught:
            getattr(self.client, operation)(**request)
        error = caught.value.response["Error"]
        return error["Code"], error["Message"]

    def iterator_refusal(self, shard_id: str, kind: str, **more: Any) -> tuple[str, str]:
        return self.refusal(
            "get_shard_iterator",
            StreamName=self.stream,
            ShardId=shard_id,
            ShardIteratorType=kind,
            **more,
        )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kinesis(clock: ManualClock) -> LocalKinesis:
    """One stream, "orders", of two shards."""
    kinesis = LocalKinesis(clock)
    kinesis.create_stream("orders", shards=2)
    return kinesis


@pytest.fixture
def reader(kinesis: LocalKinesis) -> Reader:
    return Reader(kinesis.in_process_client(), "orders")


@pytest.fixture
def running(kinesis: LocalKinesis) -> Iterator[LocalKinesis]:
    """The same stream, answering HTTP."""
    with kinesis:
        yield kinesis
