"""Random histories: `generate` makes one from a seed, always the same.

Three families share most of their events:

* any: everything that can happen within the retention period, with every fault;
* aging: clock jumps of hours and days, the retention period raised and lowered, long idle runs;
* alone: the service's quotas are on and the stream is the query's own, so a throttle is its fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from tests.support.aging import Idle, SetRetention
from tests.support.crashes import CrashPoint
from tests.support.histories import History
from tests.support.steps import (
    Advance,
    AvailableNow,
    Crash,
    EmptyPages,
    Fail,
    Hide,
    Lag,
    LookOpen,
    Merge,
    Once,
    Put,
    Rescale,
    Restart,
    Run,
    Split,
    Step,
)
from tests.support.tasks import NO_TASK_FAULTS, TaskFaults
from tests.support.world import Setup

_HOUR_MS = 3_600_000

CRASH_STEPS = (
    *(
        f"{when} {method}"
        for when in ("before", "after")
        for method in (
            "prepareForTriggerAvailableNow",
            "getDefaultReadLimit",
            "initialOffset",
            "latestOffset",
            "reportLatestOffset",
            "commit",
            "partitions",
        )
    ),
    "offset logged",
    "record batch",
    "tasks finished",
    "sink written",
    "batch committed",
)


#: Where a crash leaves a batch that the next run has to read again.
_REPLAYED_STEPS = ("offset logged", "record batch", "tasks finished", "sink written")


class Family(Enum):
    ANY = "any"
    AGING = "aging"
    ALONE = "alone"


def generate(seed: int) -> History:
    rng = random.Random(seed)
    family = rng.choices([Family.ANY, Family.AGING, Family.ALONE], weights=[6, 3, 1])[0]
    aging = family is Family.AGING
    setup = Setup(
        seed=seed,
        shards=rng.choice([1, 1, 2, 3, 4]),
        start_kind=rng.choices(
            ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "map"], weights=[9, 5, 3, 3]
        )[0],
        options=_some_options(rng, aging),
        sequence_digits=55 if rng.random() < 0.1 else 56,
        null_keys=rng.random() < 0.3,
        end_on_last_page=rng.random() < 0.3,
        child_shards=family is Family.ALONE or rng.random() < 0.8,
        quotas=family is Family.ALONE or rng.random() < 0.15,
        alone=family is Family.ALONE,
        retention_hours=rng.choice([24, 24, 48, 168]) if aging else 24,
        trimmed_answer=rng.choice(["horizon", "spin", "refuse", "random"]) if aging else "horizon",
    )
    before, during = _PRELUDE, _EVENTS
    if aging:
        before, during = _PRELUDE + _AGING, _EVENTS + _AGING
    prelude = [_some_event(rng, before) for _ in range(rng.randrange(10))]
    if setup.start_kind == "map":  # which can name a parent and its child, both with records
        prelude += [_put(rng), _split(rng), _put(rng)]
    prelude.append(Advance(rng.choice([0, 1_500, 4_000, 60_000])))
    steps = [_some_event(rng, during) for _ in range(rng.randint(10, 45))]
    if rng.random() < 0.3:
        steps.insert(0, Crash(CrashPoint(rng.choice(_REPLAYED_STEPS))))  # in batch 0
    return History(
        setup,
        tuple(_fitting(step, family) for step in prelude),
        tuple(_fitting(step, family) for step in steps),
    )


def _fitting(step: Step, family: Family) -> Step:
    """The step as the family allows it."""
    match step:
        case Put() if family is Family.AGING:
            # A record that arrived before it was put is trimmed before its time.
            return replace(step, jitter_ms=0)
        case Put() if family is Family.ALONE:
            # A shard takes a thousand records a second: many in one millisecond are not to be had.
            return replace(step, gap_ms=max(step.gap_ms, 1))
        case AvailableNow(meanwhile=meanwhile):
            return replace(step, meanwhile=tuple(_fitting(s, family) for s in meanwhile))
        case Run() if family is Family.ALONE:
            return replace(step, faults=NO_TASK_FAULTS)
        case Fail(kind="throttle" | "limit_exceeded" | "kms_throttle") if family is Family.ALONE:
            return Advance(1_000)
    return step


def _some_options(rng: random.Random, aging: bool = False) -> dict[str, str]:
    options: dict[str, str] = {}
    if aging:
        options["failOnDataLoss"] = rng.choice(["true", "true", "false"])
    if rng.random() < 0.35:
        options["maxRecordsPerTrigger"] = str(rng.choice([1, 3, 10, 100, 1000]))
    if rng.random() < 0.2:
        options["maxBytesPerTrigger"] = rng.choice(["1", "200", "2k", "64k"])
    if rng.random() < 0.15:
        options["maxBytesPerShardPerTrigger"] = rng.choice(["100", "1k", "1m"])
    if rng.random() < 0.5:
        options["shardsPerTask"] = str(rng.choice([1, 2, 50]))
    if rng.random() < 0.5:
        options["minFetchPeriod"] = rng.choice(["200ms", "1s", "5s"])
    if rng.random() < 0.5:
        options["shardFetchInterval"] = rng.choice(["1s", "3s", "10s"])
    return options


def _put(rng: random.Random) -> Step:
    return Put(
        seed=rng.randrange(2**32),
        count=rng.choice([1, 1, 2, 5, 20, 60]),
        keys=rng.choice(["hot", "few", "few", "many", "many", "none", "chosen"]),
        size=rng.choice([0, 10, 10, 100, 2000]),
        gap_ms=rng.choice([0, 0, 1, 50, 700]),
        jitter_ms=rng.choice([0, 0, 0, 300, 5_000]),
    )


def _burst(rng: random.Random) -> Step:
    return Put(
        seed=rng.randrange(2**32),
        count=rng.choice([300, 1_500]),
        keys=rng.choice(["hot", "many"]),
        size=8,
        gap_ms=rng.choice([0, 0, 1]),
    )


def _split(rng: random.Random) -> Step:
    return Split(rng.random(), rng.choice([0.5, rng.random()]))


def _merge(rng: random.Random) -> Step:
    return Merge(rng.random())


def _advance(rng: random.Random) -> Step:
    return Advance(rng.choice([1, 150, 1_000, 10_000, 60_000, 290_000, 310_000]))


def _long_silence(rng: random.Random) -> Step:
    return Advance(rng.choice([1, 2, 4]) * _HOUR_MS // 4)


def _hide(rng: random.Random) -> Step:
    return Hide(rng.random(), rng.choice([1, 1, 2, 4]))


def _look_open(rng: random.Random) -> Step:
    return LookOpen(rng.random(), rng.choice([1, 2, 4]))


def _rescale(rng: random.Random) -> Step:
    return Rescale(rng.random())


def _lag(rng: random.Random) -> Step:
    return Lag(rng.choice([0, 0, 500, 3_000, 30_000]))


def _empty_pages(rng: random.Random) -> Step:
    if rng.random() < 0.3:
        return EmptyPages(rng.random(), rng.choice([1, 3, 12, 40]), each_iterator=True)
    return EmptyPages(rng.random(), rng.choice([1, 3, 12, 150]))


_OPERATIONS = ("GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary")


def _fail(rng: random.Random) -> Step:
    kind = rng.choice(
        [
            "throttle",
            "throttle",
            "limit_exceeded",
            "internal",
            "unavailable",
            "reset",
            "truncated",
            "truncated_consistent",
            "empty_page",
            "empty_page",
            "null_iterator",
            "null_iterator",
            "expired_iterator",
            "kms_throttle",
            "stale_listing",
        ]
    )
    any_operation = kind in ("internal", "unavailable", "reset", "truncated")
    return Fail(
        kind=kind,
        operation=rng.choice([None, *_OPERATIONS]) if any_operation else None,
        which=rng.choice([None, rng.random()]),
        times=rng.choice([1, 1, 2, 5]),
        probability=rng.choice([1.0, 1.0, 0.4]),
        for_ms=rng.choice([2_000, 30_000, 600_000])
        if kind == "throttle" and rng.random() < 0.3
        else None,
    )


def _run(rng: random.Random) -> Step:
    faults = TaskFaults()
    if rng.random() < 0.3:
        faults = TaskFaults(
            failure_rate=rng.choice([0.0, 0.5]),
            speculation_rate=rng.choice([0.0, 0.5]),
            two_actions=rng.random() < 0.3,
        )
    return Run(rng.choice([1, 1, 2, 3, 6]), rng.choice([0, 50, 250, 1_000, 12_000]), faults)


def _crash(rng: random.Random) -> Step:
    if rng.random() < 0.4:
        return Crash(CrashPoint(rng.choice(_REPLAYED_STEPS), rng.choice([1, 1, 2])))
    if rng.random() < 0.5:
        return Crash(CrashPoint(nth=rng.randint(1, 40)))
    return Crash(CrashPoint(rng.choice(CRASH_STEPS), rng.choice([1, 1, 2, 3])))


def _restart(rng: random.Random) -> Step:
    return Restart(
        _some_options(rng, rng.random() < 0.3),
        rng.choice([None, "LATEST", "TRIM_HORIZON", "AT_TIMESTAMP 1767225600000"]),
    )


def _available_now(rng: random.Random) -> Step:
    meanwhile = [
        rng.choice([_put, _put, _split, _merge, _hide])(rng) for _ in range(rng.randrange(4))
    ]
    return AvailableNow(rng.choice([0, 100, 2_000]), tuple(meanwhile))


def _days(rng: random.Random) -> Step:
    return Advance(rng.choice([1, 5, 11, 17, 22, 23, 24, 25, 30, 47, 80]) * _HOUR_MS)


def _set_retention(rng: random.Random) -> Step:
    return SetRetention(rng.choice([24, 24, 36, 48, 168]))


def _idle(rng: random.Random) -> Step:
    gap_minutes = rng.choice([3, 10, 45, 120])
    return Idle(rng.choice([2, 10, 30, 60]), gap_minutes * 60_000)


def _once(rng: random.Random) -> Step:
    return Once()


_Maker = Callable[[random.Random], Step]

_PRELUDE: tuple[tuple[_Maker, int], ...] = (
    (_put, 10),
    (_burst, 1),
    (_split, 4),
    (_merge, 3),
    (_rescale, 1),
    (_advance, 3),
    (_empty_pages, 1),
    (_lag, 1),
)

_EVENTS: tuple[tuple[_Maker, int], ...] = (
    (_put, 24),
    (_burst, 1),
    (_split, 8),
    (_merge, 7),
    (_rescale, 1),
    (_advance, 8),
    (_long_silence, 1),
    (_hide, 4),
    (_look_open, 2),
    (_lag, 2),
    (_empty_pages, 4),
    (_fail, 14),
    (_run, 30),
    (_crash, 13),
    (_restart, 4),
    (_available_now, 4),
    (_once, 1),
)


_AGING: tuple[tuple[_Maker, int], ...] = (
    (_days, 9),
    (_set_retention, 3),
    (_idle, 2),
)


def _some_event(rng: random.Random, table: tuple[tuple[_Maker, int], ...]) -> Step:
    makers, weights = zip(*table, strict=True)
    maker: _Maker = rng.choices(makers, weights=weights)[0]
    return maker(rng)
