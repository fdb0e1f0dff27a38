"""The local stream's API: who is calling what, in which state, and the way through each call.

A call goes: count, credentials, denied operations, faults, quotas, then the operation. Operations
take the request as the wire has it after JSON (`Data` as bytes, timestamps as seconds) and give
the answer in the same form, except that GetRecords gives its records as a `RecordsPage`.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from kinesis_source.clock import Clock
from kinesis_source.testing import service_error
from kinesis_source.testing.access import Access
from kinesis_source.testing.faults import FaultKind, Faults, refusal
from kinesis_source.testing.quotas import Quotas
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import Shard, Stream, TrimmedAnswer
from kinesis_source.testing.tokens import IteratorToken

Request = dict[str, Any]
Answer = dict[str, Any]


@dataclass
class Behaviour:
    """Where AWS may do one thing or another. May be changed at any time."""

    #: How long a reshard stays unseen by ListShards.
    listing_lag_ms: int = 0
    #: How long a stream is CREATING, UPDATING after a reshard, and DELETING.
    create_ms: int = 0
    reshard_ms: int = 0
    delete_ms: int = 0
    #: Records arrive up to this much before they are put, so out of order.
    arrival_jitter_ms: int = 0
    #: Whether the end of a closed shard comes with its last records or on a page of its own.
    shard_end: Literal["extra_page", "last_page"] = "extra_page"
    #: What GetShardIterator does with a trimmed sequence number (KINESIS.md, "Trimmed sequence").
    trimmed_answer: TrimmedAnswer = "horizon"


class TransportFault(Exception):
    """The answer does not arrive whole. `answer` is None if the call had no effect."""

    def __init__(self, kind: FaultKind, answer: Answer | None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.answer = answer


@dataclass(slots=True)
class Call:
    """One call being served."""

    operation: str
    request: Request
    now_ms: int
    shard_id: str | None = None
    #: What GetRecords' iterator stands for; None if it makes no sense.
    token: IteratorToken | None = None
    stream: Stream | None = None
    #: A fault that bends the answer.
    fault: FaultKind | None = None


@dataclass
class ServiceState:
    """All streams of one account in one region. Every use holds `lock`."""

    clock: Clock
    account: str
    region: str
    rng: random.Random
    behaviour: Behaviour
    quotas: Quotas | None
    lock: threading.RLock = field(default_factory=threading.RLock)
    streams: dict[str, Stream] = field(default_factory=dict)
    #: Every stream ever made, so that iterators of deleted ones are told apart.
    streams_by_uid: list[Stream] = field(default_factory=list)
    #: Listings of more than one page, for their tokens.
    listings: dict[int, list[Answer]] = field(default_factory=dict)
    calls: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    throttled: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    denied: set[str] = field(default_factory=set)
    access: Access = field(default_factory=Access)

    def __post_init__(self) -> None:
        self.faults = Faults(self.rng)

    def arn_of(self, name: str) -> str:
        return f"arn:aws:kinesis:{self.region}:{self.account}:stream/{name}"

    def stream_name(self, request: Request) -> str | None:
        """From the name or the ARN; None if the request has neither."""
        name, arn = request.get("StreamName"), request.get("StreamARN")
        if arn is None:
            return None if name is None else str(name)
        prefix, _, arn_name = str(arn).partition(":stream/")
        if not arn_name or not prefix.startswith("arn:aws"):
            raise service_error.validation(
                arn,
                "StreamARN",
                r"satisfy regular expression pattern: arn:aws.*:kinesis:.*:\d{12}:stream/\S+",
            )
        if str(arn) != self.arn_of(arn_name):
            raise service_error.stream_not_found(arn_name, prefix.rpartition(":")[2])
        if name is not None and name != arn_name:
            raise service_error.invalid_argument(
                f"StreamName {name} and StreamARN {arn} do not name the same stream."
            )
        return arn_name

    def find_stream(self, request: Request, now_ms: int) -> Stream:
        """The stream in any state."""
        name = self.stream_name(request)
        if name is None:
            raise service_error.invalid_argument(
                "Either StreamName or StreamARN must be specified."
            )
        return self.existing(name, now_ms)

    def existing(self, name: str, now_ms: int) -> Stream:
        stream = self.find(name, now_ms)
        if stream is None:
            raise service_error.stream_not_found(name, self.account)
        return stream

    def find(self, name: str, now_ms: int) -> Stream | None:
        """None if there is no such stream, or no longer."""
        stream = self.streams.get(name)
        if stream is None or stream.deleted_from_ms is None:
            return stream
        if now_ms < stream.deleted_from_ms + self.behaviour.delete_ms:
            return stream
        del self.streams[name]
        return None

    def usable_stream(self, request: Request, now_ms: int) -> Stream:
        """The stream if it can be read and written: ACTIVE or UPDATING."""
        stream = self.find_stream(request, now_ms)
        if stream.status(now_ms) not in ("ACTIVE", "UPDATING"):
            raise service_error.stream_not_found(stream.name, self.account)
        return stream

    def active_stream(self, request: Request, now_ms: int) -> Stream:
        """The stream if it can be changed."""
        stream = self.find_stream(request, now_ms)
        status = stream.status(now_ms)
        if status != "ACTIVE":
            raise service_error.stream_in_use(stream.name, self.account, status)
        return stream

    def shard(self, stream: Stream, shard_id: str, now_ms: int) -> Shard:
        shard = stream.shard(shard_id, now_ms)
        if shard is None:
            raise service_error.shard_not_found(shard_id, stream.name, self.account)
        return shard

    def take_call(
        self, call: Call, limit_name: str, scope: tuple[object, ...], error: ServiceError
    ) -> None:
        """Spend one call of `QuotaLimits.<limit_name>` within `scope`, or raise `error`."""
        if self.quotas is not None:
            limit: int = getattr(self.quotas.limits, limit_name)
            if not self.quotas.take((limit_name, *scope), limit, call.now_ms):
                self.throttled[call.operation, call.shard_id] += 1
                raise error


Operation = Callable[[ServiceState, Call], Answer]


class Service:
    """Dispatches calls to operations. Thread-safe: one lock."""

    def __init__(
        self, state: ServiceState, operations: dict[str, tuple[Operation, frozenset[str]]]
    ) -> None:
        self.state = state
        self._operations = operations

    def parameters(self, operation: str) -> frozenset[str]:
        """The names a request of this operation may carry."""
        return self._operations[operation][1]

    def call(self, operation: str, request: Request, key_id: str | None = None) -> Answer:
        """`key_id`: the access key that signed it; None where nothing is signed.

        Raises ServiceError for a refusal, TransportFault for an answer that gets lost."""
        state = self.state
        if operation not in self._operations:
            raise ServiceError("UnknownOperationException", "")
        with state.lock:
            call = Call(operation, request, state.clock.now_ms())
            self._resolve_shard(call)
            state.calls[operation, call.shard_id] += 1
            if key_id is not None:
                state.access.check(key_id, operation)
            if operation in state.denied:
                raise service_error.access_denied(operation, self._target(call), state.account)
            has_token = "NextToken" in request
            kind = state.faults.strike(operation, call.shard_id, has_token, call.now_ms)
            if kind is not None:
                self._begin_fault(call, kind)
            answer = self._operations[operation][0](state, call)
        if kind in ("truncated", "truncated_consistent"):
            raise TransportFault(kind, answer)
        return answer

    def _resolve_shard(self, call: Call) -> None:
        if call.operation == "GetRecords":
            token = IteratorToken.parse(call.request.get("ShardIterator"))
            if token is not None and token.stream_uid < len(self.state.streams_by_uid):
                stream = self.state.streams_by_uid[token.stream_uid]
                if token.issued_ms < stream.created_ms:
                    return  # of a server that ran here before
                call.stream = stream
                call.token = token
                call.shard_id = stream.shards[token.shard_index].shard_id
        elif call.operation == "GetShardIterator":
            call.shard_id = call.request.get("ShardId")

    def _begin_fault(self, call: Call, kind: FaultKind) -> None:
        if kind == "reset":
            raise TransportFault(kind, None)
        if kind == "throttle":
            self.state.throttled[call.operation, call.shard_id] += 1
        if not (kind == "throttle" and call.operation == "PutRecords"):
            error = refusal(kind, call.operation, self._target(call), self.state.account)
            if error is not None:
                raise error
        call.fault = kind

    def _target(self, call: Call) -> str:
        name = call.stream.name if call.stream else self.state.stream_name(call.request)
        stream = f"stream {name}" if name else "all streams"
        return f"shard {call.shard_id} in {stream}" if call.shard_id else stream
