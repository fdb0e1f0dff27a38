"""The connector's data source, talking to a `LocalKinesis` of this process instead of a network.

The simulated engine pickles everything, so a local stream cannot travel inside: the option
`endpointUrl` names it, and each "process" finds it again in a table of this module.
"""

from __future__ import annotations

import itertools

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.session import Connection, ProcessRole
from kinesis_source.clock import Clock
from kinesis_source.options import Options
from kinesis_source.spark.source import KinesisDataSource
from kinesis_source.testing import LocalKinesis

_STREAMS: dict[str, tuple[LocalKinesis, Clock]] = {}
_numbers = itertools.count()


def register(kinesis: LocalKinesis, clock: Clock) -> str:
    """Make the stream reachable; the URL for the option `endpointUrl`. End it by `unregister`."""
    url = f"http://history-{next(_numbers)}.invalid"
    _STREAMS[url] = (kinesis, clock)
    return url


def unregister(url: str) -> None:
    del _STREAMS[url]


def connect_in_process(
    options: Options, role: ProcessRole, region: str | None = None, threads: int = 1
) -> Connection:
    """As `kinesis_source.aws.session.connect`, over the in-process client and on the history's
    clock. One thread whatever `threads` says: calls come in order, so that a seed gives the same
    history down to the last call."""
    kinesis, clock = _STREAMS[str(options.endpoint_url)]
    stream = StreamRef(options.stream_name, options.stream_arn)
    return Connection(KinesisClient(kinesis.in_process_client(), stream, clock, role), clock)


class InProcessDataSource(KinesisDataSource):
    """What the engine drives; only the way to the service differs from the product."""

    connect = staticmethod(connect_in_process)
