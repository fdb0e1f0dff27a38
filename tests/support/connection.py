"""The connector's data source, talking to a `LocalKinesis` of this process instead of a network.

The simulated engine pickles everything, so a local stream cannot travel inside: the option
`endpointUrl` names it, and each "process" finds it again in a table of this module.
"""

from __future__ import annotations

import itertools
from typing import Any

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.session import Connection, ProcessRole
from kinesis_source.clock import Clock
from kinesis_source.options import Options
from kinesis_source.spark.source import KinesisDataSource
from kinesis_source.testing import LocalKinesis

_STREAMS: dict[str, tuple[Any, Clock]] = {}
_numbers = itertools.count()


class _SilentAboutChildren:
    """A client whose service ends shards without ChildShards, as kinesalite does."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_records(self, **request: Any) -> Any:
        answer = self._client.get_records(**request)
        answer.pop("ChildShards", None)
        return answer


def register(kinesis: LocalKinesis, clock: Clock, *, child_shards: bool = True) -> str:
    """Make the stream reachable; the URL for the option `endpointUrl`. End it by `unregister`.

    `child_shards`: whether GetRecords names the children at the end of a shard.
    """
    url = f"http://history-{next(_numbers)}.invalid"
    client = kinesis.in_process_client()
    _STREAMS[url] = (client if child_shards else _SilentAboutChildren(client), clock)
    return url


def unregister(url: str) -> None:
    del _STREAMS[url]


def connect_in_process(
    options: Options, role: ProcessRole, region: str | None = None, threads: int = 1
) -> Connection:
    """As `kinesis_source.aws.session.connect`, over the in-process client and on the history's
    clock. One thread whatever `threads` says: calls come in order, so that a seed gives the same
    history down to the last call."""
    client, clock = _STREAMS[str(options.endpoint_url)]
    stream = StreamRef(options.stream_name, options.stream_arn)
    return Connection(KinesisClient(client, stream, clock, role), clock)


class InProcessDataSource(KinesisDataSource):
    """What the engine drives; only the way to the service differs from the product."""

    connect = staticmethod(connect_in_process)
