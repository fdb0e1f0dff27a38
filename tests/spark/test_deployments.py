"""Executors in other processes, and the package installed rather than on the path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.testing import LocalKinesis
from tests.spark.attempts import attempts
from tests.spark.drivers import ROOT, environment, submit
from tests.spark.queries import STREAM, ledger_rows, options_of
from tests.spark.standalone import SPECULATION, standalone_cluster

pytestmark = pytest.mark.spark

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
    with standalone_cluster(tmp_path) as cluster:
        settings = {"spark.master": cluster.master, "spark.executor.memory": "1g"}
        settings |= SPECULATION
        with submit("available_now", arguments, tmp_path / "log", settings=settings) as driver:
            driver.finish()
    made = attempts(folder)
    assert set(made) == {(0, 0), (0, 1), (1, 0)}
    assert made[0, 0] == made[0, 1] != []
    assert sorted(result_of(arguments)["rows"]) == expected(filled)


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
