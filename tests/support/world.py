"""One history's world: the local stream, its clock, the engine with its query, and the judge."""

from __future__ import annotations

import functools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kinesis_source.core.starting_position import parse_time_ms
from kinesis_source.errors import DataLossError, OptionError
from kinesis_source.testing import LocalKinesis
from kinesis_source.testing.stream import TrimmedAnswer
from tests.support.checkpoint import Checkpoint, Row, Sink
from tests.support.connection import InProcessDataSource, register, unregister
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, QueryFailed, SimulatedEngine, Trigger
from tests.support.judge import SEQUENCE_NUMBER, SHARD_ID, Judge, Window
from tests.support.losses import CLOCK_ERROR_MS, AlarmLog, Losses, parse_alarm
from tests.support.patience import PatientClock
from tests.support.starts import Start
from tests.support.tasks import NO_TASK_FAULTS, TaskFaults
from tests.support.truth import Truth
from tests.support.verdict import Verdict

STREAM = "orders"

#: More than any `minFetchPeriod` and `shardFetchInterval` that histories use: each trigger of
#: the settling lists and probes every shard.
SETTLING_GAP_MS = 11_000

#: A running query asks for the retention period this often.
CHECK_PERIOD_MS = 600_000

#: The shortest retention period: before that nothing can be trimmed.
DAY_MS = 24 * 3_600_000

#: What passes before a new process asks the service for anything, where quotas are on.
PROCESS_START_MS = 3_000

#: Triggers in a row without a batch after which all is quiet; doubts take a few to settle.
IDLE_TRIGGERS = 6

#: Calls of one history that may exceed a quota: so many in 100, and so many in any case, since a
#: history is short and a new process does not know what the last one called. Over many histories
#: `soak` holds them to 1 in 100.
MOST_THROTTLES_PERCENT = 3
FREE_THROTTLES = 4


@dataclass(frozen=True, slots=True)
class Setup:
    """The constants of a history. `options`: of the first run, without stream and start.

    `child_shards`: whether GetRecords names the children at a shard's end. `quotas`: the service's
    quotas are on; then `alone` says that nothing else may cause a throttle (no such faults and no
    attempts side by side), so that the connector's own calls must keep within them.
    """

    seed: int
    shards: int
    start_kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    sequence_digits: Literal[55, 56] = 56
    null_keys: bool = False
    end_on_last_page: bool = False
    child_shards: bool = True
    quotas: bool = False
    alone: bool = False
    retention_hours: int = 24
    trimmed_answer: TrimmedAnswer = "horizon"


