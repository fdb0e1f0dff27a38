"""Reads one shard range, exactly: the same records however often and wherever it is read.

It stops past the end record, or for SHARD_END at the end of the shard. Should the tip come first,
the range is looked at again with a fresh iterator, and only if the oldest record left lies past the
end is it data loss. Throttles, outages and expired iterators are waited out here, since Spark
gives a task one attempt in `local[*]`.
"""

from __future__ import annotations

import logging
import socket
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from kinesis_source.aws.client import IteratorStart
from kinesis_source.aws.cursor import ShardCursor
from kinesis_source.aws.decode import Record
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.loss import Loss
from kinesis_source.core.positions import AfterSequenceNumber
from kinesis_source.core.probes import Reached
from kinesis_source.core.ranges import ShardRange
from kinesis_source.errors import (
    ConfigurationError,
    ExpiredIteratorError,
    KinesisSourceError,
    ResourceNotFoundError,
    ServiceError,
    TransientServiceError,
)

logger = logging.getLogger(__name__)

#: The most that GetRecords returns.
PAGE_LIMIT = 10_000
#: The service allows five GetRecords a second and shard; the planner needs one of them.
_CALL_PERIOD_S = 0.25
#: Between two looks at something that should come and does not.
_LOOK_PERIOD_S = 1.0
#: Looks at a range whose end does not come though older records are there, before giving up.
_LOOKS = 120
#: Answers without records that are neither tip nor end, before they are believed.
_ODD_ANSWERS = 3
#: How much slower than the quota a shard is read.
_RATE_MARGIN = 1.03
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.5, 10.0
#: A throttled one not so long: beside a reader that takes all, what is left comes in short gaps.
_LONGEST_THROTTLE_S = 2.0
#: A wait shorter than this is not worth a warning; a longer one is worth one a minute.
_PATIENCE_S = 5.0
_WARNING_PERIOD_S = 60.0
#: The first bytes of a record that holds several, as the Kinesis Producer Library aggregates them.
_AGGREGATED = b"\xf3\x89\x9a\xc2"
#: One worker may be cut off while the others read.
_HOST = socket.gethostname()

Result = TypeVar("Result")


class ReadCancelledError(Exception):
    """The task is over; never leaves `reading`."""


