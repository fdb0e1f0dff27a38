"""Faults on demand: one table of kinds, and the faults now in force.

A fault either refuses the call before anything happened, breaks its transport, or bends its
answer. What it does to a transport is up to the face: see `http_face` and `in_process`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kinesis_source.testing.service_error import ServiceError

FaultKind = Literal[
    "throttle",
    "limit_exceeded",
    "internal",
    "unavailable",
    "reset",
    "truncated",
    "truncated_consistent",
    "empty_page",
    "null_iterator",
    "expired_iterator",
    "expired_token",
    "expired_credentials",
    "access_denied",
    "kms_throttle",
    "kms_denied",
    "stale_listing",
]


class _Kind(NamedTuple):
    """`operations`: what it may strike unless the fault names one; empty for all.
    `code`, `status`, `message`: the refusal; no code for a fault that is not a refusal."""

    operations: frozenset[str] = frozenset()
    code: str = ""
    status: int = 400
    message: str = ""


_READS = frozenset({"GetRecords", "GetShardIterator"})
_PUTS = frozenset({"PutRecord", "PutRecords"})
_GET_RECORDS = frozenset({"GetRecords"})
_LISTS = frozenset({"ListShards"})
_LIMITED = frozenset(
    {
        "ListShards",
        "ListStreams",
        "DescribeStreamSummary",
        "CreateStream",
        "DeleteStream",
        "SplitShard",
        "MergeShards",
        "UpdateShardCount",
    }
)
_NOT_AUTHORIZED = "User: arn:aws:iam::{account}:user/local is not authorized to perform: "

_KINDS: dict[FaultKind, _Kind] = {
    # On PutRecords: some of the records fail with this code, not the request.
    "throttle": _Kind(
        _READS | _PUTS,
        "ProvisionedThroughputExceededException",
        400,
        "Rate exceeded for {target} under account {account}.",
    ),
    "limit_exceeded": _Kind(
        _LIMITED,
        "LimitExceededException",
        400,
        "Rate exceeded for {target} under account {account}.",
    ),
    "internal": _Kind(code="InternalFailure", status=500, message="Internal service failure"),
    "unavailable": _Kind(code="ServiceUnavailable", status=503, message="Service unavailable"),
    # The connection is closed without an answer; the call has had no effect.
    "reset": _Kind(),
    # The answer is cut short, after the call took effect: with the Content-Length of the whole
    # answer, or with that of the part that is sent.
    "truncated": _Kind(),
    "truncated_consistent": _Kind(),
    # No records, MillisBehindLatest above 0, a new iterator for the same place.
    "empty_page": _Kind(_GET_RECORDS),
    # A page without NextShardIterator and ChildShards, whatever the shard's state.
    "null_iterator": _Kind(_GET_RECORDS),
    "expired_iterator": _Kind(
        _GET_RECORDS,
        "ExpiredIteratorException",
        400,
        "Iterator expired. The iterator was created in the past which is further than the "
        "tolerated delay of 300000 milliseconds.",
    ),
    # Strikes only calls that carry a NextToken.
    "expired_token": _Kind(
        _LISTS, "ExpiredNextTokenException", 400, "The NextToken used has expired."
    ),
    "expired_credentials": _Kind(
        code="ExpiredTokenException",
        message="The security token included in the request is expired",
    ),
    "access_denied": _Kind(
        code="AccessDeniedException",
        message=_NOT_AUTHORIZED + "kinesis:{operation} on resource: {target}",
    ),
    "kms_throttle": _Kind(_GET_RECORDS | _PUTS, "KMSThrottlingException", 400, "Rate exceeded"),
    "kms_denied": _Kind(
        _GET_RECORDS | _PUTS,
        "KMSAccessDeniedException",
        400,
        _NOT_AUTHORIZED + "kms:Decrypt on the key of {target}",
    ),
    # The listing as it was before the newest reshard.
    "stale_listing": _Kind(_LISTS),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to inject.

    `operation` (an API name such as "GetRecords") and `shard_id` narrow it down; without an
    operation it strikes those that AWS gives such an answer for. It strikes a matching call
    with `probability`, and ends after `times` strikes (None: never); with `until_ms` it ends
    when the stream's clock reaches that, however often it struck.
    """

    kind: FaultKind
    operation: str | None = None
    shard_id: str | None = None
    times: int | None = 1
    probability: float = 1.0
    until_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(sorted(_KINDS))}")

    def matches(self, operation: str, shard_id: str | None, has_token: bool) -> bool:
        operations = _KINDS[self.kind].operations
        if self.operation is not None:
            if operation != self.operation:
                return False
        elif operations and operation not in operations:
            return False
        if self.kind == "expired_token" and not has_token:
            return False
        return self.shard_id is None or self.shard_id == shard_id


class _Active:
    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.left = None if fault.until_ms is not None else fault.times


class Faults:
    """The faults in force. Not thread-safe."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._active: list[_Active] = []

    def inject(self, fault: Fault) -> None:
        self._active.append(_Active(fault))

    def clear(self) -> None:
        self._active.clear()

    def strike(
        self, operation: str, shard_id: str | None, has_token: bool, now_ms: int
    ) -> FaultKind | None:
        """The kind of the first fault that strikes this call."""
        if not self._active:
            return None
        self._active = [
            active
            for active in self._active
            if active.fault.until_ms is None or now_ms < active.fault.until_ms
        ]
        for active in self._active:
            fault = active.fault
            if not fault.matches(operation, shard_id, has_token):
                continue
            if fault.probability < 1 and self._rng.random() >= fault.probability:
                continue
            if active.left is not None:
                active.left -= 1
                if active.left <= 0:
                    self._active.remove(active)
            return fault.kind
        return None


def refusal(kind: FaultKind, operation: str, target: str, account: str) -> ServiceError | None:
    """The error answer of this kind; None if the kind is not a refusal."""
    row = _KINDS[kind]
    if not row.code:
        return None
    message = row.message.format(operation=operation, target=target, account=account)
    return ServiceError(row.code, message, row.status)
