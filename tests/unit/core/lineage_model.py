"""A stream that is split and merged, and a query that follows it by the rules of `core.lineage`.

`World` is the truth, and the rules never see it: they get listings that lag and lack shards.
Records are counts: the record `n` of a shard is the number `n`. `Query` plans as `planning.planner`
does, in a few lines, and holds every step against the truth.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from kinesis_source.core.hashkeys import WHOLE_KEY_SPACE, HashKeyRange
from kinesis_source.core.lineage import (
    Lineage,
    finished,
    is_finished,
    missing_shards,
    plan_entries,
    plan_leaving,
    readable_shards,
)
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import AfterSequenceNumber, AtTimestamp, TrimHorizon
from kinesis_source.core.shards import Shard
from tests.unit.core.building import shard_id


@dataclass(slots=True)
class TrueShard:
    """`opened`, `closed`: steps of the world. `records`: how many it holds. `gone`: expired."""

    shard: Shard
    opened: int
    closed: int | None = None
    records: int = 0
    gone: bool = False


@dataclass(slots=True)
class World:
    rng: random.Random
    shards: dict[str, TrueShard] = field(default_factory=dict)
    step: int = 0

    def create(self, count: int) -> None:
        size = (WHOLE_KEY_SPACE.end + 1) // count
        for i in range(count):
            end = WHOLE_KEY_SPACE.end if i == count - 1 else (i + 1) * size - 1
            self._open(HashKeyRange(i * size, end))

    def change(self) -> None:
        """One step: puts, and often a split or a merge, now and then several at once."""
        self.step += 1
        for _ in range(self.rng.choice([0, 0, 1, 1, 1, 3])):
            self._reshard()
        for true in self.open():
            true.records += self.rng.choice([0, 0, 1, 5])

    def open(self) -> list[TrueShard]:
        return sorted(
            (t for t in self.shards.values() if t.closed is None), key=lambda t: t.shard.hash_keys
        )

    def listing(self, lag: int, hidden: float) -> dict[str, Shard]:
        """What ListShards says: each shard as it was up to `lag` steps ago; some are missing."""
        result = {}
        for i, true in self.shards.items():
            seen_at = self.step - self.rng.randint(0, lag)
            if true.gone or true.opened > seen_at or self.rng.random() < hidden:
                continue
            closed = true.closed is not None and true.closed <= seen_at
            result[i] = replace(true.shard, closed=closed)
        return result

    def open_at(self, step: int) -> set[str]:
        """What ListShards says with the filter AT_TIMESTAMP; both ends belong to a shard's time."""
        return {
            i
            for i, t in self.shards.items()
            if t.opened <= step and (t.closed is None or step <= t.closed) and not t.gone
        }

    def ancestors(self, ids: Collection[str]) -> set[str]:
        found = {p for i in ids for p in self.shards[i].shard.parent_ids}
        return found | self.ancestors(found) if found else found

    def descendants(self, ids: Collection[str]) -> set[str]:
        return {i for i in self.shards if self.ancestors([i]) & set(ids)}

    def _reshard(self) -> None:
        live = self.open()
        if len(live) < 6 and self.rng.random() < 0.55:
            true = self.rng.choice(live)
            keys = true.shard.hash_keys
            middle = self.rng.randint(keys.start, keys.end - 1)
            true.closed = self.step
            self._open(HashKeyRange(keys.start, middle), true.shard.shard_id)
            self._open(HashKeyRange(middle + 1, keys.end), true.shard.shard_id)
        elif len(live) > 1:
            at = self.rng.randrange(len(live) - 1)
            low, high = live[at : at + 2]
            low.closed = high.closed = self.step
            keys = HashKeyRange(low.shard.hash_keys.start, high.shard.hash_keys.end)
            parents = [low.shard.shard_id, high.shard.shard_id]
            self.rng.shuffle(parents)
            self._open(keys, *parents)

    def _open(self, keys: HashKeyRange, *parents: str) -> None:
        new_id = shard_id(len(self.shards))
        self.shards[new_id] = TrueShard(Shard(new_id, keys, *parents), self.step)


