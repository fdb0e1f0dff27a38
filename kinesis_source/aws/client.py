"""The four Kinesis calls that the connector makes, each as one method.

`KinesisClient` names the stream, maps errors to `kinesis_source.errors`, refuses incomplete
answers, keeps the estimate of the service's clock and counts calls. It decides nothing and never
waits; what the SDK retries within one call is set in `session`.

Runs on the driver and on executors; thread-safe, not picklable.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from kinesis_source.aws.decode import Record, to_ms, to_records
from kinesis_source.aws.patience import CredentialsPatience
from kinesis_source.aws.service_clock import ServiceClock
from kinesis_source.aws.service_errors import CALL_FAILURES, Call, incomplete_answer, translate
from kinesis_source.clock import Clock
from kinesis_source.core.hashkeys import HashKeyRange
from kinesis_source.core.shards import Shard, StreamIdentity, StreamSummary
from kinesis_source.errors import AccessDeniedError, CredentialsError, TransientServiceError

#: How often a listing is begun again when its paging token expires (300 s) before it is done.
_LISTING_ATTEMPTS = 3
_MS_PER_HOUR = 3_600_000
#: Credentials that are refused are looked for anew so often at most.
_RENEWAL_PERIOD_S = 5.0


@dataclass(frozen=True, slots=True)
class StreamRef:
    """How calls name the stream. `arn` only if the user gave one: with it the SDK calls another
    host, `<account>.data-kinesis.<region>`, which VPC endpoints and firewalls may not know."""

    name: str
    arn: str | None = None

    @property
    def request_params(self) -> dict[str, str]:
        return {"StreamARN": self.arn} if self.arn is not None else {"StreamName": self.name}


@dataclass(frozen=True, slots=True)
class IteratorStart:
    """Where a new shard iterator begins: `shard_iterator_type` as the API calls it, with the value
    that its type needs. Made by its static methods, one for each type."""

    shard_iterator_type: str
    sequence_number: int | None = None
    timestamp_ms: int | None = None

    @staticmethod
    def at_sequence_number(sequence_number: int) -> IteratorStart:
        """Before the record of this number."""
        return IteratorStart("AT_SEQUENCE_NUMBER", sequence_number=sequence_number)

    @staticmethod
    def after_sequence_number(sequence_number: int) -> IteratorStart:
        return IteratorStart("AFTER_SEQUENCE_NUMBER", sequence_number=sequence_number)

    @staticmethod
    def at_timestamp(timestamp_ms: int) -> IteratorStart:
        """Before the first record that arrived at or after the time; refused for a future one."""
        return IteratorStart("AT_TIMESTAMP", timestamp_ms=timestamp_ms)

    @staticmethod
    def trim_horizon() -> IteratorStart:
        return IteratorStart("TRIM_HORIZON")

    @staticmethod
    def latest() -> IteratorStart:
        """After the newest record; on a closed shard at its end."""
        return IteratorStart("LATEST")

    @property
    def request_params(self) -> dict[str, str | float]:
        params: dict[str, str | float] = {"ShardIteratorType": self.shard_iterator_type}
        if self.sequence_number is not None:
            params["StartingSequenceNumber"] = str(self.sequence_number)
        if self.timestamp_ms is not None:
            params["Timestamp"] = self.timestamp_ms / 1000
        return params


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """One complete GetRecords answer.

    `next_iterator` None and `has_child_shards` together mean the end of the shard; the first alone
    is one odd answer. Only `millis_behind` 0 is the tip: a page may be empty long before it.
    """

    records: list[Record]
    next_iterator: str | None
    millis_behind: int
    has_child_shards: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of data, keys not counted."""
        return sum(len(record.Data) for record in self.records)


@dataclass(frozen=True, slots=True)
class CallCounts:
    """`calls`: requests by operation, the SDK's own repeats included. `throttles`: the answers
    that refused for rate and were not mended by such a repeat."""

    calls: dict[str, int] = field(default_factory=dict)
    throttles: int = 0


