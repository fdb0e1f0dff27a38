"""Is this still the stream that the offset speaks of, and how far back do its records go?"""

from __future__ import annotations

from kinesis_source.aws.client import KinesisClient
from kinesis_source.core.shards import StreamIdentity, StreamSummary
from kinesis_source.core.times import format_ms
from kinesis_source.errors import (
    ResourceNotFoundError,
    StreamNotFoundError,
    StreamNotReadyError,
    StreamRecreatedError,
)

_READABLE = frozenset({"ACTIVE", "UPDATING"})

#: The service's clock may be a second ahead of its estimate; the rest is for the reading on.
_TOLD_AHEAD_MS = 10_000


class StreamGuard:
    """Asks DescribeStreamSummary (20 calls a second for a whole account) when there is a doubt.

    Before anything is concluded from a refusal, `check` rules out that the stream was deleted or
    made again, and brings the retention period and the service's time up to date.
    """

    def __init__(
        self,
        client: KinesisClient,
        identity: StreamIdentity | None = None,
        retention_ms: int | None = None,
    ) -> None:
        """`identity`: the stream of the offset; None takes the first answer's."""
        self._client = client
        if identity is not None:
            client.stream_arn = identity.arn  # for messages
        self.identity = identity
        self.retention_ms = retention_ms

    def check(self) -> StreamSummary:
        """Raises `StreamNotFoundError`, `StreamNotReadyError` or `StreamRecreatedError`, and what
        `KinesisClient` raises."""
        name = self._client.stream.name
        try:
            summary = self._client.describe_stream_summary()
        except ResourceNotFoundError as error:
            raise StreamNotFoundError(
                f"stream {name!r} was not found ({error}). Expected an existing stream: check "
                "streamName or streamARN, region, endpointUrl, and whose account the credentials "
                "belong to"
            ) from None
        if summary.status not in _READABLE:
            raise StreamNotReadyError(
                f"stream {name!r} has the status {summary.status}; expected ACTIVE. "
                "Start the query once the stream is active"
            )
        if self.identity is None:
            self.identity = summary.identity
        elif summary.identity != self.identity:
            raise StreamRecreatedError(_recreated(name, self.identity, summary.identity))
        self.retention_ms = summary.retention_ms
        return summary

    @property
    def horizon_ms(self) -> int | None:
        """Records that arrived before it may have been trimmed; never later than the service's own
        horizon. None until the service has answered."""
        now_ms = self._client.service_clock.now_ms()
        if now_ms is None or self.retention_ms is None:
            return None
        return now_ms - self.retention_ms

    @property
    def told_until_ms(self) -> int | None:
        """The end of the span that a report of loss names: never before the service's horizon, and
        with what goes in the next seconds, so that one loss is not reported twice."""
        horizon_ms = self.horizon_ms
        return horizon_ms + _TOLD_AHEAD_MS if horizon_ms is not None else None


def _recreated(name: str, expected: StreamIdentity, found: StreamIdentity) -> str:
    if found.arn != expected.arn:
        return (
            f"the Spark checkpoint belongs to stream {expected.arn}, but the options name "
            f"{found.arn}. Expected the checkpoint of that stream: give the query its own "
            "checkpointLocation, or the stream that the checkpoint belongs to"
        )
    return (
        f"the Spark checkpoint belongs to stream {expected.arn} created "
        f"{format_ms(expected.created_ms)}, but {name!r} now is one created "
        f"{format_ms(found.created_ms)}: a stream deleted and made again is another stream, and "
        "what was not read of the old one is gone. To read the new one, start the query with a new "
        "checkpointLocation and startingPosition=TRIM_HORIZON"
    )
