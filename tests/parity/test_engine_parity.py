"""Each situation of SPARK.md's table makes the same calls on real Spark and on the simulated
engine: the same methods, in the same order, with the same offsets and limits.

The real side runs once, with the interpreter that `PARITY_PYTHON` names, by default this one;
`make parity` names one with PySpark 4.2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.parity.playing import play
from tests.parity.simulated_engine import SimulatedQuery
from tests.parity.situations import SITUATIONS
from tests.spark.drivers import ROOT, SMALL_SPARK, environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PYTHON = os.environ.get("PARITY_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What real Spark called, by situation."""
    folder = tmp_path_factory.mktemp("real")
    conf = " ".join(f"--conf {name}={value}" for name, value in SMALL_SPARK.items())
    finished = subprocess.run(
        [PYTHON, "-m", "tests.parity.real_spark", str(folder / "calls.json"), str(folder)],
        env=environment(
            PYSPARK_PYTHON=PYTHON,
            PYSPARK_DRIVER_PYTHON=PYTHON,
            PYSPARK_SUBMIT_ARGS=f"{conf} pyspark-shell",
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr[-10_000:]
    result: dict[str, Any] = json.loads((folder / "calls.json").read_text())
    print(f"recorded from PySpark {result['pyspark']}")
    return result


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_simulated_engine_calls_what_spark_calls(
    situation: str, recorded: dict[str, Any], tmp_path: Path
) -> None:
    simulated = play(situation, SimulatedQuery, tmp_path / situation)
    assert without_stop(simulated) == without_stop(recorded["calls"][situation])


def without_stop(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whether `stop` is called at a normal stop is a race in Spark: it ends the planner's process,
    and sometimes the end of its input comes first. So nothing may depend on it."""
    return [call for call in calls if call["method"] != "stop"]
