"""A few real kills in every CI run; `make crash` does many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.run import CrashRun
from tests.crash.victims import Victim

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = 7


def test_a_killed_query_loses_repeats_and_reorders_nothing(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    run = CrashRun(tmp_path, SEED, print)
    results = run.run([Victim.PLANNER, Victim.WORKER, Victim.DRIVER, Victim.WORKERS])
    assert all(run.kills[victim.value] == 1 for victim in Victim), run.kills
    for name, result in results.items():
        assert result.put > 100, name
        assert result.passed, (name, result)
