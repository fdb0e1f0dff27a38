"""A few hundred random histories; `make soak` runs many more. A failure prints its seed."""

from __future__ import annotations

import pytest

from tests.support.soak import run_seeds

_CHUNKS = [range(at, at + 25) for at in range(0, 300, 25)]


@pytest.mark.parametrize("seeds", _CHUNKS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_record_once_and_in_order_whatever_happens(seeds: range) -> None:
    tally, failures = run_seeds(seeds, shrinking=False)
    assert not failures, "\n\n".join(failures[:3])
    assert tally["histories"] == len(seeds)
