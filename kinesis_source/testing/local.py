"""`LocalKinesis`: the local stream as tests and demos use it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Any, Literal, NamedTuple

from kinesis_source.clock import Clock, SystemClock
from kinesis_source.core.hashkeys import HashKeyRange, hash_key_of
from kinesis_source.testing import control, service_error, writing
from kinesis_source.testing.faults import Fault
from kinesis_source.testing.http_face import HttpFace
from kinesis_source.testing.in_process import InProcessClient
from kinesis_source.testing.operations import OPERATIONS
from kinesis_source.testing.quotas import QuotaLimits, Quotas
from kinesis_source.testing.service import Behaviour, Service, ServiceState
from kinesis_source.testing.stream import Record, Shard, Stream, TrimmedAnswer

#: Not secrets: the local stream takes any credentials unless it is told otherwise.
ACCESS_KEY_ID = "AKIALOCALKINESIS"
SECRET_KEY = "local-kinesis"


class PutResult(NamedTuple):
    """Where a record went."""

    shard_id: str
    sequence_number: int


@dataclass(frozen=True, slots=True)
class LedgerShard:
    """The truth about one shard: everything it ever accepted, trimmed or not."""

    shard_id: str
    #: The split parent, or the merged pair with ParentShardId first.
    parents: tuple[str, ...]
    hash_range: HashKeyRange
    created_ms: int
    #: None while open.
    closed_ms: int | None
    records: tuple[Record, ...]
    #: How many of `records`, from the front, can no longer be read.
    trimmed: int
    #: The service says it does not exist.
    expired: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """The truth about one stream, by shard ID in order of creation."""

    stream_name: str
    stream_arn: str
    created_ms: int
    shards: dict[str, LedgerShard]

    @property
    def records(self) -> list[Record]:
        """All records ever accepted, shard after shard."""
        return list(chain.from_iterable(shard.records for shard in self.shards.values()))


class LocalKinesis:
    """An in-memory Kinesis with the refusals of the real one, for one account and region.

    As a context manager it also answers HTTP on 127.0.0.1; `in_process_client` needs no `with`.
    Everything random comes from `seed`; all time from `clock` (default: the machine's).
    Convenience methods act at once, whatever quotas and faults are set, and raise
    `ServiceError` where the service would refuse. `behaviour` may be changed at any time.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        quotas: bool | QuotaLimits = False,
        seed: int = 0,
        account: str = "123456789012",
        region: str = "us-east-1",
        listing_lag_ms: int = 0,
        create_ms: int = 0,
        reshard_ms: int = 0,
        delete_ms: int = 0,
        arrival_jitter_ms: int = 0,
        shard_end: Literal["extra_page", "last_page"] = "extra_page",
        trimmed_answer: TrimmedAnswer = "horizon",
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        limits = QuotaLimits() if quotas is True else quotas
        self.behaviour = Behaviour(
            listing_lag_ms,
            create_ms,
            reshard_ms,
            delete_ms,
            arrival_jitter_ms,
            shard_end,
            trimmed_answer,
        )
        self._state = ServiceState(
            clock or SystemClock(),
            account,
            region,
            random.Random(seed),
            self.behaviour,
            Quotas(limits) if limits else None,
        )
        self._service = Service(self._state, OPERATIONS)
        self._address = (host, port)
        self._face: HttpFace | None = None

    # The two faces

    def __enter__(self) -> LocalKinesis:
        self._face = HttpFace(self._service, self._address)
        self._face.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._face is not None:
            self._face.stop()
            self._face = None

    @property
    def endpoint_url(self) -> str:
        if self._face is None:
            raise RuntimeError("LocalKinesis answers HTTP only inside `with LocalKinesis() as …`")
        return self._face.url

    def client(self, **settings: Any) -> Any:
        """A boto3 client that talks HTTP to this stream; `settings` go to `boto3.client`."""
        import boto3

        settings = {
            "region_name": self._state.region,
            "endpoint_url": self.endpoint_url,
            "aws_access_key_id": ACCESS_KEY_ID,
            "aws_secret_access_key": SECRET_KEY,
            **settings,
        }
        return boto3.client("kinesis", **settings)

    def in_process_client(self) -> InProcessClient:
        return InProcessClient(self._service)

    def spark_options(self, stream: str) -> dict[str, str]:
        """Options with which the connector reads this stream."""
        return {
            "streamName": stream,
            "region": self._state.region,
            "endpointUrl": self.endpoint_url,
            "awsAccessKeyId": ACCESS_KEY_ID,
            "awsSecretKey": SECRET_KEY,
        }

    # Streams and shards

    def create_stream(
        self,
        name: str,
        shards: int = 1,
        *,
        retention_hours: int = 24,
        max_record_kib: int = 1024,
        sequence_digits: Literal[55, 56] = 56,
        trimmed_answer: TrimmedAnswer | None = None,
        null_keys: bool = False,
    ) -> None:
        """`sequence_digits=55` makes numbers grow from 55 to 56 digits within each first shard.
        `trimmed_answer` goes before that of `behaviour`; `null_keys` lets PutRecord omit keys."""
        with self._state.lock:
            stream = control.add_stream(
                self._state,
                name,
                shards,
                max_record_kib=max_record_kib,
                null_keys=null_keys,
                sequence_digits=sequence_digits,
                trimmed_answer=trimmed_answer,
            )
            stream.retention_hours = retention_hours

    def delete_stream(self, name: str) -> None:
        with self._stream(name) as (stream, now_ms):
            stream.deleted_from_ms = now_ms

    def set_status(self, name: str, status: str | None) -> None:
        """Hold the stream in a status such as "UPDATING"; None lets it go."""
        with self._stream(name) as (stream, _):
            stream.forced_status = status

    def set_retention_hours(self, name: str, hours: int) -> None:
        """Any number of hours; the API itself allows 24 to 8760."""
        with self._stream(name) as (stream, now_ms):
            stream.change_retention(hours, now_ms)

    def split(self, name: str, shard_id: str, at: int | None = None) -> tuple[str, str]:
        """The children's IDs; `at` is the second one's first hash key, by default the middle."""
        with self._stream(name) as (stream, now_ms):
            shard = self._state.shard(stream, shard_id, now_ms)
            middle = (shard.hash_range.start + shard.hash_range.end + 1) // 2
            children = control.split(
                self._state, stream, shard, middle if at is None else at, now_ms
            )
            return children[0].shard_id, children[1].shard_id

    def merge(self, name: str, first_id: str, second_id: str) -> str:
        """The child's ID. `second_id` must follow `first_id` in the hash-key space."""
        with self._stream(name) as (stream, now_ms):
            first = self._state.shard(stream, first_id, now_ms)
            second = self._state.shard(stream, second_id, now_ms)
            return control.merge(self._state, stream, first, second, now_ms).shard_id

    def open_shards(self, name: str) -> list[str]:
        """IDs in order of their hash keys."""
        with self._stream(name) as (stream, _):
            return [shard.shard_id for shard in stream.open]

    def shards(self, name: str) -> list[str]:
        """IDs of all shards ever, expired ones too, in order of creation."""
        with self._stream(name) as (stream, _):
            return [shard.shard_id for shard in stream.shards]

    def ledger(self, name: str) -> Ledger:
        """Of the newest stream of that name, also after it was deleted."""
        with self._state.lock:
            named = [stream for stream in self._state.streams_by_uid if stream.name == name]
            if not named:
                raise service_error.stream_not_found(name, self._state.account)
            stream, now_ms = named[-1], self._state.clock.now_ms()
            shards = {
                shard.shard_id: _ledger_shard(stream, shard, now_ms) for shard in stream.shards
            }
            return Ledger(name, stream.arn, stream.created_ms, shards)

    # Records

    def put(
        self,
        name: str,
        data: bytes,
        partition_key: str | None,
        *,
        explicit_hash_key: int | None = None,
        arrival_ms: int | None = None,
    ) -> PutResult:
        """Accept a record into the shard of its key (any open shard if it has none).

        `arrival_ms` sets its arrival time, past or future, without the jitter.
        """
        with self._stream(name) as (stream, now_ms):
            if explicit_hash_key is not None:
                shard = stream.shard_for(explicit_hash_key)
            elif partition_key is not None:
                shard = stream.shard_for(hash_key_of(partition_key))
            else:
                shard = stream.any_open_shard()
            return self._append(stream, shard, data, partition_key, now_ms, arrival_ms)

    def put_to_shard(
        self,
        name: str,
        shard_id: str,
        data: bytes,
        partition_key: str | None = None,
        *,
        arrival_ms: int | None = None,
    ) -> PutResult:
        """Accept a record into this open shard, whatever its key."""
        with self._stream(name) as (stream, now_ms):
            shard = self._state.shard(stream, shard_id, now_ms)
            if shard.closed_ms is not None:
                raise ValueError(f"{shard_id} is closed")
            return self._append(stream, shard, data, partition_key, now_ms, arrival_ms)

    def _append(
        self,
        stream: Stream,
        shard: Shard,
        data: bytes,
        partition_key: str | None,
        now_ms: int,
        arrival_ms: int | None,
    ) -> PutResult:
        writing.check_size(stream, data, partition_key)
        if arrival_ms is None:
            record = writing.append(self._state, stream, shard, data, partition_key, now_ms)
        else:
            record = stream.put(shard, data, partition_key, arrival_ms)
        return PutResult(record.shard_id, record.sequence_number)

    # Faults and counters

    @property
    def calls(self) -> Counter[tuple[str, str | None]]:
        """Calls by (operation, shard ID); the shard is None except for GetShardIterator and
        GetRecords. Throttled, refused and lost calls count. Live: copy it to compare."""
        return self._state.calls

    @property
    def throttled(self) -> Counter[tuple[str, str | None]]:
        """Those of `calls` that exceeded a quota or met a "throttle" fault."""
        return self._state.throttled

    def inject(self, fault: Fault) -> None:
        with self._state.lock:
            self._state.faults.inject(fault)

    def clear_faults(self) -> None:
        """End injected faults, denials, hidden shards and empty pages."""
        with self._state.lock:
            self._state.faults.clear()
            self._state.denied.clear()
            for stream in self._state.streams.values():
                stream.hidden.clear()
                stream.looks_open.clear()
                stream.empty_pages.clear()
                stream.empty_pages_each.clear()

    def deny(self, operation: str) -> None:
        """Answer AccessDenied to every call of this operation (such as "GetRecords")."""
        with self._state.lock:
            self._state.denied.add(operation)

    def allow(self, operation: str) -> None:
        with self._state.lock:
            self._state.denied.discard(operation)

    @property
    def callers(self) -> Counter[tuple[str, str]]:
        """Calls over HTTP by (access key id, operation), refused ones too. Live: copy it to
        compare."""
        return self._state.access.callers

    def accept_only(self, *key_ids: str) -> None:
        """From now on refuse calls over HTTP that another access key has signed, as AWS refuses a
        key that it does not know; without `key_ids`, all. Those given are no longer expired."""
        with self._state.lock:
            self._state.access.accept_only(key_ids)

    def expire(self, *key_ids: str) -> None:
        """From now on answer that the session of these access keys has expired."""
        with self._state.lock:
            self._state.access.expire(key_ids)

    def accept_any(self) -> None:
        """Take calls whatever key has signed them, as at first."""
        with self._state.lock:
            self._state.access.accept_any()

    def hide(self, name: str, shard_id: str, listings: int = 1) -> None:
        """Leave the shard out of the next listings (all pages of one count as one)."""
        with self._stream(name) as (stream, _):
            stream.hidden[shard_id] = listings

    def look_open(self, name: str, shard_id: str, listings: int = 1) -> None:
        """Show the shard without EndingSequenceNumber in the next listings after it closed."""
        with self._stream(name) as (stream, _):
            stream.looks_open[shard_id] = listings

    def empty_pages(
        self, name: str, shard_id: str, pages: int, *, each_iterator: bool = False
    ) -> None:
        """Put empty pages, with MillisBehindLatest above 0, before the first record that an
        iterator opened at a position (not LATEST) would return: the next `pages` in all, or,
        with `each_iterator`, as many for each such iterator that does not name a record."""
        with self._stream(name) as (stream, _):
            (stream.empty_pages_each if each_iterator else stream.empty_pages)[shard_id] = pages

    @contextmanager
    def _stream(self, name: str) -> Iterator[tuple[Stream, int]]:
        """The existing stream and the time, under the lock."""
        with self._state.lock:
            now_ms = self._state.clock.now_ms()
            yield self._state.existing(name, now_ms), now_ms


def _ledger_shard(stream: Stream, shard: Shard, now_ms: int) -> LedgerShard:
    expired = stream.trim(shard, now_ms)
    return LedgerShard(
        shard.shard_id,
        tuple(parent.shard_id for parent in shard.parents),
        shard.hash_range,
        shard.created_ms,
        shard.closed_ms,
        tuple(shard.records),
        shard.horizon,
        expired,
    )
