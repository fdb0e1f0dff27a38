"""Writes the fixtures of this release: `python -m tests.compat.write_fixtures`.

Once a release, before it is tagged, with real Spark; about a minute. They are never written
again: a release reads what was written then. Refuses to touch a version that has some.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from kinesis_source.testing import LocalKinesis
from kinesis_source.testing.clock import DEFAULT_START_MS
from tests.compat.history import STREAM, Act, History, HistoryClock, perform
from tests.compat.moments import MOMENTS, Trigger
from tests.compat.spark_run import Batches, run
from tests.spark.drivers import ROOT, SMALL_SPARK, environment

HERE = Path(__file__).parent


class RecordingStage:
    """A `moments.Stage` that keeps what happens as a history."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._clock = HistoryClock(DEFAULT_START_MS)
        self._puts = 0
        self.kinesis = LocalKinesis(clock=self._clock)
        self.history = History()
        self.batches: Batches = {}

    def create(self, shards: int, sequence_digits: int = 56) -> None:
        self._act("create", {"shards": shards, "sequence_digits": sequence_digits})

    def put(self, shard_id: str, count: int, due: bool = True) -> list[str]:
        numbers = []
        for _ in range(count):
            self._puts += 1
            record = {"shard_id": shard_id, "key": f"key {self._puts % 7}"}
            self._clock.advance(10)
            number = self._act("put", {**record, "data": f"record {self._puts}"}, due=due)
            numbers.append(number)
        return numbers

    def split(self, shard_id: str) -> list[str]:
        return self._act("split", {"shard_id": shard_id}).split()

    def merge(self, shard_id: str, neighbour: str) -> str:
        return self._act("merge", {"shard_id": shard_id, "neighbour": neighbour})

    def pass_time(self, ms: int) -> None:
        self._clock.advance(ms)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def run(
        self,
        options: Mapping[str, str],
        trigger: Trigger = "available now",
        fails_in: int | None = None,
    ) -> None:
        arguments: dict[str, Any] = {
            "options": {**self.kinesis.spark_options(STREAM), **options},
            "checkpoint": str(self._checkpoint),
            "trigger": trigger,
            "fails_in": fails_in,
        }
        self.history.options = dict(options)
        with self._clock.running():
            self.batches |= run(self._spark, arguments)

    def _act(
        self,
        what: Literal["create", "put", "split", "merge"],
        arguments: dict[str, Any],
        due: bool = False,
    ) -> str:
        act = Act(self._clock.now_ms(), what, arguments, due=due)
        result = perform(self.kinesis, act)
        self.history.acts.append(Act(act.at_ms, what, arguments, result, due))
        return result


def write(moment: str, spark: SparkSession, folder: Path) -> None:
    """One fixture into `folder`, which must not exist."""
    with tempfile.TemporaryDirectory() as scratch:
        stage = RecordingStage(spark, Path(scratch))
        with stage.kinesis:
            MOMENTS[moment](stage)
        # Spark does not need its checksums, and version control does not keep empty folders.
        shutil.copytree(scratch, folder / "checkpoint", ignore=shutil.ignore_patterns(".*"))
    for name, value in (("history", stage.history.as_json()), ("batches", stage.batches)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.write_fixtures", description=__doc__
    )
    parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = HERE / project["version"]
    if folder.exists():
        sys.exit(f"{folder} exists: the fixtures of a release are written once")
    conf = " ".join(f"--conf {name}={value}" for name, value in SMALL_SPARK.items())
    os.environ |= environment(PYSPARK_SUBMIT_ARGS=f"{conf} pyspark-shell")
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    for moment in MOMENTS:
        write(moment, spark, folder / moment)
        print(folder / moment)
    spark.stop()


if __name__ == "__main__":
    main()
