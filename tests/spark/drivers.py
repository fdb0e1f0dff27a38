"""Spark drivers in processes of their own, for what must be killed or needs another master."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark

from kinesis_source.clock import SystemClock

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
CLOCK = SystemClock()
LIMIT_S = 90

#: A small Spark without a web page, whose JVM starts fast rather than runs fast for hours.
SMALL_SPARK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def environment(python_path: Path = ROOT, **more: str) -> dict[str, str]:
    """Of a process that starts Spark: nothing of this one's AWS configuration."""
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("AWS_")}
    return inherited | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(python_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        **more,
    }


class Process:
    """A process in a group of its own that prints to a file. Leaving the block kills it."""

    def __init__(
        self, command: list[str], log: Path, env: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL to the whole group, Python and the JVM: no handler, no last commit."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def until(self, condition: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
        """Poll until it is so; fails with the log's end if the process ends or it lasts."""
        deadline = CLOCK.monotonic() + limit_s
        while not condition():
            status = self._process.poll()
            assert status is None, f"ended with {status} before {what}:\n{self._tail()}"
            assert CLOCK.monotonic() < deadline, f"{limit_s} s in vain for {what}:\n{self._tail()}"
            CLOCK.sleep(0.01)

    def finish(self, limit_s: float = LIMIT_S) -> None:
        """Wait until it ends by itself, with success."""
        status = self._ended(limit_s)
        assert status == 0, f"ended with {status}:\n{self._tail()}"

    def fail(self, limit_s: float = LIMIT_S) -> None:
        """Wait until it ends by itself, with an error."""
        assert self._ended(limit_s) != 0, f"ended without an error:\n{self._tail()}"

    def _ended(self, limit_s: float) -> int:
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit_s} s:\n{self._tail()}") from None

    def _tail(self) -> str:
        return "\n".join(self.log.splitlines()[-60:])


def submit(
    job: str,
    arguments: Mapping[str, object],
    log: Path,
    *,
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """`spark-submit jobs/<job>.py` with its arguments as JSON."""
    conf = SMALL_SPARK | {"spark.master": "local[2]"} | dict(settings or {})
    command = [str(SPARK_SUBMIT)]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(JOBS / f"{job}.py"), json.dumps(arguments)]
    return Process(command, log, env or environment(), cwd)
