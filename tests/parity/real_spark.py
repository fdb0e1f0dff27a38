"""The situations on real Spark: `python -m tests.parity.real_spark RESULT_FILE FOLDER`.

In a process of its own, so that the interpreter, and with it the version of PySpark, may be
another one than that of the tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kinesis_source.clock import SystemClock
from kinesis_source.demo.spark_files import Checkpoint
from tests.parity.playing import play_all
from tests.parity.recording import RecordingSource
from tests.parity.situations import Query, Trigger

CLOCK = SystemClock()
LIMIT_S = 60
IDLE_S = 1.0


class SparkQuery:
    """A `situations.Query` whose sink is `foreachBatch`."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self._spark = spark
        self._options = options
        self._checkpoint = Checkpoint(folder / "checkpoint")
        self._fail = False
        self._query: StreamingQuery | None = None

    def start(self, trigger: Trigger = Trigger.PROCESSING_TIME) -> None:
        frame = self._spark.readStream.format("recorded-kinesis").options(**self._options).load()
        writer = frame.writeStream.foreachBatch(self._take)
        match trigger:
            case Trigger.ONCE:
                writer = writer.trigger(once=True)
            case Trigger.AVAILABLE_NOW:
                writer = writer.trigger(availableNow=True)
        path = str(self._checkpoint.path)
        self._query = writer.option("checkpointLocation", path).start()

    def until_batch(self, batch: int) -> None:
        deadline = CLOCK.monotonic() + LIMIT_S
        while batch not in self._checkpoint.commits():
            assert self._running.isActive, (
                f"ended before batch {batch}: {self._running.exception()}"
            )
            assert CLOCK.monotonic() < deadline, f"waited {LIMIT_S} s in vain for batch {batch}"
            CLOCK.sleep(0.02)

    def be_idle(self) -> None:
        CLOCK.sleep(IDLE_S)

    def until_end(self) -> None:
        assert self._running.awaitTermination(LIMIT_S), "did not end"

    def until_failure(self) -> None:
        try:
            self.until_end()
        except StreamingQueryException:
            return
        raise AssertionError("ended without a failure")

    def stop(self) -> None:
        self._running.stop()

    def fail_next_batch(self) -> None:
        self._fail = True

    @property
    def _running(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    def _take(self, frame: DataFrame, batch: int) -> None:
        frame.collect()
        if self._fail:
            self._fail = False
            raise RuntimeError(f"planted in batch {batch}")


def main(result: str, folder: str) -> None:
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.dataSource.register(RecordingSource)

    def make_query(options: dict[str, str], folder: Path) -> Query:
        return SparkQuery(spark, options, folder)

    calls = play_all(make_query, Path(folder))
    Path(result).write_text(json.dumps({"pyspark": pyspark.__version__, "calls": calls}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