class World:
    """What steps act on. Use as a context manager; `clock` and `kinesis` are the service's."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.clock = PatientClock()
        self.kinesis = LocalKinesis(
            clock=self.clock,
            quotas=setup.quotas,
            seed=setup.seed,
            shard_end="last_page" if setup.end_on_last_page else "extra_page",
            trimmed_answer=setup.trimmed_answer,
        )
        self.kinesis.create_stream(
            STREAM,
            shards=setup.shards,
            retention_hours=setup.retention_hours,
            sequence_digits=setup.sequence_digits,
            null_keys=setup.null_keys,
        )
        self.truth = Truth(lambda: self.kinesis.ledger(STREAM))
        self.losses = Losses(self.truth, setup.retention_hours * 3_600_000)
        self.engine = SimulatedEngine(
            Checkpoint(), Sink(self._is_trimmed), random.Random(setup.seed)
        )
        self.options = dict(setup.options)
        self.judge: Judge | None = None
        self.tally: Counter[str] = Counter()
        #: A listing may not show all shards: hidden, lagging or stale on purpose.
        self.listing_disturbed = False
        self._run_started_ms = 0
        #: The present run goes on after a loss found before this time.
        self._run_goes_on_until_ms = 0.0
        self._log = AlarmLog()
        #: Stops by a `DataLossError` in a row, and the value of `acceptDataLossUntil` that the last
        #: one suggested, if the next run is to go on all the same.
        self._stops = 0
        self._accepted_until: str | None = None

    def __enter__(self) -> World:
        self.url = register(self.kinesis, self.clock, child_shards=self.setup.child_shards)
        self._log.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._log.__exit__()
        unregister(self.url)

    # The stream

    def put(
        self,
        data: bytes,
        partition_key: str | None,
        hash_key: int | None = None,
        arrival_ms: int | None = None,
    ) -> None:
        put = self.kinesis.put(
            STREAM, data, partition_key, explicit_hash_key=hash_key, arrival_ms=arrival_ms
        )
        if hash_key is None:
            self.truth.put_order[put.sequence_number] = len(self.truth.put_order)
        if arrival_ms is not None:
            self.truth.put_ms[put.sequence_number] = self.clock.now_ms()
        self.tally["puts"] += 1
        self.truth.changed()

    def reshard(self, act: Callable[[], object]) -> None:
        act()
        self.tally["reshards"] += 1
        self.truth.changed()

    def set_retention(self, hours: int) -> None:
        self.kinesis.set_retention_hours(STREAM, hours)
        self.truth.changed()
        self.losses.retention_changes(hours * 3_600_000, self.clock.now_ms())

    def _is_trimmed(self, row: Row) -> bool:
        self.truth.changed()
        shard = self.truth.shard(str(row[SHARD_ID]))
        return shard.index_after(int(str(row[SEQUENCE_NUMBER]))) <= shard.trimmed

    def may_disturb_listings(self) -> bool:
        """Asked by steps that keep shards out of listings. A start that names shards needs them
        listed, so not before it has been resolved."""
        if self.is_start_named_and_open:
            return False
        self.listing_disturbed = True
        return True

    @property
    def is_start_named_and_open(self) -> bool:
        """The start names shards, and has not been resolved yet."""
        return self.setup.start_kind == "map" and not self.batch_0_logged

    # The query

    @property
    def batch_0_logged(self) -> bool:
        return 0 in self.engine.checkpoint.offsets

    def make_source(self, starting_position: str) -> InProcessDataSource:
        return InProcessDataSource(
            {
                "streamName": STREAM,
                "region": "us-east-1",
                "endpointUrl": self.url,
                "startingPosition": starting_position,
                **self.options,
                **({"acceptDataLossUntil": self._accepted_until} if self._accepted_until else {}),
            }
        )

    def start(self, trigger: Trigger, starting_position: str | None = None) -> None:
        """Begin a run; the first one fixes the history's start. `starting_position` is what a
        restart gives instead; only a query that has a checkpoint may be given another."""
        if self.judge is None:
            start = resolve_start(self.setup, self.truth, self.clock.now_ms())
            self.judge = Judge(
                STREAM, self.truth, start, self.engine.checkpoint, self.engine.sink, self.losses
            )
        if starting_position is None or not self.batch_0_logged:
            starting_position = self.judge.start.option
        if self.setup.quotas:
            self.clock.advance(PROCESS_START_MS)
        self._run_started_ms = self.clock.now_ms()
        self._run_goes_on_until_ms = 0.0
        if self.options.get("failOnDataLoss") == "false":
            self._run_goes_on_until_ms = math.inf
        elif self._accepted_until is not None:
            self._run_goes_on_until_ms = parse_time_ms(self._accepted_until)
        self.clock.begin()
        self.engine.start(functools.partial(self.make_source, starting_position), trigger)

    def trigger(self, faults: TaskFaults = NO_TASK_FAULTS) -> Progress | None:
        """One trigger of the query, started if it is not running, then the judge; None if it
        crashed or stopped at a loss."""
        before_batch_0 = not self.batch_0_logged
        progress: Progress | None
        try:
            if not self.engine.running:
                self.start(Trigger.PROCESSING_TIME)
            self.clock.begin()
            progress = self.engine.trigger(faults)
        except Crashed:
            self.tally["crashes"] += 1
            progress = None
        except QueryFailed as failure:
            if before_batch_0 and self._named_expired(failure.original):
                self.judge = None
                return self.trigger(faults)  # with another map, as the message says
            if not isinstance(failure.original, DataLossError):
                raise
            self._stopped_at_loss(str(failure.original))
            progress = None
        assert self.judge is not None
        if before_batch_0 and self.batch_0_logged:
            earliest_ms = self._run_started_ms - CLOCK_ERROR_MS
            self.judge.pinned(Window(earliest_ms, self.clock.now_ms(), self.listing_disturbed))
        self.tally[progress.value if progress else "failed triggers"] += 1
        if self.clock.now_ms() - self.truth.created_ms >= DAY_MS:
            self.truth.changed()
        for alarm in self._log.heard:
            self.tally["losses logged"] += 1
            self.judge.check_alarm(alarm, self.clock.now_ms())
            self.losses.told.append(alarm)
        self._log.heard.clear()
        self.judge.check(self.listing_disturbed)
        if self._accepted_until is not None and progress is Progress.BATCH:
            self._stops, self._accepted_until = 0, None
            self.stop()  # the loss is behind the query: back to the option as it was
        return progress

    def _named_expired(self, error: Exception) -> bool:
        """The start names a shard that is gone before the query has got as far as batch 0."""
        self.truth.changed()
        named = self.judge.start.shards if self.judge else {}
        gone = any(self.truth.shard(i).expired for i in named)
        return gone and isinstance(error, OptionError)

    def _stopped_at_loss(self, message: str) -> None:
        """As the message says: start it with acceptDataLossUntil. Some try again first."""
        alarm = parse_alarm(message)
        suggested = re.search(r"acceptDataLossUntil=(\S+) \(", message)
        if alarm is None or suggested is None or self.clock.now_ms() < self._run_goes_on_until_ms:
            raise Verdict("loss", f"the query stopped: {message}")
        self.tally["stops at a loss"] += 1
        assert self.judge is not None
        self.truth.changed()
        self.judge.check_alarm(alarm, self.clock.now_ms())
        self._stops += 1
        self._accepted_until = suggested[1] if self._stops > self.setup.seed % 2 else None

    def stop(self) -> None:
        if self.engine.running:
            self.engine.stop()

    def arm_crash(self, point: CrashPoint) -> None:
        self.engine.crash_at(point)

    # The end of a history

    def most_triggers(self) -> int:
        """The bound of `settle`, and of a run of AvailableNow.

        Three triggers for each generation still to be read (drain, see the end, enter the
        children), as many again for each halving of what is unread (bursts), and one for each
        record where a limit may hold a batch to a single one.
        """
        assert self.judge is not None
        records = self.judge.most_records()
        generations = self.truth.depth()
        bound = 20 + 3 * (generations + 1) + 3 * math.ceil(math.log2(records + 1))
        if any(name.startswith("max") for name in self.options):
            bound += records
        return bound

    def end_faults(self) -> None:
        """From now on the service is well and nothing crashes."""
        self.engine.crash_at(None)
        self.kinesis.clear_faults()
        self.kinesis.behaviour.listing_lag_ms = 0

    def settle(self) -> None:
        """No more faults: everything must be read within `most_triggers` triggers, and then no
        batch may happen any more. A loss may stop the query once more."""
        self.end_faults()
        if self.judge is None:
            self.trigger()
        assert self.judge is not None
        bound = self.most_triggers()
        triggers = 0
        while self.judge.unread() or triggers == 0:
            if triggers == bound:
                raise Verdict("progress", f"after {bound} triggers unread: {self.judge.unread()}")
            self.clock.advance(SETTLING_GAP_MS)
            self._trigger_accepting_loss()
            triggers += 1
        self.tally["settling triggers"] += triggers
        self.tally["settling bound"] += bound
        self._check_budget()
        self._become_quiet()
        self.judge.check_complete()

    def _trigger_accepting_loss(self) -> Progress | None:
        progress = self.trigger()
        if self._stops:
            self._stops, self._accepted_until = 0, None
            self.options["failOnDataLoss"] = "false"
            progress = self.trigger()
        return progress

    def _become_quiet(self) -> None:
        """Ends of shards and new generations without records may take a few batches more; then
        no trigger may make one, neither in this run nor in later ones."""
        patience = 6 + 3 * (self.truth.depth() + 1)
        idle = 0
        self.clock.advance(CHECK_PERIOD_MS)
        while idle < IDLE_TRIGGERS:
            self.clock.advance(SETTLING_GAP_MS)
            before = self.kinesis.calls.copy()
            if self._trigger_accepting_loss() is Progress.IDLE:
                idle += 1
                if idle == IDLE_TRIGGERS:
                    self._check_idle_calls(self.kinesis.calls - before)
            else:
                idle = 0
                patience -= 1
                if patience == 0:
                    raise Verdict("quiet", "batches go on although nothing happens")
        self.stop()
        for _ in range(3):
            if self.trigger() is not Progress.IDLE:
                raise Verdict("quiet", "a restart made a batch of nothing")
            self.clock.advance(SETTLING_GAP_MS)
        self.stop()
        self.start(Trigger.AVAILABLE_NOW)
        if self.trigger() is not Progress.TERMINATED:
            raise Verdict("quiet", "AvailableNow made a batch of nothing")

    def _check_idle_calls(self, calls: Counter[tuple[str, str | None]]) -> None:
        """What a trigger may call where nothing happens and all is known: one GetRecords a shard,
        and one more to learn that the shard is still open."""
        most = {"GetRecords": 2, "GetShardIterator": 1, "ListShards": 1, "DescribeStreamSummary": 1}
        open_ids = {shard.shard_id for shard in self.truth.open_shards()}
        for (operation, shard_id), count in calls.items():
            if count > most[operation] or (shard_id is not None and shard_id not in open_ids):
                raise Verdict("budget", f"an idle trigger called {operation} {shard_id} {count}×")

    def _check_budget(self) -> None:
        """With quotas on and the stream to itself, the connector keeps within them."""
        if not self.setup.alone:
            return
        calls, throttled = self.kinesis.calls.total(), self.kinesis.throttled.total()
        self.tally["calls with quotas"] += calls
        self.tally["throttled with quotas"] += throttled
        if throttled > FREE_THROTTLES + calls * MOST_THROTTLES_PERCENT // 100:
            raise Verdict(
                "budget",
                f"{throttled} of {calls} calls exceeded a quota: {dict(self.kinesis.throttled)}",
            )


def resolve_start(setup: Setup, truth: Truth, now_ms: int) -> Start:
    """The starting position of a history, chosen by its seed among what exists by now."""
    rng = random.Random(setup.seed + 1)
    created_ms = truth.created_ms
    latest_ms = max(created_ms, now_ms - 2 * CLOCK_ERROR_MS)

    def some_time() -> str:
        return f"AT_TIMESTAMP {rng.randint(created_ms - 500, latest_ms)}"

    if setup.start_kind == "AT_TIMESTAMP":
        return Start(some_time())
    if setup.start_kind != "map":
        return Start(setup.start_kind)
    default = rng.choice(["TRIM_HORIZON", "LATEST", some_time()])
    named: dict[str, str] = {}
    truth.changed()
    shards = [shard for shard in truth.shards() if not shard.expired]
    first = rng.choice([s for s in shards if s.parent_ids] or shards)
    chosen = [first]
    if first.parent_ids and rng.random() < 0.6:
        chosen += [s for s in shards if s.shard_id == rng.choice(first.parent_ids)]
    for shard in chosen:
        kinds = ["TRIM_HORIZON", "LATEST", some_time()]
        if shard.records:
            number = rng.choice(shard.records).sequence_number
            kinds += [f"AFTER_SEQUENCE_NUMBER {number}"] * 2
        if shard.closed_ms is not None:
            kinds.append("SHARD_END")
        named[shard.shard_id] = rng.choice(kinds)
    return Start(default, named)
