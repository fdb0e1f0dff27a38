"""One history's world: the local stream, its clock, the engine with its query, and the judge."""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kinesis_source.testing import LocalKinesis
from tests.support.checkpoint import Checkpoint, Sink
from tests.support.connection import InProcessDataSource, register, unregister
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, SimulatedEngine, Trigger
from tests.support.judge import Judge, Verdict, Window
from tests.support.patience import PatientClock
from tests.support.starts import Start
from tests.support.tasks import NO_TASK_FAULTS, TaskFaults
from tests.support.truth import Truth

STREAM = "orders"

#: More than any `minFetchPeriod` and `shardFetchInterval` that histories use: each trigger of
#: the settling lists and probes every shard.
SETTLING_GAP_MS = 11_000

#: Dates are whole seconds, so the connector's idea of the service's time is up to that much late.
CLOCK_ERROR_MS = 1_001


@dataclass(frozen=True, slots=True)
class Setup:
    """The constants of a history. `options`: of the first run, without stream and start."""

    seed: int
    shards: int
    start_kind: str
    options: Mapping[str, str] = field(default_factory=dict)
    sequence_digits: Literal[55, 56] = 56
    null_keys: bool = False
    end_on_last_page: bool = False
    quotas: bool = False


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
        )
        self.kinesis.create_stream(
            STREAM,
            shards=setup.shards,
            sequence_digits=setup.sequence_digits,
            null_keys=setup.null_keys,
        )
        self.truth = Truth(lambda: self.kinesis.ledger(STREAM))
        self.engine = SimulatedEngine(Checkpoint(), Sink(), random.Random(setup.seed))
        self.options = dict(setup.options)
        self.judge: Judge | None = None
        self.tally: Counter[str] = Counter()
        #: A listing may not show all shards: hidden, lagging or stale on purpose.
        self.listing_disturbed = False
        self._run_started_ms = 0

    def __enter__(self) -> World:
        self.url = register(self.kinesis, self.clock)
        return self

    def __exit__(self, *exc_info: object) -> None:
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
        self.tally["puts"] += 1
        self.truth.changed()

    def reshard(self, act: Callable[[], object]) -> None:
        act()
        self.tally["reshards"] += 1
        self.truth.changed()

    def may_disturb_listings(self) -> bool:
        """Asked by steps that keep shards out of listings. A start that names shards needs them
        listed, so not before it has been resolved."""
        if self.setup.start_kind == "map" and not self.batch_0_logged:
            return False
        self.listing_disturbed = True
        return True

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
            }
        )

    def start(self, trigger: Trigger, starting_position: str | None = None) -> None:
        """Begin a run; the first one fixes the history's start. `starting_position` is what a
        restart gives instead; only a query that has a checkpoint may be given another."""
        if self.judge is None:
            start = resolve_start(self.setup, self.truth, self.clock.now_ms())
            self.judge = Judge(STREAM, self.truth, start, self.engine.checkpoint, self.engine.sink)
        if starting_position is None or not self.batch_0_logged:
            starting_position = self.judge.start.option
        self._run_started_ms = self.clock.now_ms()
        self.clock.begin()
        self.engine.start(functools.partial(self.make_source, starting_position), trigger)

    def trigger(self, faults: TaskFaults = NO_TASK_FAULTS) -> Progress | None:
        """One trigger of the query, started if it is not running, then the judge; None if it
        crashed."""
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
        assert self.judge is not None
        if before_batch_0 and self.batch_0_logged:
            earliest_ms = self._run_started_ms - CLOCK_ERROR_MS
            self.judge.pinned(Window(earliest_ms, self.clock.now_ms(), self.listing_disturbed))
        self.tally[progress.value if progress else "crashed triggers"] += 1
        self.judge.check()
        return progress

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
        unread = self.judge.unread()
        records = sum(unread.values())
        generations = self.truth.depth()
        bound = 20 + 3 * (generations + 1) + 3 * math.ceil(math.log2(records + 1))
        if any(name.startswith("max") for name in self.options):
            bound += records
        return bound

    def settle(self) -> None:
        """No more faults: everything must be read within `most_triggers` triggers, and then no
        batch may happen any more."""
        self.engine.crash_at(None)
        self.kinesis.clear_faults()
        if self.judge is None:
            self.trigger()
        assert self.judge is not None
        bound = self.most_triggers()
        triggers = 0
        while self.judge.unread() or triggers == 0:
            if triggers == bound:
                raise Verdict("progress", f"after {bound} triggers unread: {self.judge.unread()}")
            self.clock.advance(SETTLING_GAP_MS)
            self.trigger()
            triggers += 1
        self.tally["settling triggers"] += triggers
        self.tally["settling bound"] += bound
        self._become_quiet()
        self.judge.check_complete()

    def _become_quiet(self) -> None:
        """Ends of shards and new generations without records may take a few batches more; then
        no trigger may make one, neither in this run nor in later ones."""
        patience = 6 + 3 * (self.truth.depth() + 1)
        idle = 0
        while idle < 5:
            self.clock.advance(SETTLING_GAP_MS)
            if self.trigger() is Progress.IDLE:
                idle += 1
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
    shards = truth.shards()
    first = rng.choice([s for s in shards if s.parent_ids] or shards)
    chosen = [first]
    if first.parent_ids and rng.random() < 0.6:
        chosen.append(truth.shard(rng.choice(first.parent_ids)))
    for shard in chosen:
        kinds = ["TRIM_HORIZON", "LATEST", some_time()]
        if shard.records:
            number = rng.choice(shard.records).sequence_number
            kinds += [f"AFTER_SEQUENCE_NUMBER {number}"] * 2
        if shard.closed_ms is not None:
            kinds.append("SHARD_END")
        named[shard.shard_id] = rng.choice(kinds)
    return Start(default, named)
