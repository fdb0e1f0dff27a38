"""What the planner watches of one shard between plans: a cursor, and what it saw past the position.

All calls of a plan for one shard are made here, within the service's budget: five GetRecords a
second and shard, shared with the tasks and with every other reader of the stream.
"""

from __future__ import annotations

from collections.abc import Callable

from kinesis_source.aws.client import IteratorStart, RecordsPage
from kinesis_source.aws.cursor import ShardCursor, seen
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.concerns import Throttle
from kinesis_source.core.ends import End, Jump, JumpSearch, later
from kinesis_source.core.loss import Loss
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import AfterSequenceNumber, ShardEnd
from kinesis_source.core.probes import Reached, SeenRecord, ShardView
from kinesis_source.errors import ResourceNotFoundError, ServiceError, TransientServiceError

#: Records asked for in one probe: a quiet shard's news in one call, and little read twice on a busy
#: one. A page of large records would use up seconds of a shard's 2 MB/s: so the first look is at
#: very few, and then no more are asked for than come to `_PROBE_BYTES`.
_FIRST_PROBE_LIMIT = 2
_PROBE_LIMIT = 100
_PROBE_BYTES = 512 << 10
#: Pages of one probe. An empty page before the tip is followed, and the next plan goes on from
#: there.
PROBE_PAGES = 4
#: Empty pages followed after a jump.
_JUMP_PAGES = 3
#: Between calls one by one: a little under five a second.
_CALL_S = 0.22
#: After so many calls at once, so that no second sees more than five.
_PAUSES_S = (0.0, _CALL_S, 0.5, 1.0)
#: What a plan may spend of that: the batch's task needs one.
_MOST_AT_ONCE = 4
#: A shard that failed waits for twice as long each time.
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.5, 8.0
#: A throttled one not so long: beside a reader that takes all, what is left comes in short gaps.
_LONGEST_THROTTLE_S = 2.0
_LONGEST_WALK_DOUBLINGS = 8
#: After so long without a throttle the shard counts as no longer throttled.
_CALM_S = 30.0
#: Records seen longer ago are looked for again: as long as a shard iterator lives.
_FORGET_S = 300.0
#: A read-until time is not made more exact than this at the cost of a call.
_WORTH_CONFIRMING_MS = 60_000
#: A record may bear an arrival time later than that of its successors, by less than this.
_DISORDER_MS = 10_000


