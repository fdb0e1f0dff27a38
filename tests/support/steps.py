"""The steps of a history: plain values that act on a `World`.

A step names shards and records by fractions and seeds, not by ids, so that a history stays
meaningful when steps are taken out of it (that is how a failing one is shrunk). A step that
cannot act, such as a merge of a single shard, does nothing.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError

from kinesis_source.core.hashkeys import MAX_HASH_KEY
from kinesis_source.testing import Fault
from tests.support.crashes import Crashed, CrashPoint
from tests.support.engine import Progress, Trigger
from tests.support.tasks import NO_TASK_FAULTS, TaskFaults
from tests.support.verdict import Verdict
from tests.support.world import STREAM, World

_MOST_OPEN_SHARDS = 12
_MOST_SHARDS = 60


class Step(Protocol):
    def apply(self, world: World) -> None: ...


@dataclass(frozen=True, slots=True)
class Put:
    """`count` records; the clock moves on by `gap_ms` after each, and arrival times are up to
    `jitter_ms` too early, so out of order.

    `keys`: `hot` one key, `few` five, `many` a new one each time, `none` no key (where the stream
    allows it), `chosen` the producer chooses the hash key.
    """

    seed: int
    count: int
    keys: str = "few"
    size: int = 20
    gap_ms: int = 0
    jitter_ms: int = 0

    def apply(self, world: World) -> None:
        rng = random.Random(self.seed)
        for number in range(self.count):
            key: str | None = {
                "hot": "hot",
                "few": f"key-{rng.randrange(5)}",
                "many": f"key-{self.seed}-{number}",
                "none": None if world.setup.null_keys else "none",
                "chosen": "chosen",
            }[self.keys]
            hash_key = rng.randint(0, MAX_HASH_KEY) if self.keys == "chosen" else None
            arrival_ms = None
            if self.jitter_ms:
                arrival_ms = world.clock.now_ms() - rng.randrange(self.jitter_ms)
                arrival_ms = max(arrival_ms, world.truth.created_ms)
            world.put(rng.randbytes(rng.randint(0, self.size)), key, hash_key, arrival_ms)
            world.clock.advance(self.gap_ms)


@dataclass(frozen=True, slots=True)
class Split:
    """Split the open shard at fraction `which`, in the middle or at fraction `at` of its keys."""

    which: float
    at: float = 0.5

    def apply(self, world: World) -> None:
        shards = world.truth.open_shards()
        if len(shards) >= _MOST_OPEN_SHARDS or len(world.truth.shards()) >= _MOST_SHARDS:
            return
        shard = shards[int(self.which * len(shards))]
        width = shard.hash_keys.end - shard.hash_keys.start
        if width < 1000:
            return
        cut = shard.hash_keys.start + 1 + int(self.at * (width - 2))
        world.reshard(lambda: world.kinesis.split(STREAM, shard.shard_id, at=cut))


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge the open shard at fraction `which` with its neighbour above."""

    which: float

    def apply(self, world: World) -> None:
        shards = sorted(world.truth.open_shards(), key=lambda s: s.hash_keys)
        if len(shards) < 2:
            return
        index = int(self.which * (len(shards) - 1))
        first, second = shards[index].shard_id, shards[index + 1].shard_id
        world.reshard(lambda: world.kinesis.merge(STREAM, first, second))


@dataclass(frozen=True, slots=True)
class Rescale:
    """UpdateShardCount, to between half and double: several generations at once, most of them
    closed at birth. A call like any other, so it may meet a fault, and then the producer gives
    up."""

    fraction: float

    def apply(self, world: World) -> None:
        count = len(world.truth.open_shards())
        least = (count + 1) // 2
        target = min(least + int(self.fraction * (2 * count - least + 1)), _MOST_OPEN_SHARDS)
        if len(world.truth.shards()) + 3 * target >= _MOST_SHARDS or target < least:
            return
        client = world.kinesis.in_process_client()
        with contextlib.suppress(ClientError, BotoCoreError):
            world.reshard(
                lambda: client.update_shard_count(
                    StreamName=STREAM, TargetShardCount=target, ScalingType="UNIFORM_SCALING"
                )
            )
        world.truth.changed()


@dataclass(frozen=True, slots=True)
class Advance:
    """Time passes, and nothing else."""

    ms: int

    def apply(self, world: World) -> None:
        world.clock.advance(self.ms)


@dataclass(frozen=True, slots=True)
class Hide:
    """The next `listings` listings lack one shard."""

    which: float
    listings: int

    def apply(self, world: World) -> None:
        if world.may_disturb_listings():
            shards = world.truth.shards()
            shard = shards[int(self.which * len(shards))]
            world.kinesis.hide(STREAM, shard.shard_id, listings=self.listings)


@dataclass(frozen=True, slots=True)
class LookOpen:
    """The next `listings` listings after it closes show one shard as if it were open."""

    which: float
    listings: int

    def apply(self, world: World) -> None:
        if world.is_start_named_and_open:
            return  # SHARD_END for a shard that looks open is an error
        if not world.batch_0_logged:
            world.listing_disturbed = True  # a start may take it in place of its children
        shards = world.truth.shards()
        shard = shards[int(self.which * len(shards))]
        world.kinesis.look_open(STREAM, shard.shard_id, listings=self.listings)


