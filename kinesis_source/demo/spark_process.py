"""A Spark driver in a process group of its own: Python and the JVM, which die together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

#: Enough log lines to hold the traceback that ended a query.
TAIL_LINES = 40

#: A small Spark without a web page, whose JVM starts fast rather than runs fast for hours.
SPARK_CONF = {
    "spark.master": "local[2]",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SparkFailedError(Exception):
    """The Spark process ended by itself with an error, or did not end when asked."""


class SparkProcess:
    """`python -m MODULE ARGUMENTS…` with `SPARK_CONF`; all it prints is appended to `log`.

    Use as a context manager: leaving it kills what is still running.
    """

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self._log = log
        conf = " ".join(f"--conf {name}={value}" for name, value in SPARK_CONF.items())
        environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        }
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """Of the Python driver, and of the process group."""
        return self._process.pid

    def check(self) -> None:
        """Raises `SparkFailedError` with the end of the log if the process is no longer there."""
        if self._process.poll() is not None:
            raise SparkFailedError(
                f"Spark ended with status {self._process.returncode}. The end of {self._log}:\n"
                + self._log_tail()
            )

    def freeze(self) -> None:
        """SIGSTOP: Python and the JVM stand still, and can be looked at."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no handler, no clean-up, no last commit. Nothing if it has ended already."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def finish(self, timeout_seconds: float) -> None:
        """Close its standard input and wait for it to end by itself, successfully."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise SparkFailedError(
                f"Spark did not end within {timeout_seconds:.0f} s. The end of {self._log}:\n"
                + self._log_tail()
            ) from None
        if status != 0:
            self.check()

    def _log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])