class CallCounters:
    """Calls since the last `take`; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._throttles = 0
        #: Ever; `take` does not touch it.
        self.total_throttles = 0

    def add(self, operation: str, requests: int, throttled: bool) -> None:
        with self._lock:
            self._calls[operation] += requests
            self._throttles += throttled
            self.total_throttles += throttled

    def take(self) -> CallCounts:
        """The counts so far; they start again from zero."""
        with self._lock:
            counts = CallCounts(dict(self._calls), self._throttles)
            self._calls.clear()
            self._throttles = 0
            return counts


class _ExpiredListingToken(Exception):
    """The paging token of ListShards has expired: the listing must begin again."""


class KinesisClient:
    """All calls raise `ServiceError`, `AccessDeniedError` or `CredentialsError`, nothing of the
    SDK's."""

    def __init__(
        self,
        boto_client: Any | None,
        stream: StreamRef,
        clock: Clock,
        role: str | None = None,
        renew: Callable[[], Any] | None = None,
        patience: CredentialsPatience | None = None,
    ) -> None:
        """`boto_client`: a Kinesis client of boto3, or `LocalKinesis.in_process_client()`; None has
        the first call make it by `renew`. `role`: `driver` or `executor`, for messages. `renew`:
        makes a client that reads its credentials anew, for keys in files that somebody rotates.
        `patience`: with credentials that do not work; None has none."""
        self.stream = stream
        self.service_clock = ServiceClock(clock)
        self.counters = CallCounters()
        self._boto_client = boto_client
        self._renew = renew
        self._renewal = threading.Lock()
        self._next_renewal = clock.monotonic()
        self._refusal: CredentialsError | AccessDeniedError | None = None
        self._patience = patience
        self._clock = clock
        self._role = role
        #: For messages; known with the first DescribeStreamSummary, if not before.
        self.stream_arn = stream.arn

    def close(self) -> None:
        """Close the SDK's client and its connections; idempotent."""
        if self._boto_client is not None:
            self._boto_client.close()

    def describe_stream_summary(self) -> StreamSummary:
        call = self._named("DescribeStreamSummary")
        params = self.stream.request_params
        answer = self._answer(call, "describe_stream_summary", params)
        summary = _member(call, answer, "StreamDescriptionSummary")
        self.stream_arn = _member(call, summary, "StreamARN")
        return StreamSummary(
            identity=StreamIdentity(
                arn=_member(call, summary, "StreamARN"),
                created_ms=to_ms(_member(call, summary, "StreamCreationTimestamp")),
            ),
            name=_member(call, summary, "StreamName"),
            status=_member(call, summary, "StreamStatus"),
            retention_ms=_member(call, summary, "RetentionPeriodHours") * _MS_PER_HOUR,
        )

    def list_shards(self, open_at_ms: int | None = None) -> dict[str, Shard]:
        """The full listing by shard id, or only the shards that were open at a time.

        Never a part: a listing that cannot be paged to its end raises `TransientServiceError`.
        """
        first: dict[str, Any] = dict(self.stream.request_params)
        if open_at_ms is not None:
            first["ShardFilter"] = {"Type": "AT_TIMESTAMP", "Timestamp": open_at_ms / 1000}
        for _ in range(_LISTING_ATTEMPTS):
            try:
                return self._list_all_pages(first)
            except _ExpiredListingToken:
                continue
        raise TransientServiceError(
            f"ListShards (stream {self.stream.name}): the paging token expired "
            f"{_LISTING_ATTEMPTS} times before the listing was complete",
            operation="ListShards",
        )

    def _list_all_pages(self, params: dict[str, Any]) -> dict[str, Shard]:
        call = self._named("ListShards")
        shards: dict[str, Shard] = {}
        while True:
            answer = self._answer(call, "list_shards", params)
            for entry in _member(call, answer, "Shards"):
                shard = _to_shard(call, entry)
                shards[shard.shard_id] = shard
            if not answer.get("NextToken"):
                return shards
            # Alone: with it the service refuses the stream's name (the SDK's paginator sends both).
            params = {"NextToken": answer["NextToken"]}

    def get_shard_iterator(self, shard_id: str, start: IteratorStart) -> str:
        """A shard iterator; it lives for five minutes."""
        call = self._named("GetShardIterator", shard_id)
        params = {**self.stream.request_params, "ShardId": shard_id, **start.request_params}
        answer = self._answer(call, "get_shard_iterator", params)
        iterator: str = _member(call, answer, "ShardIterator")
        return iterator

    def get_records(self, shard_id: str, iterator: str, limit: int) -> RecordsPage:
        """One page of at most `limit` (1 … 10,000) records. `shard_id`: for messages only, the
        iterator says which shard is read."""
        call = self._named("GetRecords", shard_id)
        params: dict[str, Any] = {"ShardIterator": iterator, "Limit": limit}
        if self.stream.arn is not None:
            params["StreamARN"] = self.stream.arn
        answer = self._answer(call, "get_records", params)
        return RecordsPage(
            records=to_records(_member(call, answer, "Records")),
            next_iterator=answer.get("NextShardIterator"),
            millis_behind=_member(call, answer, "MillisBehindLatest"),
            has_child_shards=bool(answer.get("ChildShards")),
        )

    def _named(self, operation: str, shard_id: str | None = None) -> Call:
        return Call(operation, self.stream.name, shard_id, self._role, self._resource)

    @property
    def _resource(self) -> str:
        """The stream's ARN, as far as it is known."""
        meta = getattr(self._boto_client, "meta", None)
        if self.stream_arn is not None or meta is None:
            return self.stream_arn or "the stream"
        return (
            f"arn:{meta.partition}:kinesis:{meta.region_name}:<account>:stream/{self.stream.name}"
        )

    def _answer(self, call: Call, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One call of the SDK. Credentials that do not work raise `TransientServiceError` for as
        long as there is patience with them."""
        try:
            answer = self._answer_renewing(call, method, params)
        except CredentialsError as error:
            if self._patience is None:
                raise
            raise self._patience.judge(error, call) from None
        if self._patience is not None:
            self._patience.answered()
        return answer

    def _answer_renewing(self, call: Call, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One call of the SDK, again with new credentials if those that it has are refused."""
        used = self._boto_client
        if used is None:
            used = self._renewed(None)
        try:
            return self._answer_of(used, call, method, params)
        except (CredentialsError, AccessDeniedError) as error:
            # What an executor has kept from task to task may have been revoked.
            may_be_mended = isinstance(error, CredentialsError) or self._role == "executor"
            if self._renew is None or not may_be_mended:
                raise
            self._refusal = error
        return self._answer_of(self._renewed(used), call, method, params)

    def _renewed(self, refused: Any | None) -> Any:
        """A client in place of `refused`: the one that another thread has made since, or a new one.

        Raises the last refusal where one was made just now, in vain."""
        assert self._renew is not None
        with self._renewal:
            if self._boto_client is refused:
                now = self._clock.monotonic()
                if now < self._next_renewal and self._refusal is not None:
                    raise self._refusal
                if refused is not None:
                    self._next_renewal = now + _RENEWAL_PERIOD_S
                try:
                    self._boto_client = self._renew()
                except CredentialsError as error:
                    self._next_renewal = now + _RENEWAL_PERIOD_S
                    self._refusal = error
                    raise
            return self._boto_client

    def _answer_of(
        self, boto_client: Any, call: Call, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """One call of the SDK; its Date header and its errors taken in."""
        try:
            answer: dict[str, Any] = getattr(boto_client, method)(**params)
        except CALL_FAILURES as error:
            requests = 1
            if isinstance(error, ClientError):
                requests = self._take_in(error.response)
                code = error.response.get("Error", {}).get("Code")
                if code == "ExpiredNextTokenException" and "NextToken" in params:
                    self.counters.add(call.operation, requests, throttled=False)
                    raise _ExpiredListingToken from None
            translated = translate(error, call, self._clock.now_ms())
            throttled = isinstance(translated, TransientServiceError) and translated.throttled
            self.counters.add(call.operation, requests, throttled)
            # `from None`: the SDK's errors hold the request, headers included.
            raise translated from None
        self.counters.add(call.operation, self._take_in(answer), throttled=False)
        return answer

    def _take_in(self, answer: Mapping[str, Any]) -> int:
        """Feed the service's clock; how many requests the SDK made for the answer."""
        metadata = answer.get("ResponseMetadata", {})
        date = metadata.get("HTTPHeaders", {}).get("date")
        if date is not None:
            self.service_clock.observe(date)
        return 1 + int(metadata.get("RetryAttempts", 0))


def _member(call: Call, answer: Mapping[str, Any], name: str) -> Any:
    value = answer.get(name)
    if value is None:
        raise incomplete_answer(call, name)
    return value


def _to_shard(call: Call, entry: Mapping[str, Any]) -> Shard:
    keys = _member(call, entry, "HashKeyRange")
    sequence_numbers = _member(call, entry, "SequenceNumberRange")
    return Shard(
        shard_id=_member(call, entry, "ShardId"),
        hash_keys=HashKeyRange(
            int(_member(call, keys, "StartingHashKey")), int(_member(call, keys, "EndingHashKey"))
        ),
        parent_id=entry.get("ParentShardId"),
        adjacent_parent_id=entry.get("AdjacentParentShardId"),
        closed=sequence_numbers.get("EndingSequenceNumber") is not None,
    )