class ShardWatch:
    """One shard, from the place where the next plan starts. One thread at a time."""

    def __init__(
        self,
        connection: Connection,
        guard: StreamGuard,
        shard_id: str,
        place: TrackedShard,
        on_loss: Callable[[Loss], None],
    ) -> None:
        self.shard_id = shard_id
        #: The shard's entry in the offset that the next plan starts from.
        self.place = place
        #: Like `place.read_until_ms`, and moving while the shard is idle.
        self.read_until_ms = place.read_until_ms
        #: Why the last probe failed, if it did: for now, or as the service knows no such shard.
        self.failure: TransientServiceError | ResourceNotFoundError | None = None
        #: The shard seems to have ended, but neither listing nor answer says that it was closed.
        self.doubts_end = False
        self._client = connection.client
        self._clock = connection.clock
        self._guard = guard
        self._on_loss = on_loss
        self._cursor = ShardCursor(self._client, guard, shard_id, place, on_loss)
        self._unread: list[SeenRecord] = []
        self._reached = Reached.MORE
        self._limit = _FIRST_PROBE_LIMIT
        self._looked = False
        self._calls_at_once = 0
        #: When the last page at the tip was asked for, and a time when the tip was surely open.
        self._tip_ms: int | None = None
        self._tip_opening = 0
        self._is_confirming = False
        self._open_until_ms: int | None = None
        self._empty_from_ms: int | None = None
        self._due = self._seen_at = self._clock.monotonic()
        self._backoff_s = _FIRST_BACKOFF_S
        #: There has been an answer.
        self.has_answered = False
        #: The first and last of throttles that followed each other, and the reason of the last.
        self._throttles: tuple[float, float, str] | None = None

    @property
    def due(self) -> float:
        """The monotonic time from which the budget allows to look at the shard again."""
        return self._due

    @property
    def throttle(self) -> Throttle | None:
        """Of the last throttles, if they came again and again and not too long ago."""
        if self._throttles is None:
            return None
        first_s, last_s, reason = self._throttles
        now = self._clock.monotonic()
        return Throttle(int((now - first_s) * 1000), reason) if now - last_s < _CALM_S else None

    def probe(self, closed: bool) -> None:
        """Look for records past the position, unless some were seen already or it is too early.

        A failed call is kept in `failure` and leaves the shard where it is; anything else, data
        loss for one, is raised.
        """
        started = self._clock.monotonic()
        self._calls_at_once = 0
        if self._unread and started - self._seen_at > _FORGET_S:
            self._see_again()  # a limit held them back; they may have been trimmed meanwhile
        may_call = started >= self._due
        if may_call:
            self.failure = None
        self._looked = may_call and not self._unread
        if not self._looked:
            return
        self._seen_at = started
        pages = 0
        try:
            # Where plans are so far apart that the iterator expires in between, the walk over
            # empty pages must get further each time.
            most = PROBE_PAGES << min(self._cursor.lost_walks, _LONGEST_WALK_DOUBLINGS)
            while pages < most or self._is_confirming:
                pages += 1
                if pages > 1 and self._cursor.lost_walks:
                    self._clock.sleep(_CALL_S)
                if not self._look_further(closed):
                    break
            self._backoff_s = _FIRST_BACKOFF_S
        except (TransientServiceError, ResourceNotFoundError) as error:
            self._fail(error)
        self._spend(pages)

    def _look_further(self, closed: bool) -> bool:
        """Take in one page. True if the next one should be looked at too."""
        self._is_confirming = False
        page = self._cursor.next_page(self._limit)
        self.has_answered = True
        records = [seen(r) for r in page.records]
        self._unread += records
        asked = self._limit
        if records:
            mean_size = 1 + sum(r.size_bytes for r in records) // len(records)
            self._limit = max(1, min(_PROBE_LIMIT, _PROBE_BYTES // mean_size))
        if self._unread and self.read_until_ms is not None:
            # Nothing was left between the position and the first unread record.
            known_ms = self._unread[0].arrival_ms - _DISORDER_MS
            self.read_until_ms = later(self.read_until_ms, known_ms)
        self._reached = page.reached
        self.doubts_end = page.reached is Reached.END and not (closed or page.has_child_shards)
        if self.doubts_end:
            self._reopen()
            return False
        if page.reached is Reached.MORE:
            return not self._unread or (asked == _FIRST_PROBE_LIMIT and asked < self._limit)
        if page.reached is Reached.END:
            return False
        if closed:
            return not self._unread  # one more page tells whether the shard has ended
        return self._keep_open_until(page.asked_ms)

    def _keep_open_until(self, asked_ms: int | None) -> bool:
        """A page at the tip was asked for at `asked_ms`: so the shard had not closed when the page
        at the tip before it was asked for. True if one more page is worth asking for, to learn that
        of this one: a shard that closes gives its last records as if it were open, and its children
        hold records from then on."""
        if self._tip_opening != self._cursor.openings:
            self._tip_ms = None  # a closed shard gives a new iterator such a page too
        self._tip_opening = self._cursor.openings
        self._open_until_ms, self._tip_ms = self._tip_ms, asked_ms
        if not self._unread:
            self.read_until_ms = later(self.read_until_ms, self._open_until_ms)
            self._cursor.read_until_ms = later(self._cursor.read_until_ms, self._open_until_ms)
        known_ms = later(self.read_until_ms, self._open_until_ms) or 0
        if self._unread:
            known_ms = max(known_ms, self._unread[-1].arrival_ms)
        self._is_confirming = asked_ms is not None and asked_ms - known_ms > _WORTH_CONFIRMING_MS
        return self._is_confirming

    def view(self, closed: bool, target: SeenRecord | None = None) -> ShardView:
        """What the last probe saw, cut off behind `target`."""
        unread, reached = self._unread, self._reached
        if not self._looked and reached is Reached.TIP:
            reached = Reached.MORE  # what is known of the tip is old
        if target is not None and unread and unread[-1].sequence_number >= target.sequence_number:
            unread = [r for r in unread if r.sequence_number <= target.sequence_number]
            reached = Reached.TIP
        place = TrackedShard(self.place.position, self.read_until_ms)
        return ShardView(self.shard_id, place, unread, reached, closed, self._open_until_ms, target)

    def jump(self, view: ShardView, jump: Jump, horizon_ms: int | None, now_ms: int) -> End:
        """The end that a search by time finds within the budget, else the jump's fallback. A
        failure is no more than a search that found nothing."""
        search = JumpSearch(view, jump, horizon_ms, now_ms, self._empty_from_ms)
        left = _MOST_AT_ONCE - self._calls_at_once if self.failure is None else 0
        calls = 0
        landing: RecordsPage | None = None
        try:
            while search.aim_ms is not None and calls < left:
                most = min(_JUMP_PAGES, left - calls)
                page, reached, pages = self._look(search.aim_ms, view.closed, most)
                calls += pages
                if view.target is not None and reached is Reached.END:
                    reached = Reached.TIP  # it was open when the target was fixed
                search.take(_until(page, view.target), reached)
                landing = page
        except TransientServiceError as error:
            self._fail(error)
        except ServiceError:
            pass  # an iterator that was refused or has expired: the fallback is as right
        self._empty_from_ms = search.empty_from_ms
        self._spend(calls)
        if search.landed and landing is not None and search.end.record is not None:
            self._unread = [seen(r) for r in landing.records]
            self._cursor.move_to(landing.records[-1], landing.next_iterator)
            self._reached = Reached.MORE
        return search.end

    def advance(self, end: End) -> None:
        """The batch ends at `end`: the next plan starts there."""
        self.place = end.place
        position = end.place.position
        self.read_until_ms = later(self.read_until_ms, end.place.read_until_ms)
        if isinstance(position, ShardEnd):
            return  # nobody looks at it again
        assert isinstance(position, AfterSequenceNumber)
        self._spend(1)  # by the task
        self._cursor.read_until_ms = later(self._cursor.read_until_ms, self.read_until_ms)
        self._unread = [r for r in self._unread if r.sequence_number > position.sequence_number]
        if not self._unread and self._cursor.position != position:
            self._forget()

    def millis_behind(self, now_ms: int) -> int:
        """How long the oldest unread record has been waiting, 0 at the tip; as of the last look, an
        estimate where that did not reach the tip."""
        if self._unread:
            return max(0, now_ms - self._unread[0].arrival_ms)
        if self._reached is not Reached.MORE:
            return 0
        return max(0, now_ms - self.read_until_ms) if self.read_until_ms is not None else 0

    def _look(self, at_ms: int, closed: bool, most: int) -> tuple[RecordsPage, Reached, int]:
        """The first page from `at_ms` on that holds anything, what it reached, and of how many."""
        start = IteratorStart.at_timestamp(at_ms)
        iterator = self._client.get_shard_iterator(self.shard_id, start)
        pages = 0
        while True:
            pages += 1
            page = self._client.get_records(self.shard_id, iterator, self._limit)
            if page.records or page.next_iterator is None or page.millis_behind == 0:
                break
            if pages == most:
                break
            iterator = page.next_iterator
        if page.next_iterator is None:
            ended = page.has_child_shards or closed
            reached = Reached.END if ended else Reached.MORE
        else:
            reached = Reached.TIP if page.millis_behind == 0 else Reached.MORE
        return page, reached, pages

    def _forget(self) -> None:
        """Begin again at the position."""
        self._open_at(TrackedShard(self.place.position, self.read_until_ms))
        self._unread = []

    def _see_again(self) -> None:
        """The same, and where the first unread record is still there nothing has been lost since:
        a loss that was told is not told again. A start without a record promises what is left."""
        first_record = None
        if isinstance(self.place.position, AfterSequenceNumber):
            first_record = self._unread[0].sequence_number
        self._open_at(TrackedShard(self.place.position, self.read_until_ms), first_record)
        self._unread = []

    def _reopen(self) -> None:
        """Read on from the cursor's place by a new iterator."""
        self._open_at(TrackedShard(self._cursor.position, self._cursor.read_until_ms))

    def _open_at(self, place: TrackedShard, first_record: int | None = None) -> None:
        """Until the next look nothing is known of what lies past the cursor. `first_record`: as for
        `ShardCursor`."""
        self._cursor = ShardCursor(
            self._client, self._guard, self.shard_id, place, self._on_loss, first_record
        )
        self._reached = Reached.MORE
        self._tip_ms = None  # by an iterator that is gone

    def _fail(self, error: TransientServiceError | ResourceNotFoundError) -> None:
        self.failure = error
        self._reached = Reached.MORE
        now = self._clock.monotonic()
        longest_s = _LONGEST_BACKOFF_S
        if isinstance(error, TransientServiceError) and error.throttled:
            longest_s = _LONGEST_THROTTLE_S
            first_s = self._throttles[0] if self._throttles and self.throttle else now
            self._throttles = (first_s, now, str(error))
        self._backoff_s = min(longest_s, 2 * self._backoff_s)
        self._due = max(self._due, now + self._backoff_s)

    def _spend(self, calls: int) -> None:
        """Take calls that were made at once from the budget."""
        self._calls_at_once += calls
        pause_s = _PAUSES_S[min(self._calls_at_once, len(_PAUSES_S) - 1)]
        self._due = max(self._due, self._clock.monotonic() + pause_s)


def _until(page: RecordsPage, target: SeenRecord | None) -> list[SeenRecord]:
    records = [seen(r) for r in page.records]
    if target is None:
        return records
    return [r for r in records if r.sequence_number <= target.sequence_number]
