"""A lease table as a value of `startingPosition`, for `kinesis-source leases export`."""

from __future__ import annotations

from collections.abc import Callable

from kinesis_source.aws.lease_table import LeaseTable
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.starting_position import StartingPosition
from kinesis_source.core.starts import IncompleteListingError
from kinesis_source.errors import TransientServiceError
from kinesis_source.options import Options
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.planning.lease_start import LeaseStart

_LISTINGS = 5


def export_leases(
    options: Options, connection: Connection, open_table: Callable[[], LeaseTable]
) -> StartingPosition:
    """Where a query with the option `startFromLeaseTable` would start now.

    Raises `ConfigurationError`, `ServiceError`, and `DataLossError` as that query would.
    """
    guard = StreamGuard(connection.client)
    guard.check()
    known = KnownShards(connection, guard, interval_ms=0)
    start = LeaseStart(options, connection, guard, open_table)
    reason = ""
    for _ in range(_LISTINGS):
        known.refresh(start.leased)
        try:
            return start.resolve(known)
        except IncompleteListingError as error:
            reason = str(error)
            if not known.ask(error.to_ask):
                connection.clock.sleep(1)
    raise TransientServiceError(
        f"the listing of stream {connection.client.stream.name} is not whole: {reason}. Expected "
        "all shards; try again in a minute",
        operation="ListShards",
    )
