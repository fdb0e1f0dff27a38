"""What Spark has committed, as a KCL application's lease table (option `writeLeaseTable`).

A view, never a truth: it follows Spark's checkpoint and never leads it, and nothing is read from it
but what must be known to write. One write at a time goes on beside the planning, at most every ten
seconds. A failure is logged, and tried again with what is then committed.

A table is left alone while somebody else writes to it. A worker that has stopped leaves its name in
its leases; it is taken out once the lease's counter has stood still for a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum, auto

from kinesis_source.aws.lease_table import LeaseTable
from kinesis_source.clock import Clock
from kinesis_source.core.lease_rows import LeaseChange, lease_rows, plan_lease_changes
from kinesis_source.core.lease_starts import moving_leases
from kinesis_source.core.leases import Lease, leases_of_stream
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.offset import Offset
from kinesis_source.errors import KinesisSourceError, LeaseTableError
from kinesis_source.planning.warnings import PacedWarnings

logger = logging.getLogger(__name__)

_PERIOD_S = 10.0
_RETRY_S = 30.0
#: Longer than a KCL worker with a fail-over time of up to three minutes leaves its counter alone.
_OWNER_GONE_S = 60.0


class _Outcome(Enum):
    WRITTEN = auto()
    LATER = auto()  # it is not known yet whether the owners of leases still run
    FAILED = auto()


class LeaseWriter:
    """`committed` is called from one thread."""

    def __init__(
        self,
        open_table: Callable[[], LeaseTable],
        clock: Clock,
        warnings: PacedWarnings,
    ) -> None:
        self._open_table = open_table
        self._clock = clock
        self._warnings = warnings
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="lease-table")
        self._writing: Future[_Outcome] | None = None
        self._due = clock.monotonic()
        self._written: Offset | None = None
        self._table: LeaseTable | None = None
        #: The stream's leases as the table was last seen to hold them, by shard id.
        self._present: dict[str, Lease] | None = None
        #: Leases with owners, and when they were seen.
        self._owned: tuple[list[Lease], float] | None = None

    @property
    def unfinished(self) -> set[str]:
        """The shards with an unfinished lease, as far as the table is known."""
        return {i for i, lease in (self._present or {}).items() if not lease.finished}

    def committed(
        self, offset: Offset, lineage: Lineage, expired: Collection[str], wait: bool = False
    ) -> None:
        """`offset` is the end of a committed batch. `expired`: shards that are known to be gone, to
        be asked for those `unfinished` that are neither in the offset nor listed. `wait`: write
        now, and return when done; else when it is time, beside the caller."""
        if self._writing is not None and (wait or self._writing.done()):
            self._writing.result()
            self._writing = None
        if self._writing is not None or offset == self._written:
            return
        if wait:
            self._write_now(offset, lineage, expired)
        elif self._clock.monotonic() >= self._due:
            self._writing = self._pool.submit(
                self._try_to_write, offset, lineage, frozenset(expired)
            )

    def _write_now(self, offset: Offset, lineage: Lineage, expired: Collection[str]) -> None:
        """Also if that means to wait and see whether the owners of leases have stopped."""
        if self._try_to_write(offset, lineage, expired) is _Outcome.LATER:
            self._clock.sleep(_OWNER_GONE_S)
            self._try_to_write(offset, lineage, expired)

    def _try_to_write(self, offset: Offset, lineage: Lineage, expired: Collection[str]) -> _Outcome:
        self._due = self._clock.monotonic() + _RETRY_S
        try:
            if not self._write(offset, lineage, expired):
                return _Outcome.LATER
        except Exception as error:
            # Whatever it is: a view must not end the query.
            self._present = None  # as somebody else may have written
            known = isinstance(error, KinesisSourceError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            self._warnings.warn("writeLeaseTable", f"not written, will try again: {reason}")
            return _Outcome.FAILED
        self._written = offset
        self._due = self._clock.monotonic() + _PERIOD_S
        return _Outcome.WRITTEN

    def _write(self, offset: Offset, lineage: Lineage, expired: Collection[str]) -> bool:
        """Whether the table now says what `offset` says."""
        if self._table is None:
            self._table = self._open_table()
        if self._present is None:
            leases = leases_of_stream(self._table.read(), offset.stream)
            owned = [lease for lease in leases if lease.owners]
            if owned and not self._have_stopped(self._table.name, owned):
                return False
            for lease in owned:
                self._table.release(lease)
            if owned:
                leases = leases_of_stream(self._table.read(), offset.stream)
            self._owned = None
            self._present = {lease.shard_id: lease for lease in leases}
        stream = next((lease.stream for lease in self._present.values()), None)
        rows = lease_rows(offset.shards, lineage, self._present.keys(), stream, expired)
        planned = plan_lease_changes(rows, self._present, offset.shards)
        self._tell_of_rewinding(self._table.name, planned)
        for changes in planned:
            self._table.write_together(changes)
            written = {change.lease.shard_id: change.lease for change in changes}
            # A new one, as the caller's thread may be looking at the old.
            self._present = self._present | written
        logger.debug("lease table %s: written", self._table.name)
        return True

    @staticmethod
    def _tell_of_rewinding(table: str, planned: Sequence[Sequence[LeaseChange]]) -> None:
        ahead = [
            change.lease.shard_id for changes in planned for change in changes if change.rewinds
        ]
        if ahead:
            logger.warning(
                "lease table %s: %d leases, such as that of %s, are ahead of Spark's checkpoint: "
                "a KCL application has read on. They are set back to what Spark has committed",
                table,
                len(ahead),
                ahead[0],
            )

    def _have_stopped(self, table: str, owned: list[Lease]) -> bool:
        """Whether the owners of leases have left them alone for long enough. Raises
        `LeaseTableError` if they have not."""
        now = self._clock.monotonic()
        before, self._owned = self._owned, self._owned or (owned, now)
        names = ", ".join(sorted({owner for lease in owned for owner in lease.owners})[:3])
        if before is None:
            logger.warning(
                "lease table %s: leases have owners (%s); nothing is written until these have left "
                "them alone for %.0f s",
                table,
                names,
                _OWNER_GONE_S,
            )
            return False
        moving = [lease for lease in moving_leases(before[0], owned) if lease.owners]
        if moving:
            self._owned = owned, now
            raise LeaseTableError(
                f"lease table {table} is in use: {moving[0].owners[0]} has written to "
                f"{moving[0].lease_key} meanwhile. Expected no running KCL application: stop it, "
                "or take the option writeLeaseTable out"
            )
        if now - before[1] < _OWNER_GONE_S:
            return False
        logger.warning(
            "lease table %s: %s has not written for %.0f s; its name is taken out of %d leases",
            table,
            names,
            _OWNER_GONE_S,
            len(owned),
        )
        return True
