"""`python -m kinesis_source.demo [--output FOLDER]`: the story, stage by stage.

Exit status 0 only if every record that was put is in the sink once, unchanged and in order.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.feather as feather

from kinesis_source.clock import Clock, SystemClock
from kinesis_source.demo.audit import AuditResult, SinkRow, audit
from kinesis_source.demo.console import Console
from kinesis_source.demo.lineage_tree import ShardView, draw_lineage, short_name
from kinesis_source.demo.producer import KEYS, Producer
from kinesis_source.demo.spark_files import Checkpoint, Sink
from kinesis_source.demo.spark_process import SparkFailedError, SparkProcess
from kinesis_source.testing import LocalKinesis

STREAM = "orders"
QUERY = "kinesis_source.demo.query"
READBACK = "kinesis_source.demo.readback"

#: Polling intervals of the demo itself, in seconds.
WATCH_SECONDS = 0.2
CATCH_A_BATCH_SECONDS = 0.002
#: Long enough for a slow machine; a healthy run stays far below.
START_LIMIT_SECONDS = 90.0
STAGE_LIMIT_SECONDS = 60.0
#: A sink that has not grown for so long, with nothing more being put, has all it will get.
STAND_STILL_SECONDS = 15.0


class DemoError(Exception):
    """A stage did not come about in time."""


class Demo:
    """The stages, in the order of `run`. One instance is one run."""

    def __init__(self, output: Path, kinesis: LocalKinesis, clock: Clock, console: Console) -> None:
        self._kinesis = kinesis
        self._clock = clock
        self._console = console
        self._log = output / "spark.log"
        self._sink = Sink(output / "sink")
        self._checkpoint = Checkpoint(output / "checkpoint")
        self._arrow_file = output / "rows.arrow"
        self._producer = Producer(kinesis.client(), STREAM, clock)

    def run(self) -> AuditResult:
        with self._producer:
            with self._start_query("Starting Spark, with a Parquet sink and a checkpoint") as spark:
                self._wait(spark, "the first rows", self._has_rows(1), START_LIMIT_SECONDS)
                self._reshard_while_data_flows(spark)
                batch = self._kill_in_the_middle_of_a_batch(spark)
            planned_end = self._checkpoint.offset_text(batch)
            self._reshard_while_down()
            with self._start_query("Starting Spark again, on the same checkpoint") as spark:
                self._wait(
                    spark,
                    f"batch {batch} again, to its end",
                    lambda: batch in self._checkpoint.commits(),
                    START_LIMIT_SECONDS,
                )
                if self._checkpoint.offset_text(batch) != planned_end:
                    raise DemoError(f"the end of batch {batch} is not the one planned before")
                self._console.say(f"  batch {batch} was read again, up to the same end")
                self._watch(spark, seconds=4)
                self._drain(spark)
        return self._judge()

    def _start_query(self, title: str) -> SparkProcess:
        self._console.stage(title)
        options = self._kinesis.spark_options(STREAM) | {
            "startingPosition": "TRIM_HORIZON",
            "shardsPerTask": "2",
            "minFetchPeriod": "200ms",
            "shardFetchInterval": "1s",
        }
        return SparkProcess(
            QUERY,
            json.dumps(options),
            str(self._sink.path),
            str(self._checkpoint.path),
            log=self._log,
        )

    def _reshard_while_data_flows(self, spark: SparkProcess) -> None:
        self._console.stage("Splitting two shards and merging two while data flows")
        first, second, third, fourth = self._kinesis.open_shards(STREAM)
        self._split(first)
        self._watch(spark, seconds=2)
        self._merge(third, fourth)
        self._watch(spark, seconds=2)
        self._split(second)
        self._watch(spark, seconds=4)

    def _kill_in_the_middle_of_a_batch(self, spark: SparkProcess) -> int:
        self._console.stage("Killing Spark in the middle of a batch")
        batch = self._freeze_in_a_batch(spark)
        unlisted = self._sink.unlisted_files()
        spark.kill()
        committed = self._checkpoint.commits()
        if batch in committed:
            raise DemoError(f"batch {batch} was committed in the instant before the kill")
        self._console.say(f"  SIGKILL to process group {spark.pid} (Python and the JVM)")
        self._console.say(f"  checkpoint/offsets/{batch}  is there: the batch has a planned end")
        self._console.say(
            f"  checkpoint/commits/{batch}  is not: it did not finish (the last is {committed[-1]})"
        )
        self._console.say(f"  sink: {len(unlisted)} file(s) of it half done, which Spark ignores")
        return batch

    def _freeze_in_a_batch(self, spark: SparkProcess) -> int:
        """Stops the process where a batch has an offset, some output, and no commit; its number."""
        deadline = self._clock.monotonic() + STAGE_LIMIT_SECONDS
        while self._clock.monotonic() < deadline:
            if self._is_writing_a_batch():
                # It may just have ended: look again while nothing moves.
                spark.freeze()
                batch = self._checkpoint.unfinished_batch()
                if batch is not None and self._sink.unlisted_files():
                    return batch
                spark.thaw()
            spark.check()
            self._clock.sleep(CATCH_A_BATCH_SECONDS)
        raise DemoError("found no batch to be killed in")

    def _is_writing_a_batch(self) -> bool:
        return self._checkpoint.unfinished_batch() is not None and bool(self._sink.unlisted_files())

    def _reshard_while_down(self) -> None:
        self._console.stage("Resharding once more while Spark is down; the producer goes on")
        open_shards = self._kinesis.open_shards(STREAM)
        # The upper half of the first shard and the lower half of the second are neighbours.
        self._merge(open_shards[1], open_shards[2])
        self._split(open_shards[4])
        self._watch(None, seconds=2)

    def _drain(self, spark: SparkProcess) -> None:
        self._producer.stop()
        put = self._producer.count
        self._console.stage(f"Producer stopped after {put:,} records; the query catches up")
        last_growth, rows = self._clock.monotonic(), self._sink.row_count
        while rows < put or self._checkpoint.unfinished_batch() is not None:
            if self._clock.monotonic() - last_growth > STAND_STILL_SECONDS:
                break  # the audit says what is missing
            self._watch(spark, seconds=WATCH_SECONDS)
            if self._sink.row_count > rows:
                last_growth, rows = self._clock.monotonic(), self._sink.row_count
        # A connector that reads something twice gets its chance to show it.
        self._watch(spark, seconds=2)
        spark.finish(STAGE_LIMIT_SECONDS)

    def _judge(self) -> AuditResult:
        self._console.stage("Reading the sink back with Spark and checking every row")
        with SparkProcess(
            READBACK, str(self._sink.path), str(self._arrow_file), log=self._log
        ) as spark:
            spark.finish(START_LIMIT_SECONDS)
        rows = self._rows()
        self._console.say("")
        self._console.say("Lineage, and where the query's last offset stands:")
        rows_by_shard = Counter(row.shard_id for row in rows)
        for line in draw_lineage(self._shard_views(rows_by_shard)):
            self._console.say(f"  {line}")
        return audit(self._producer.accepted(), rows)

    def _rows(self) -> list[SinkRow]:
        return [
            SinkRow(
                batch=self._sink.batch_of(row["file_name"]),
                file=row["file_name"],
                index=row["row_index"],
                partition_key=row["partitionKey"],
                data=row["data"],
                shard_id=row["shardId"],
                sequence_number=row["sequenceNumber"],
            )
            for row in feather.read_table(self._arrow_file).to_pylist()
        ]

    def _shard_views(self, rows_by_shard: Counter[str]) -> list[ShardView]:
        positions = self._checkpoint.positions()
        put = self._producer.accepted_by_shard()
        return [
            ShardView(
                shard_id=shard.shard_id,
                parent_ids=shard.parents,
                closed=shard.closed_ms is not None,
                position=positions.get(shard.shard_id),
                put=put[shard.shard_id],
                rows=rows_by_shard[shard.shard_id],
            )
            for shard in self._kinesis.ledger(STREAM).shards.values()
        ]

    def _split(self, shard_id: str) -> None:
        children = self._kinesis.split(STREAM, shard_id)
        names = " and ".join(short_name(child) for child in children)
        self._console.say(f"  split {short_name(shard_id)} into {names}")

    def _merge(self, shard_id: str, neighbour: str) -> None:
        child = self._kinesis.merge(STREAM, shard_id, neighbour)
        self._console.say(
            f"  merged {short_name(shard_id)} and {short_name(neighbour)} into {short_name(child)}"
        )

    def _has_rows(self, count: int) -> Callable[[], bool]:
        return lambda: self._sink.row_count >= count

    def _wait(
        self, spark: SparkProcess, what: str, is_there: Callable[[], bool], limit_seconds: float
    ) -> None:
        deadline = self._clock.monotonic() + limit_seconds
        while not is_there():
            if self._clock.monotonic() > deadline:
                raise DemoError(f"waited {limit_seconds:.0f} s in vain for {what}; see {self._log}")
            self._watch(spark, seconds=WATCH_SECONDS)

    def _watch(self, spark: SparkProcess | None, seconds: float) -> None:
        """Shows the live line for so long, and notices if Spark has gone."""
        end = self._clock.monotonic() + seconds
        while True:
            if spark is not None:
                spark.check()
            self._sink.refresh()
            self._console.live(self._status(running=spark is not None))
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.sleep(min(left, WATCH_SECONDS))

    def _status(self, running: bool) -> str:
        put, rows = self._producer.count, self._sink.row_count
        commits = self._checkpoint.commits()
        batches = f"{commits[-1] + 1 if commits else 0} batches" if running else "Spark is down"
        shards = f"{len(self._kinesis.open_shards(STREAM))} open shards"
        return f"put {put:,} · in the sink {rows:,} · {batches} · {shards}"


def _verdict(result: AuditResult) -> list[str]:
    return [
        "",
        f"  records put    {result.put:>8,}",
        f"  rows in sink   {result.rows:>8,}   (read with spark.read.parquet)",
        f"  lost           {result.lost:>8,}",
        f"  repeated       {result.repeated:>8,}",
        f"  out of order   {result.out_of_order:>8,}   (within a partition key)",
        f"  changed        {result.changed:>8,}   (data, shard or sequence number)",
        "",
        "Every record once, in order." if result.passed else "FAILED: see the counts above.",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kinesis_source.demo", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="FOLDER")
    output = parser.parse_args().output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    clock = SystemClock()
    console = Console(sys.stdout, clock)
    try:
        with LocalKinesis() as kinesis:
            kinesis.create_stream(STREAM, shards=4)
            console.say(f"A local Kinesis stream '{STREAM}' with 4 shards: {kinesis.endpoint_url}")
            console.say(f"A producer puts numbered records for {len(KEYS)} partition keys.")
            console.say(f"Everything Spark writes is in {output}")
            result = Demo(output, kinesis, clock, console).run()
    except (DemoError, SparkFailedError) as error:
        console.say(f"\nFAILED: {error}")
        return 1
    except KeyboardInterrupt:
        console.say("\nInterrupted.")
        return 130
    for line in _verdict(result):
        console.say(line)
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main())
