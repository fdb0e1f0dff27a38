"""Executors in other processes, and the package installed rather than on the path."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.testing import LocalKinesis
from tests.spark.attempts import attempts
from tests.spark.drivers import ROOT, SPARK_CLASS, Process, environment, submit
from tests.spark.queries import STREAM, ledger_rows, options_of

pytestmark = pytest.mark.spark

MASTER = re.compile(r"spark://127\.0\.0\.1:\d+")
CREDENTIAL_OPTIONS = ("awsAccessKeyId", "awsSecretKey")


@pytest.fixture
def filled(kinesis: LocalKinesis) -> LocalKinesis:
    """Two shards with records."""
    kinesis.create_stream(STREAM, shards=2)
    for number in range(200):
        kinesis.put(STREAM, b"record %d" % number, f"key {number % 11}")
    return kinesis


def result_of(arguments: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(Path(arguments["result"]).read_text())
    return result


def expected(kinesis: LocalKinesis) -> list[list[str]]:
    return [[row.shard_id, row.sequence_number, row.data.hex()] for row in ledger_rows(kinesis)]


def arguments_for(kinesis: LocalKinesis, tmp_path: Path, **options: object) -> dict[str, Any]:
    return {
        "options": options_of(kinesis, **options),
        "checkpoint": str(tmp_path / "checkpoint"),
        "result": str(tmp_path / "result.json"),
    }


def test_a_speculative_attempt_is_given_the_same_rows(filled: LocalKinesis, tmp_path: Path) -> None:
    folder = tmp_path / "attempts"
    folder.mkdir()
    arguments = arguments_for(filled, tmp_path, shardsPerTask=1)
    arguments["attempts"] = [str(folder), "hangs"]
    with standalone_cluster(tmp_path) as master:
        settings = {
            "spark.master": master,
            "spark.executor.memory": "1g",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.1",
            # Nothing else may run a task twice.
            "spark.task.maxFailures": "1",
        }
        with submit("available_now", arguments, tmp_path / "log", settings=settings) as driver:
            driver.finish()
    made = attempts(folder)
    assert set(made) == {(0, 0), (0, 1), (1, 0)}
    assert made[0, 0] == made[0, 1] != []
    assert sorted(result_of(arguments)["rows"]) == expected(filled)


@contextmanager
def standalone_cluster(tmp_path: Path) -> Iterator[str]:
    """A master and two workers of one core; its address. The workers are on two addresses, since
    Spark does not speculate on the host of the first attempt."""
    log, deploy = tmp_path / "master.log", [str(SPARK_CLASS)]
    quick = {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
    with ExitStack() as stack:
        command = [*deploy, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        command += ["--port", "0", "--webui-port", "0"]
        master = stack.enter_context(Process(command, log, environment(**quick), tmp_path))
        master.until(lambda: MASTER.search(master.log), "the master's address")
        found = MASTER.search(master.log)
        assert found is not None
        for host in ("127.0.0.1", "127.0.0.2"):
            command = [*deploy, "org.apache.spark.deploy.worker.Worker", found[0], "--host", host]
            command += ["--cores", "1", "--memory", "1g", "--webui-port", "0"]
            command += ["--work-dir", str(tmp_path / host)]
            env = environment(SPARK_LOCAL_IP=host, SPARK_LOCAL_HOSTNAME=host, **quick)
            stack.enter_context(Process(command, tmp_path / f"{host}.log", env, tmp_path))
        master.until(lambda: master.log.count("Registering worker") == 2, "two workers")
        yield found[0]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folder of the package, as pip installs it."""
    target = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--target", str(target), str(ROOT)]
    subprocess.run(command, check=True, cwd=tmp_path)
    return target


def test_the_installed_package_runs_on_a_cluster_with_credentials_from_the_environment(
    filled: LocalKinesis, installed: Path, tmp_path: Path
) -> None:
    options = options_of(filled)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    credentials = {
        name: options.pop(option) for name, option in zip(names, CREDENTIAL_OPTIONS, strict=True)
    }
    arguments = arguments_for(filled, tmp_path) | {"options": options}
    env = environment(installed, **credentials)
    settings = {"spark.master": "local-cluster[2,1,1024]"}
    with submit(
        "available_now", arguments, tmp_path / "log", settings=settings, env=env, cwd=tmp_path
    ) as driver:
        driver.finish()
    assert sorted(result_of(arguments)["rows"]) == expected(filled)
    assert result_of(arguments)["imported"] == [str(installed / "kinesis_source" / "__init__.py")]
