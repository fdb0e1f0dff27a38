"""A run: kills at random moments, restarts, and in the end the sinks against the ledger.

A kill is due at a random moment after every query has committed a batch since the last one,
or, once in three, as soon as a query is inside a batch (an offset without its commit), or, once
in six, a moment after a query has started and before it has got anywhere. The run fails

* where a query failed with the connector in its traceback;
* where a query does not commit a batch within `RECOVERY_LIMIT_S` after a kill;
* where in the end a sink lacks a record, has one twice, changed, or out of order in its key.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kinesis_source.clock import SystemClock
from kinesis_source.demo.audit import AuditResult, audit
from kinesis_source.demo.spark_files import Checkpoint
from kinesis_source.testing import LocalKinesis
from tests.crash import victims
from tests.crash.job import QUERIES
from tests.crash.load import STREAM, Load
from tests.crash.sinks import rows_of_batches, rows_of_parquet
from tests.crash.victims import Victim
from tests.spark.drivers import SMALL_SPARK, Process, environment

CLOCK = SystemClock()
#: The Parquet sink's log is kept whole, since it tells the batch of each file.
SPARK = SMALL_SPARK | {"spark.sql.streaming.fileSink.log.deletion": "false"}
RECOVERY_LIMIT_S = 120.0
MOST_OWN_FAILURES = 5
#: A planner or worker kill costs seconds, a driver's the start of a JVM.
WEIGHTS = {Victim.DRIVER: 3, Victim.PLANNER: 3, Victim.WORKERS: 2, Victim.WORKER: 2}


class CrashRunError(AssertionError):
    """A query failed of the connector."""


class CrashRun:
    """One run in an empty folder. `say` gets a line for each kill."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._rng = random.Random(seed)
        self._say = say
        self._events_read = 0
        self._checkpoints = {name: Checkpoint(folder / name / "checkpoint") for name in QUERIES}
        #: Something of the running driver was killed.
        self._hurt = False
        self.kills: Counter[str] = Counter()
        self.failures_survived = 0
        #: Of Spark itself, without a kill. Seen: "Task serialization failed: Illegal size 5 of
        #: collection, expected 7", and then for every task of that JVM.
        self.own_failures = 0

    def run(self, plan: list[Victim]) -> dict[str, AuditResult]:
        """Carry out the kills in order; the audit of each sink. Raises `AssertionError` where
        a query fails by itself, does not recover, or Spark ends."""
        with LocalKinesis(seed=self._rng.randrange(2**32)) as kinesis:
            self._options = {
                **kinesis.spark_options(STREAM),
                "startingPosition": "TRIM_HORIZON",
                "minFetchPeriod": "200ms",
                "shardFetchInterval": "500ms",
            }
            with Load(kinesis, CLOCK, random.Random(self._rng.random())) as load:
                self._start()
                try:
                    for number, victim in enumerate(plan, 1):
                        self._kill(number, victim)
                    self._recovered()
                    load.stop()
                    self._drain(load.count)
                finally:
                    self._process.kill()
                self._say(
                    f"{load.count} records, {load.splits} splits, {load.merges} merges, "
                    f"{' and '.join(map(str, self._batches_done().values()))} batches; kills: "
                    + ", ".join(f"{count} {what}" for what, count in sorted(self.kills.items()))
                    + f"; {self.failures_survived} failures of a query survived, "
                    f"{self.own_failures} of them Spark's own"
                )
                accepted = load.accepted()
        done = self._batches_done()["batches"]
        batches = rows_of_batches(self._folder / "batches" / "sink", done)
        parquet = rows_of_parquet(self._folder / "parquet" / "sink")
        return {"parquet": audit(accepted, parquet), "batches": audit(accepted, batches)}

    def _start(self) -> None:
        """A new driver. What may change with a restart does."""
        options = self._options | {"shardsPerTask": str(self._rng.choice((1, 2, 8)))}
        if self._rng.random() < 0.3:
            options["maxRecordsPerTrigger"] = "300"
        arguments = {
            "options": options,
            # One attempt a task, or two.
            "master": self._rng.choice(("local[2]", "local[2,2]")),
            "folder": str(self._folder),
            "parent": os.getpid(),
        }
        conf = " ".join(f"--conf {name}={value}" for name, value in SPARK.items())
        self._process = Process(
            [sys.executable, "-m", "tests.crash.job", json.dumps(arguments)],
            self._folder / "spark.log",
            environment(PYSPARK_SUBMIT_ARGS=f"{conf} pyspark-shell"),
        )
        self._driver = 0
        self._started: set[str] = set()
        self._hurt = False
        self._committed = self._batches_done()

    def _kill(self, number: int, victim: Victim) -> None:
        moment = self._rng.choice(("any", "any", "any", "in a batch", "in a batch", "at start"))
        if moment == "at start":
            self._until(lambda: self._started == set(QUERIES), "the queries' start")
        else:
            self._recovered()
        if moment == "in a batch":
            self._until(lambda: self._inside() != "", "a batch")
            CLOCK.sleep(self._rng.choice((0.0, 0.05, 0.2)))
        else:
            CLOCK.sleep(self._rng.uniform(0.0, 2.0))
        self._read_events()
        inside = ""

        def strike() -> bool:
            nonlocal inside
            found = victims.find(self._driver, victim, self._rng)
            inside = self._inside()
            if victims.kill(found, victim):
                return True
            CLOCK.sleep(0.1)
            return False

        self._until(strike, f"a process to kill: {victim.value}")
        self._hurt = True
        self._committed = self._batches_done()
        self.kills[victim.value] += 1
        if inside:
            self.kills["inside a batch"] += 1
        self._say(f"kill {number}: {victim.value} {moment}, {inside or 'between batches'}")
        if victim is Victim.DRIVER:
            self._process.kill()
            self._read_events()
            self._start()

    def _batches_done(self) -> dict[str, int]:
        """By query. Spark keeps only the newest hundred of its log, so they cannot be counted."""
        commits = {name: c.commits() for name, c in self._checkpoints.items()}
        return {name: ids[-1] + 1 if ids else 0 for name, ids in commits.items()}

    def _inside(self) -> str:
        """The queries inside a batch, and which."""
        open_batches = {n: c.unfinished_batch() for n, c in self._checkpoints.items()}
        return ", ".join(f"{n} batch {b}" for n, b in open_batches.items() if b is not None)

    def _recovered(self) -> None:
        """Each query has committed a batch since the last kill or start."""
        self._until(
            lambda: all(done > self._committed[n] for n, done in self._batches_done().items()),
            "a committed batch of each query",
        )

    def _drain(self, put: int) -> None:
        """Nothing more comes: wait until no offset moves and both sinks have what they get."""
        unchanged_since, last = CLOCK.monotonic(), self._batches_done()

        def still() -> bool:
            nonlocal unchanged_since, last
            if self._batches_done() != last or self._inside():
                unchanged_since, last = CLOCK.monotonic(), self._batches_done()
            return CLOCK.monotonic() - unchanged_since > 5.0

        self._until(still, f"the queries to become quiet after {put} records")
        (self._folder / "stop").touch()
        self._process.finish()
        self._read_events()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        """Fails if the driver ends, or with every driver started meanwhile it lasts too long."""
        holds = False

        def holds_or_restarted() -> bool:
            nonlocal holds
            self._read_events()
            holds = condition()
            return holds or self._process is not process

        while not holds:
            process = self._process
            process.until(holds_or_restarted, what, RECOVERY_LIMIT_S)

    def _read_events(self) -> None:
        """Take in what the job has told; raises if the connector is in a failure's traceback."""
        path = self._folder / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        for line in whole[self._events_read :]:
            self._events_read += 1
            event = json.loads(line)
            name = event["query"]
            if event["event"] == "started":
                self._driver = event["pid"]
                self._started.add(name)
            elif "kinesis_source/" in event["detail"]:
                raise CrashRunError(f"{name} {event['event']}:\n{event['detail']}")
            elif event["event"] == "failed":
                self._started.discard(name)
                self.failures_survived += 1
                if not self._is_explained(name):
                    self._restart_broken_spark(f"{name}: {event['detail'][:200]}")
                    return

    def _restart_broken_spark(self, failure: str) -> None:
        self.own_failures += 1
        self._say(f"Spark failed by itself and is started anew; {failure}")
        if self.own_failures > MOST_OWN_FAILURES:
            raise CrashRunError(f"Spark failed by itself {self.own_failures} times; {failure}")
        self._process.kill()
        self._start()

    def _is_explained(self, name: str) -> bool:
        """Whether a kill is to blame: not once the query has done a whole batch since. (The first
        one committed after a kill began before it.)"""
        whole_batch = self._batches_done()[name] > self._committed[name] + 1
        return self._hurt and not whole_batch


def plan(kills: int, rng: random.Random) -> list[Victim]:
    """Every kind in turn as `WEIGHTS` has it, in random order."""
    kinds = [victim for victim, weight in WEIGHTS.items() for _ in range(weight)]
    repeated = (kinds * (kills // len(kinds) + 1))[:kills]
    rng.shuffle(repeated)
    return repeated
