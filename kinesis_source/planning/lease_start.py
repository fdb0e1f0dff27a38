"""A query's first start from a KCL application's lease table (option `startFromLeaseTable`).

The table is read once; what its leases mean is decided in `core.lease_starts`. The positions are
then resolved and pinned in batch 0 like those of any start, and the table is not looked at again:
from then on Spark's checkpoint is the only truth.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kinesis_source.aws.client import IteratorStart
from kinesis_source.aws.lease_table import LeaseTable
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.lease_starts import LeaseStarts, plan_lease_starts
from kinesis_source.core.leases import Lease, RecordCheckpoint, leases_of_stream
from kinesis_source.core.loss import Loss, loss_policy
from kinesis_source.core.positions import TRIM_HORIZON, AfterSequenceNumber, AtTimestamp, Position
from kinesis_source.core.starting_position import PerShard, StartingPosition
from kinesis_source.core.starts import IncompleteListingError
from kinesis_source.errors import (
    ConfigurationError,
    InvalidArgumentError,
    LeaseTableError,
    TransientServiceError,
)
from kinesis_source.options import Options
from kinesis_source.planning.known_shards import KnownShards

logger = logging.getLogger(__name__)

#: An iterator AT a record that is there gives it within these.
_EMPTY_PAGES = 5
#: DynamoDB may fail to answer for so long.
_PATIENCE_S = 30.0


class LeaseStart:
    """Where the leases say that the query starts. Reads the table when first asked."""

    def __init__(
        self,
        options: Options,
        connection: Connection,
        guard: StreamGuard,
        open_table: Callable[[], LeaseTable],
    ) -> None:
        self._default = options.starting_position
        self._client = connection.client
        self._guard = guard
        self._open_table = open_table
        self._on_loss = loss_policy(options, self._client.service_clock.now_ms, logger)
        self._clock = connection.clock
        self._first_failure: float | None = None
        self._leases: list[Lease] | None = None

    def resolve(self, known: KnownShards) -> StartingPosition:
        """A position for each leased shard, and the option `startingPosition` for the shards that
        have nothing to do with any.

        Raises `IncompleteListingError` while leased shards are neither listed nor known to be gone,
        `DataLossError` where unfinished ones are gone, `LeaseTableError`, and what `LeaseTable` and
        `KinesisClient` raise.
        """
        leases = self._read()
        default = self._default
        assert not isinstance(default, PerShard)  # the options refuse both
        time = default if isinstance(default, AtTimestamp) else None
        starts = plan_lease_starts(leases, known.lineage.shards, known.expired, time)
        if starts.to_ask:
            raise IncompleteListingError(
                f"leased shards are not listed, such as {min(starts.to_ask)}", starts.to_ask
            )
        _check_finished(leases, known)
        positions = starts.per_shard(default, self._places_before(starts))
        self._tell(starts)
        return positions

    @property
    def leased(self) -> list[str]:
        """The ids of the leased shards, once the table has been read."""
        return [lease.shard_id for lease in self._leases or ()]

    def _read(self) -> list[Lease]:
        if self._leases is None:
            assert self._guard.identity is not None
            table = self._open_table()
            try:
                self._leases = leases_of_stream(table.read(), self._guard.identity)
            except TransientServiceError as error:
                self._check_patience(error)
                raise
            finally:
                table.close()
            owners = sorted({owner for lease in self._leases for owner in lease.owners})
            if owners:
                logger.warning(
                    "lease table %s: leases have owners (%s). If that KCL application still runs, "
                    "both it and this query read the stream; stop it. Whether it does: "
                    "kinesis-source leases show %s --live",
                    table.name,
                    ", ".join(owners[:3]),
                    table.name,
                )
        return self._leases

    def _check_patience(self, error: TransientServiceError) -> None:
        """As with the stream itself: who starts a query waits for an answer, but not for long."""
        now = self._clock.monotonic()
        self._first_failure = first = self._first_failure or now
        if now - first > _PATIENCE_S:
            raise ConfigurationError(
                f"the lease table could not be read for {now - first:.0f} s: {error}. Expected an "
                "answer from DynamoDB: check leaseTableRegion, leaseTableEndpointUrl and the "
                "network from the driver"
            ) from None

    def _places_before(self, starts: LeaseStarts) -> dict[str, Position]:
        """For a shard that stands inside a record, the time at which that arrived: the first record
        of that time is the record itself or one before it. Where it is gone, its number, so that
        what is lost is told."""
        places: dict[str, Position] = {}
        for shard_id, number in starts.inside.items():
            arrival_ms = self._arrival_ms(shard_id, number)
            if arrival_ms is None:
                places[shard_id] = AfterSequenceNumber(number)
            else:
                places[shard_id] = AtTimestamp(arrival_ms)
        return places

    def _arrival_ms(self, shard_id: str, number: int) -> int | None:
        """When the record arrived; None if it is gone: an iterator AT it gives something else, is
        refused, or gives empty pages only."""
        start = IteratorStart.at_sequence_number(number)
        try:
            iterator = self._client.get_shard_iterator(shard_id, start)
            for _ in range(_EMPTY_PAGES):
                page = self._client.get_records(shard_id, iterator, 1)
                if page.records or page.next_iterator is None or page.millis_behind == 0:
                    break
                iterator = page.next_iterator
        except InvalidArgumentError:
            return None
        if not page.records or page.records[0].sequence_number != number:
            return None
        now_ms = self._client.service_clock.now_ms()  # up to a second behind the service's
        assert now_ms is not None
        return min(page.records[0].arrival_ms, now_ms)

    def _tell(self, starts: LeaseStarts) -> None:
        for lease in starts.gone:
            self._on_loss(
                Loss(
                    stream=self._client.stream.name,
                    shard_id=lease.shard_id,
                    position=_position(lease),
                    reason="its lease is unfinished, and the shard no longer exists",
                    read_until_ms=None,
                    until_ms=self._guard.told_until_ms,
                )
            )
        if starts.unleased:
            logger.warning(
                "the lease table says nothing of %s; they and their children start at %s",
                ", ".join(sorted(starts.unleased)[:5]),
                self._default,
            )


def _position(lease: Lease) -> Position:
    match lease.checkpoint:
        case RecordCheckpoint(sequence_number):
            return AfterSequenceNumber(sequence_number)
    return TRIM_HORIZON


def _check_finished(leases: list[Lease], known: KnownShards) -> None:
    for lease in leases:
        shard = known.lineage.shards.get(lease.shard_id)
        if shard is not None and lease.finished and not known.is_closed(lease.shard_id):
            raise LeaseTableError(
                f"the lease of {lease.shard_id} is at SHARD_END, but the shard is open; expected a "
                "closed one. If the stream was resharded just now, start again in a minute; else "
                "the table is that of an earlier stream of this name"
            )
