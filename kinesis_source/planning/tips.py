"""The newest record of a shard: the exact tip at which Trigger.AvailableNow ends."""

from __future__ import annotations

from kinesis_source.aws.client import IteratorStart, RecordsPage
from kinesis_source.aws.cursor import seen
from kinesis_source.aws.session import Connection
from kinesis_source.core.probes import SeenRecord
from kinesis_source.errors import ExpiredIteratorError, TransientServiceError

_PAGE_LIMIT = 1000
#: Records of a shard that may hold no more than these; many large ones would block it for seconds.
_FEW = 100
#: How far back the search begins, and by how much it is widened each time nothing was there.
_FIRST_REACH_MS = 1_000
_WIDENING = 8
#: Below this the search stops halving and reads page by page.
_NARROW_MS = 500
#: The service's quota is five GetRecords a second and shard.
_CALL_PERIOD_S = 0.22
#: Empty answers that are neither tip nor end before they are taken for an empty shard.
_ODD_ANSWERS = 5


def find_tip(
    connection: Connection, shard_id: str, now_ms: int, retention_ms: int
) -> SeenRecord | None:
    """The last record of the shard in sequence order, as of some moment during the call; None if
    the shard holds none. `now_ms`: the service's clock. Waits out throttles and outages.

    The search goes back from now until it finds a record, then forward to the tip. Records are
    found by arrival time, which may be out of order; the last one never is taken by its time: it is
    the last before MillisBehindLatest 0.
    """
    search = _TipSearch(connection, shard_id)
    horizon_ms = now_ms - retention_ms
    reach_ms, empty_from_ms = _FIRST_REACH_MS, now_ms
    while True:
        at_ms = max(now_ms - reach_ms, horizon_ms)
        if search.look(at_ms if at_ms > horizon_ms else None):
            break
        if at_ms == horizon_ms:
            return None
        if reach_ms == _FIRST_REACH_MS and search.sees_all():
            return search.last  # most shards without news are empty or hold little
        empty_from_ms = at_ms
        reach_ms *= _WIDENING
    assert search.last is not None
    while not search.at_tip and empty_from_ms - search.last.arrival_ms > _NARROW_MS:
        middle_ms = (search.last.arrival_ms + empty_from_ms) // 2
        if not search.look(middle_ms):
            empty_from_ms = middle_ms
    search.read_on()
    return search.last


class _TipSearch:
    def __init__(self, connection: Connection, shard_id: str) -> None:
        self._client = connection.client
        self._clock = connection.clock
        self._shard_id = shard_id
        #: The furthest record seen so far.
        self.last: SeenRecord | None = None
        self._next_iterator: str | None = None
        self._next_call = self._clock.monotonic()
        self.at_tip = False

    def sees_all(self) -> bool:
        """Look at the oldest records; true if they are all there are, `last` being their last."""
        self._keep_pace()
        try:
            page = self._next_page(self._open(IteratorStart.trim_horizon()), _FEW)
        except (TransientServiceError, ExpiredIteratorError):
            return False
        if page.next_iterator is None or page.millis_behind > 0:
            return False
        self.last = seen(page.records[-1]) if page.records else None
        return True

    def look(self, at_ms: int | None) -> bool:
        """The first records at or after a time, None the oldest there are. False if there are none,
        or none past those already seen."""
        start = IteratorStart.trim_horizon() if at_ms is None else IteratorStart.at_timestamp(at_ms)
        for _ in range(_ODD_ANSWERS):
            self._keep_pace()
            page = self._first_page(start)
            if page.records:
                break
            if page.next_iterator is not None or page.has_child_shards:
                return False
        else:  # neither a tip nor an end, again and again
            return False
        record = seen(page.records[-1])
        if self.last is not None and record.sequence_number <= self.last.sequence_number:
            return False
        self.last = record
        self._follow(page)
        return True

    def read_on(self) -> None:
        """Page by page to the tip."""
        odd_ends = 0
        while not self.at_tip:
            self._keep_pace()
            try:
                if self._next_iterator is None:
                    assert self.last is not None
                    start = IteratorStart.at_sequence_number(self.last.sequence_number)
                    self._next_iterator = self._open(start)
                page = self._next_page(self._next_iterator)
            except ExpiredIteratorError:
                self._next_iterator = None
            except TransientServiceError:
                self._clock.sleep(1)
            else:
                if page.records:
                    self.last = seen(page.records[-1])
                self._follow(page)
                # Without ChildShards an end is believed when it has come again and again.
                odd_ends = odd_ends + 1 if page.next_iterator is None else 0
                if odd_ends == _ODD_ANSWERS:
                    return

    def _first_page(self, start: IteratorStart) -> RecordsPage:
        """The first page that is not an empty one on the way to more."""
        iterator: str | None = None
        while True:
            try:
                iterator = iterator or self._open(start)
                page = self._next_page(iterator)
            except ExpiredIteratorError:
                iterator = None
            except TransientServiceError:
                self._clock.sleep(1)  # and on from where the walk is
            else:
                if page.records or page.millis_behind == 0 or page.next_iterator is None:
                    return page
                iterator = page.next_iterator
            self._keep_pace()

    def _keep_pace(self) -> None:
        self._clock.sleep(self._next_call - self._clock.monotonic())
        self._next_call = self._clock.monotonic() + _CALL_PERIOD_S

    def _open(self, start: IteratorStart) -> str:
        return self._client.get_shard_iterator(self._shard_id, start)

    def _next_page(self, iterator: str, limit: int = _PAGE_LIMIT) -> RecordsPage:
        return self._client.get_records(self._shard_id, iterator, limit)

    def _follow(self, page: RecordsPage) -> None:
        """`page` goes on right after the furthest record; what it says of the tip holds there."""
        self._next_iterator = page.next_iterator
        ended = page.next_iterator is None and page.has_child_shards
        self.at_tip = ended or (page.next_iterator is not None and page.millis_behind == 0)