class ShardReader:
    """One range; used once, by one thread."""

    def __init__(
        self,
        connection: Connection,
        guard: StreamGuard,
        shard_range: ShardRange,
        max_bytes_per_s: int,
        on_loss: Callable[[Loss], None],
        is_cancelled: Callable[[], bool] = lambda: False,
        cut_off_s: float | None = None,
    ) -> None:
        """`on_loss` raises, or returns to go on with what is left. `is_cancelled`: nobody wants the
        records any more; `read` then raises `ReadCancelledError`. `cut_off_s`: how long to wait
        while nothing answers at all; None waits for ever."""
        self.shard_range = shard_range
        self._client = connection.client
        self._clock = connection.clock
        self._guard = guard
        self._max_bytes_per_s = max_bytes_per_s
        self._on_loss = on_loss
        self._is_cancelled = is_cancelled
        self._cut_off_s = cut_off_s
        self._shard_id = shard_range.shard_id
        self._read = shard_range.start
        self._cursor = self._new_cursor(shard_range.first_record)
        self._next_call = self._clock.monotonic()
        self._warned_of_aggregates = False

    def read(self) -> Iterator[list[Record]]:
        """The range's records in order, a page at a time; no list is empty.

        Raises `DataLossError` if `on_loss` does, `AccessDeniedError`, `CredentialsError`,
        `CheckpointError`; `ConfigurationError` once this host is cut off.
        """
        end = self.shard_range.end
        last = end.sequence_number if isinstance(end, AfterSequenceNumber) else None
        looks = 0
        while True:
            try:
                page = self._patiently(lambda: self._cursor.next_page(PAGE_LIMIT))
            except ResourceNotFoundError as error:
                self._patiently(self._guard.check)  # raises if the stream is another or gone
                self._lose(f"the shard no longer exists ({error})")
                return
            records = page.records
            if records:
                self._keep_pace(records)
                self._warn_of_aggregates(records)
                if last is not None and records[-1].sequence_number >= last:
                    records = records[: bisect_right(records, last, key=_number)]
                    if records:
                        yield records
                    if not records or records[-1].sequence_number != last:
                        # An end is always a record: it was there when the batch was planned.
                        self._lose("the records of a planned batch have been trimmed")
                    return
                yield records
                self._read = replace(
                    self._read,
                    position=AfterSequenceNumber(records[-1].sequence_number),
                    read_until_ms=self._cursor.read_until_ms,
                )
                looks = 0
            else:
                self._keep_pace([])
            if page.reached is Reached.END and last is None:
                return
            if page.reached is not Reached.MORE:
                looks += 1
                if last is not None and looks > 1 and self._is_gone(last):
                    self._lose("the records of a planned batch have been trimmed")
                    return
                self._look_again(looks)

    def _new_cursor(self, first_record: int | None = None) -> ShardCursor:
        return ShardCursor(
            self._client, self._guard, self._shard_id, self._read, self._on_loss, first_record
        )

    def _look_again(self, looks: int) -> None:
        """The tip, or an end, came before the end of the range."""
        if looks > _LOOKS:
            raise KinesisSourceError(
                f"{self._shard_id}: read to {self._cursor.position}, but the batch ends at "
                f"{self.shard_range.end} and the service shows no more, {_LOOKS} times in a row. "
                "Nothing is lost; start the query again, and report it if this comes back"
            )
        if looks > 1:
            self._clock.sleep(_LOOK_PERIOD_S)
        if isinstance(self.shard_range.end, AfterSequenceNumber):
            self._cursor = self._new_cursor()

    def _is_gone(self, last: int) -> bool:
        """True if the oldest record left in the shard lies past `last`, or there is none."""

        odd_answers = 0

        def oldest() -> int | None:
            nonlocal odd_answers
            iterator = self._client.get_shard_iterator(self._shard_id, IteratorStart.trim_horizon())
            while True:
                page = self._client.get_records(self._shard_id, iterator, 1)
                if page.records:
                    return page.records[0].sequence_number
                if page.next_iterator is None and not page.has_child_shards:
                    odd_answers += 1
                    if odd_answers < _ODD_ANSWERS:
                        raise TransientServiceError("an empty page that is neither tip nor end")
                if page.next_iterator is None or page.millis_behind == 0:
                    return None
                iterator = page.next_iterator
                self._clock.sleep(_CALL_PERIOD_S)

        try:
            number = self._patiently(oldest)
        except ResourceNotFoundError:
            self._patiently(self._guard.check)
            return True
        return number is None or number > last

    def _lose(self, reason: str) -> None:
        self._on_loss(
            Loss(
                stream=self._client.stream.name,
                shard_id=self._shard_id,
                position=self._read.position,
                reason=reason,
                read_until_ms=self._read.read_until_ms,
                until_ms=self._guard.told_until_ms,
            )
        )

    def _patiently(self, call: Callable[[], Result]) -> Result:
        """`call`, again and again while it fails for a while only."""
        backoff_s = _FIRST_BACKOFF_S
        answered = began = self._clock.monotonic()
        warn_at = began + _PATIENCE_S
        while True:
            self._clock.sleep(self._next_call - self._clock.monotonic())
            if self._is_cancelled():
                raise ReadCancelledError
            try:
                return call()
            except (TransientServiceError, ExpiredIteratorError) as error:
                now = self._clock.monotonic()
                if not _is_unreachable(error):
                    answered = now
                elif self._cut_off_s is not None and now - answered > self._cut_off_s:
                    raise ConfigurationError(
                        f"{self._shard_id}: host {_HOST} has had no answer for "
                        f"{now - answered:.0f} s: {error}. Expected the network that the driver "
                        "has: check this host's routes, proxy and DNS. Nothing is lost; Spark runs "
                        "the task again, on another worker if there is one"
                    ) from None
                if now >= warn_at:
                    logger.warning(
                        "%s: waiting to read on (host %s): %s", self._shard_id, _HOST, error
                    )
                    warn_at = now + _WARNING_PERIOD_S
                self._next_call = now + backoff_s
                longest_s = _LONGEST_THROTTLE_S if _is_throttle(error) else _LONGEST_BACKOFF_S
                backoff_s = min(2 * backoff_s, longest_s)

    def _keep_pace(self, records: list[Record]) -> None:
        """The next call waits until the service's quotas and `maxFetchRate` allow it. Keys count
        like data; a little is left for what the service may count besides."""
        size = sum(len(r.Data) + len(r.PartitionKey or "") for r in records)
        wait_s = max(_CALL_PERIOD_S, _RATE_MARGIN * size / self._max_bytes_per_s)
        self._next_call = self._clock.monotonic() + wait_s

    def _warn_of_aggregates(self, records: list[Record]) -> None:
        if not self._warned_of_aggregates and records[0].Data[:4] == _AGGREGATED:
            self._warned_of_aggregates = True
            logger.warning(
                "%s holds records aggregated by the Kinesis Producer Library; they are passed on "
                "as they are, several user records in one row",
                self._shard_id,
            )


def _is_unreachable(error: ServiceError) -> bool:
    return isinstance(error, TransientServiceError) and error.unreachable


def _is_throttle(error: ServiceError) -> bool:
    return isinstance(error, TransientServiceError) and error.throttled


def _number(record: Record) -> int:
    return record.sequence_number
