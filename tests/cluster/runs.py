"""One job on the cluster: submitted by the page's commands, watched from outside, and judged."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from kinesis_source.demo.audit import AuditResult, SinkRow, audit
from kinesis_source.demo.spark_files import Checkpoint
from tests.cluster import event_log
from tests.cluster.event_log import Attempt
from tests.cluster.orders import Orders
from tests.crash.sinks import rows_of_batches, rows_of_parquet
from tests.crash.victims import descendants
from tests.spark.drivers import SMALL_SPARK, Process
from tests.spark.standalone import Cluster

#: Of one step. A cluster has six JVMs, and a machine two cores.
LIMIT_S = 240
JOB = Path(__file__).parent / "jobs" / "job.py"
#: The master's address in the page.
MASTER = "spark://host:7077"
PLANNER = "python_streaming_source_runner"


class Run:
    """A folder with the job, its driver while it runs, and what is to be read from both.

    `submit/` is the driver's working directory, `job/` the sink's and the checkpoint's.
    """

    def __init__(
        self, folder: Path, cluster: Cluster, orders: Orders, say: Callable[[str], None]
    ) -> None:
        self.folder = folder
        self._cluster = cluster
        self._orders = orders
        self._say = say
        self._rows: tuple[int, list[SinkRow]] = (0, [])
        self.submit_folder, self.job_folder = folder / "submit", folder / "job"
        for made in (self.submit_folder, self.job_folder, folder / "conf", folder / "events"):
            made.mkdir(parents=True)
        shutil.copy(JOB, self.submit_folder)
        self._checkpoint = Checkpoint(self.job_folder / "checkpoint")

    def submit(
        self,
        commands: str,
        env: Mapping[str, str],
        *,
        sink: str = "parquet",
        before: str = "",
    ) -> Process:
        """Run the commands in a shell. `before`: Python that the job runs with `spark` first."""
        self._sink = sink
        arguments = {"options": self._orders.options, "folder": str(self.job_folder)}
        arguments |= {"sink": sink, "before": before}
        (self.submit_folder / "arguments.json").write_text(json.dumps(arguments))
        conf = SMALL_SPARK | event_log.SETTINGS | {"spark.executor.memory": "1g"}
        conf["spark.eventLog.dir"] = f"file:{self.folder}/events"
        defaults = self.folder / "conf" / "spark-defaults.conf"
        defaults.write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
        for line in commands.strip().splitlines():
            self._say(f"$ {line}")
        self._say(f"master {self._cluster.master}, workers {', '.join(self._cluster.workers)}")
        commands = commands.replace(MASTER, self._cluster.master)
        self.driver = Process(
            ["bash", "-ec", commands],
            self.folder / "driver.log",
            {**env, "SPARK_CONF_DIR": str(self.folder / "conf")},
            self.submit_folder,
        )
        return self.driver

    # While it runs

    def until_all_is_read(self) -> None:
        """Every record put so far has a row."""
        put = len(self._orders.accepted())
        self._until(lambda: len(self.rows()) >= put, f"{put} rows")

    def until_held(self, attempts: int) -> list[str]:
        """That many attempts of tasks stand still; `host-partition-attempt` of each."""

        def held() -> list[str]:
            return sorted(p.name.removeprefix("held-") for p in self.job_folder.glob("held-*"))

        self._until(lambda: len(held()) >= attempts, f"{attempts} attempts that stand still")
        return held()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        self.driver.until(condition, what, LIMIT_S)

    def hold(self) -> None:
        (self.job_folder / "hold").touch()

    def release(self) -> None:
        (self.job_folder / "hold").unlink()

    def pythons(self) -> dict[str, set[str]]:
        """The commands that run Python: "driver" for the job itself, "planner", and by host of the
        executors."""
        below = [command for _, command in descendants(self.driver.pid).values()]
        found = {
            "driver": {c.split()[0] for c in below if c.endswith("job.py") and "java" not in c},
            "planner": {c.split()[0] for c in below if PLANNER in c},
        }
        for host, worker in self._cluster.workers.items():
            commands = [command for _, command in descendants(worker.pid).values()]
            found[host] = {c.split()[0] for c in commands if "pyspark.daemon" in c}
        return found

    def batches(self) -> int:
        commits = self._checkpoint.commits()
        return commits[-1] + 1 if commits else 0

    def rows(self) -> list[SinkRow]:
        """Of the committed batches."""
        done = self.batches()
        if done != self._rows[0]:
            sink = self.job_folder / "sink"
            parquet = self._sink == "parquet"
            self._rows = (done, rows_of_parquet(sink) if parquet else rows_of_batches(sink, done))
        return self._rows[1]

    # In the end

    def finish(self) -> tuple[AuditResult, list[Attempt]]:
        """Stop the job, and say what it did."""
        (self.job_folder / "stop").touch()
        self.driver.finish(LIMIT_S)
        attempts = event_log.attempts(self.folder / "events")
        self._say(f"attempts of tasks: {_counted(attempts)}")
        result = audit(self._orders.accepted(), self.rows())
        self._say(
            f"batches {self.batches()}; put {result.put}, rows {result.rows}: lost {result.lost}, "
            f"repeated {result.repeated}, out of order {result.out_of_order}, "
            f"changed {result.changed}"
        )
        return result, attempts

    def errors(self) -> list[str]:
        """The lines of the driver's log that name an error, each once."""
        lines = (line.strip() for line in self.driver.log.splitlines())
        marks = ("Error: ", "Exception: ")
        found = [line for line in lines if any(mark in line for mark in marks)]
        return list(dict.fromkeys(found))


def _counted(attempts: list[Attempt]) -> str:
    counts = Counter((a.host, a.outcome) for a in attempts)
    return ", ".join(f"{n} {outcome} on {host}" for (host, outcome), n in sorted(counts.items()))


def shell_environment(folder: Path) -> dict[str, str]:
    """Of a machine of the cluster: Spark of `folder/job` on the path, and no Python chosen."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PYSPARK_", "PYTHON", "SPARK_"))
    }
    home = spark_home(folder)
    return inherited | {
        "SPARK_HOME": str(home),
        "PATH": f"{home}/bin:{inherited['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }


def spark_home(folder: Path) -> Path:
    """Of the PySpark installed for the machines of the cluster."""
    (home,) = (folder / "job").glob("lib/python*/site-packages/pyspark")
    return home
