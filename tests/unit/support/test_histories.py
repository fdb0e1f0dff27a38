"""The machinery of random histories itself: reproducible, and made small when it fails."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.generation import generate
from tests.support.histories import History, HistoryFailed, run
from tests.support.shrink import shrink
from tests.support.steps import Advance, Put, Run, Split
from tests.support.verdict import Verdict
from tests.support.world import Setup, World


@dataclass(frozen=True, slots=True)
class FailAfterASplit:
    """Breaks an invariant if anything was split before."""

    def apply(self, world: World) -> None:
        if world.tally["reshards"]:
            raise Verdict("planted", "found a split")


def test_a_seed_gives_the_same_history_to_the_last_call() -> None:
    for seed in range(3):
        assert generate(seed) == generate(seed)
        assert run(generate(seed)) == run(generate(seed))


def test_a_failing_history_shrinks_to_what_it_takes() -> None:
    puts = tuple(Put(seed=i, count=1) for i in range(6))
    history = History(
        Setup(seed=1, shards=1, start_kind="TRIM_HORIZON"),
        prelude=puts,
        steps=(Advance(1000), Split(0.5), *puts, Run(1), FailAfterASplit(), Run(2)),
    )
    with pytest.raises(HistoryFailed, match="planted") as failed:
        run(history)
    smallest = shrink(failed.value).history
    assert smallest.prelude + smallest.steps == (Split(0.5), FailAfterASplit())


def test_a_failure_says_how_to_see_it_again() -> None:
    history = History(
        Setup(seed=7, shards=1, start_kind="TRIM_HORIZON"), (), (Split(0.5), FailAfterASplit())
    )
    with pytest.raises(HistoryFailed) as failed:
        run(history)
    assert "--seeds 7:8" in str(failed.value)
    assert "Split(which=0.5" in str(failed.value)
