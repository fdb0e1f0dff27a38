"""Queries go on from the checkpoints of this release and of every earlier one."""

from __future__ import annotations

import functools
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kinesis_source.testing import ManualClock
from tests.compat.fixtures import Fixture, all_fixtures, judge, load_fixture, sink_of
from tests.compat.history import STREAM, HistoryClock, restore
from tests.compat.moments import MOMENTS
from tests.spark.drivers import ROOT, SMALL_SPARK, environment
from tests.support.connection import InProcessDataSource, register, unregister
from tests.support.engine import SimulatedEngine

#: How long the query was down.
DOWN_MS = 10 * 60_000
MOST_TRIGGERS = 40
ON_REAL_SPARK = "0.1.0/reshard_uncommitted"


@pytest.fixture
def fixture(request: pytest.FixtureRequest) -> Fixture:
    return load_fixture(request.param)


def test_every_moment_is_there() -> None:
    assert {name.split("/")[1] for name in all_fixtures()} == set(MOMENTS)


@pytest.mark.parametrize("fixture", all_fixtures(), indirect=True)
def test_a_query_goes_on(fixture: Fixture) -> None:
    clock = ManualClock(fixture.history.acts[0].at_ms)
    kinesis = restore(fixture.history, clock)
    clock.advance(DOWN_MS)
    sink = sink_of(fixture, kinesis)
    checkpoint = fixture.checkpoint
    uncommitted = checkpoint.offsets.keys() - checkpoint.commits.keys()
    engine = SimulatedEngine(checkpoint, sink, random.Random(1))
    url = register(kinesis, clock)
    options = {
        "streamName": STREAM,
        "region": "us-east-1",
        "endpointUrl": url,
        **fixture.history.options,
    }
    try:
        start = functools.partial(InProcessDataSource, options)
        engine.run_available_now(start, MOST_TRIGGERS)
        batches = {
            batch: [(str(row[3]), str(row[4])) for row in sink.batches[batch]]
            for batch in checkpoint.commits
        }
        judge(batches, fixture, kinesis)
        assert sink.replays == len(uncommitted)
        # All has been read, and the query knows it.
        assert engine.run_available_now(start, MOST_TRIGGERS) == 0
    finally:
        unregister(url)


@pytest.mark.spark
def test_a_query_goes_on_on_real_spark(tmp_path: Path) -> None:
    fixture = load_fixture(ON_REAL_SPARK)
    clock = HistoryClock(fixture.history.acts[0].at_ms)
    checkpoint, result = tmp_path / "checkpoint", tmp_path / "batches.json"
    shutil.copytree(fixture.folder / "checkpoint", checkpoint)
    conf = " ".join(f"--conf {name}={value}" for name, value in SMALL_SPARK.items())
    with restore(fixture.history, clock) as kinesis, clock.running():
        arguments = {
            "options": kinesis.spark_options(STREAM) | fixture.history.options,
            "checkpoint": str(checkpoint),
            "trigger": "available now",
            "fails_in": None,
        }
        command = [sys.executable, "-m", "tests.compat.spark_run"]
        run = subprocess.run(
            [*command, json.dumps(arguments), str(result)],
            env=environment(PYSPARK_SUBMIT_ARGS=f"{conf} pyspark-shell"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert run.returncode == 0, run.stdout + run.stderr[-10_000:]
    later = json.loads(result.read_text())
    read = {int(batch): [(row[0], row[1]) for row in rows] for batch, rows in later.items()}
    uncommitted = max(fixture.batches)
    assert sorted(read[uncommitted]) == sorted(fixture.batches[uncommitted])
    judge(fixture.batches | read, fixture, kinesis)