@dataclass(slots=True)
class Query:
    """`unread`: for each shard the number of the record before the first that is to be delivered.
    A shard that is not to be read at all is not in it."""

    world: World
    tracked: dict[str, TrackedShard]
    unread: dict[str, int]
    remembers: bool = True
    batch: int = 0
    known: dict[str, Shard] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)

    def restart(self) -> None:
        self.known, self.expired = {}, set()

    def is_done(self, i: str) -> bool:
        """Nothing of the shard is left to deliver."""
        return i not in self.unread or i in self.done or i in self.lost

    def plan(self, listing: dict[str, Shard], eager: bool, answers: float = 1.0) -> None:
        """One batch. `eager`: everything is read. `answers`: how often the service can be asked."""
        self.batch += 1
        if not self.remembers:
            self.restart()
        needed = {*self.tracked, *(p for s in listing.values() for p in s.parent_ids)}
        self.known = {i: s for i, s in self.known.items() if i in needed} | listing
        lineage = Lineage(self.known)
        self._ask(missing_shards(lineage, self.tracked, self.expired), answers)
        start = dict(self.tracked)
        for i in [i for i in start if i in self.expired and not is_finished(start[i])]:
            del start[i]
            self.lost.add(i)
        after = dict(start)
        for i in sorted(readable_shards(lineage, start, self.expired)):
            self._read(i, after, eager)
        self._enter(lineage, after, answers)
        for i in plan_leaving(lineage, start, after, self.expired):
            del after[i]
        self.tracked = after

    def _ask(self, ids: Collection[str], answers: float) -> bool:
        gone = {i for i in ids if self.world.shards[i].gone} - self.expired
        gone = {i for i in sorted(gone) if self.world.rng.random() < answers}
        self.expired |= gone
        return bool(gone)

    def _read(self, i: str, after: dict[str, TrackedShard], eager: bool) -> None:
        true = self.world.shards[i]
        if true.gone:
            self.expired.add(i)
            return
        for parent in true.shard.parent_ids:
            before = self.done.get(parent, self.batch) < self.batch
            assert before or parent not in self.unread or self.world.shards[parent].gone, (
                f"{i} is read in batch {self.batch}, its parent {parent} is not finished before"
            )
        match after[i].position:
            case AfterSequenceNumber(number):
                position = number
            case TrimHorizon():
                position = 0
            case AtTimestamp(number):
                position = number
            case _:
                raise AssertionError(f"{i} is read at {after[i]}")
        assert i in self.unread, f"{i} is read, and was not to be"
        assert self.unread[i] == position, f"{i} is read from {position}, not from {self.unread[i]}"
        upto = true.records if eager else self.world.rng.randint(position, true.records)
        if upto > position:
            after[i] = TrackedShard(AfterSequenceNumber(upto), self.world.step)
            self.unread[i] = upto
        if (
            upto == true.records
            and true.closed is not None
            and (eager or self.world.rng.random() < 0.7)
        ):
            self._finish(i, after)

    def _finish(self, i: str, after: dict[str, TrackedShard]) -> None:
        after[i] = finished(after[i])
        self.done[i] = self.batch

    def _enter(self, lineage: Lineage, after: dict[str, TrackedShard], answers: float) -> None:
        while True:
            entries = plan_entries(lineage, after, self.expired)
            for i in entries.entering:
                assert i not in self.done, f"{i} enters again"
            after.update(entries.entering)
            asked = self._ask(entries.to_ask, answers)
            emptied = [
                i
                for i in entries.entering
                if self.world.shards[i].closed is not None and not self.world.shards[i].records
            ]
            for i in emptied:
                assert i in self.unread, f"{i} is finished, and was not to be read"
                self._finish(i, after)
            if not asked and not emptied:
                return