@dataclass(frozen=True, slots=True)
class Lag:
    """From now on a reshard shows in listings only `ms` later."""

    ms: int

    def apply(self, world: World) -> None:
        if world.may_disturb_listings():
            world.kinesis.behaviour.listing_lag_ms = self.ms


@dataclass(frozen=True, slots=True)
class EmptyPages:
    """Fresh iterators on one shard give `pages` empty pages before their first record, in all or
    each of them."""

    which: float
    pages: int
    each_iterator: bool = False

    def apply(self, world: World) -> None:
        shards = [shard for shard in world.truth.shards() if not shard.expired]
        shard = shards[int(self.which * len(shards))]
        world.kinesis.empty_pages(
            STREAM, shard.shard_id, self.pages, each_iterator=self.each_iterator
        )


@dataclass(frozen=True, slots=True)
class Fail:
    """A fault of the service, as `kinesis_source.testing.Fault`; `which` narrows it to a shard,
    `for_ms` bounds it in time, else `times` in number."""

    kind: str
    operation: str | None = None
    which: float | None = None
    times: int = 1
    probability: float = 1.0
    for_ms: int | None = None

    def apply(self, world: World) -> None:
        if self.kind == "stale_listing" and not world.may_disturb_listings():
            return
        shard_id = None
        if self.which is not None:
            shards = world.truth.shards()
            shard_id = shards[int(self.which * len(shards))].shard_id
        until_ms = None if self.for_ms is None else world.clock.now_ms() + self.for_ms
        world.tally["faults"] += 1
        world.kinesis.inject(
            Fault(
                self.kind,  # type: ignore[arg-type]
                operation=self.operation,
                shard_id=shard_id,
                times=self.times,
                probability=self.probability,
                until_ms=until_ms,
            )
        )


@dataclass(frozen=True, slots=True)
class Run:
    """Some triggers with time between them; the query is started if it is not running."""

    triggers: int
    gap_ms: int = 1000
    faults: TaskFaults = NO_TASK_FAULTS

    def apply(self, world: World) -> None:
        for _ in range(self.triggers):
            world.trigger(self.faults)
            world.clock.advance(self.gap_ms)


@dataclass(frozen=True, slots=True)
class Crash:
    """Arm a crash; it strikes in the runs that follow."""

    point: CrashPoint

    def apply(self, world: World) -> None:
        world.arm_crash(self.point)


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop cleanly and start again, with other limits and another `startingPosition`, which the
    checkpoint overrules."""

    options: Mapping[str, str] = field(default_factory=dict)
    starting_position: str | None = None

    def apply(self, world: World) -> None:
        world.stop()
        world.options = dict(self.options)
        try:
            world.start(Trigger.PROCESSING_TIME, self.starting_position)
        except Crashed:
            world.tally["crashes"] += 1


@dataclass(frozen=True, slots=True)
class Once:
    """Stop, and run `Trigger.Once`: one batch of everything."""

    def apply(self, world: World) -> None:
        world.stop()
        try:
            world.start(Trigger.ONCE)
        except Crashed:
            world.tally["crashes"] += 1
            return
        world.trigger()
        world.stop()


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Stop, and run `Trigger.AvailableNow` to its end, while `meanwhile` happens between its
    first triggers. It must end, and read exactly what was there when it began."""

    gap_ms: int = 100
    meanwhile: tuple[Step, ...] = ()

    def apply(self, world: World) -> None:
        world.stop()
        try:
            world.start(Trigger.AVAILABLE_NOW)
        except Crashed:
            world.tally["crashes"] += 1
            return
        assert world.judge is not None
        there = {s.shard_id: len(s.records) for s in world.truth.shards()}
        before = {shard_id: world.judge.read_up_to(shard_id) for shard_id in there}
        bound = world.most_triggers()
        waiting = list(self.meanwhile)
        for _ in range(bound):
            progress = world.trigger()
            if progress is None:
                return  # crashed or stopped at a loss: no promise
            if progress is Progress.TERMINATED:
                break
            if not world.engine.running:
                return  # the batch that left a loss behind was all that was wanted of this run
            if waiting:
                waiting.pop(0).apply(world)
            world.clock.advance(self.gap_ms)
        else:
            raise Verdict("available now", f"not ended after {bound} triggers")
        world.tally["available now"] += 1
        self._check(world, there, before)

    def _check(self, world: World, there: dict[str, int], before: dict[str, int]) -> None:
        assert world.judge is not None
        must = world.judge.must_read_from()
        for shard in world.truth.shards():
            shard_id = shard.shard_id
            had = there.get(shard_id, 0)
            read = world.judge.read_up_to(shard_id)
            # A shard that the first listing did not show is read to the tip it has when it shows.
            if read > max(had, before.get(shard_id, 0)) and not world.listing_disturbed:
                raise Verdict(
                    "available now", f"{shard_id} was read to {read}, when it began it had {had}"
                )
            expected = shard_id in must and must[shard_id] < had
            if expected and max(read, shard.trimmed) < had and not world.listing_disturbed:
                raise Verdict("available now", f"{shard_id} was read to {read} of {had}")
