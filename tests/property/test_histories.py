"""A few hundred random histories; `make soak` runs many more. A failure prints its seed."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.support.generation import generate
from tests.support.histories import run
from tests.support.soak import exceeds_budget, run_seeds

_CHUNKS = [range(at, at + 25) for at in range(0, 300, 25)]


@pytest.mark.parametrize("seeds", _CHUNKS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_record_once_and_in_order_whatever_happens(seeds: range) -> None:
    tally, failures = run_seeds(seeds, shrinking=False)
    assert not failures, "\n\n".join(failures[:3])
    assert tally["histories"] == len(seeds)


def test_alone_on_its_streams_the_connector_keeps_within_the_quotas() -> None:
    alone = (h for h in map(generate, itertools.count(1_000)) if h.setup.alone)
    tally: Counter[str] = Counter()
    for history in itertools.islice(alone, 20):
        tally += run(history)
    assert tally["calls with quotas"] > 2_000
    assert not exceeds_budget(tally), tally


def test_the_histories_are_worth_running() -> None:
    """Rare things are among them: else a green run says little."""
    tally, failures = run_seeds(range(40))
    assert not failures
    replays = tally["replays of batch 0"] + tally["replays of a later batch"]
    assert replays > 20
    assert min(tally["replays of batch 0"], tally["rewritten batches"]) > 0
    assert tally["available now"] > 10
    assert min(tally["stops at a loss"], tally["losses logged"], tally["idle hours"]) > 0
