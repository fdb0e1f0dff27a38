"""A standalone cluster: a master and two workers of one core, each a process of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.spark.drivers import SPARK_CLASS, Process, environment

MASTER = re.compile(r"spark://127\.0\.0\.1:\d+")
#: Spark does not speculate on the host of the first attempt, so each worker has its own.
HOSTS = ("127.0.0.1", "127.0.0.2")
QUICK_DAEMONS = {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
#: A task that lags is started a second time, and for no other reason.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.task.maxFailures": "1",
}


@dataclass(frozen=True)
class Cluster:
    """`master`: its address. `workers`: by host; killing one takes its executor with it."""

    master: str
    workers: Mapping[str, Process]


@contextmanager
def standalone_cluster(
    folder: Path, env: Mapping[str, str] | None = None, spark_class: Path = SPARK_CLASS
) -> Iterator[Cluster]:
    """Logs and the workers' folders are in `folder`. `env`: of all of them, without their hosts."""
    log, env = folder / "master.log", {**(env or environment()), **QUICK_DAEMONS}
    deploy = [str(spark_class)]
    with ExitStack() as stack:
        command = [*deploy, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        command += ["--port", "0", "--webui-port", "0"]
        master = stack.enter_context(Process(command, log, env, folder))
        master.until(lambda: MASTER.search(master.log), "the master's address")
        found = MASTER.search(master.log)
        assert found is not None
        workers = {}
        for host in HOSTS:
            command = [*deploy, "org.apache.spark.deploy.worker.Worker", found[0], "--host", host]
            command += ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
            command += ["--work-dir", str(folder / host)]
            own = env | {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host}
            workers[host] = stack.enter_context(
                Process(command, folder / f"{host}.log", own, folder)
            )
        master.until(lambda: master.log.count("Registering worker") == 2, "two workers")
        yield Cluster(found[0], workers)
