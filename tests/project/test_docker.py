"""docker/ is right, as far as can be said without a Docker engine.

The compose file is parsed and held against the code; the Dockerfile's COPY and pip commands are run
in a folder and a virtual environment of their own.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinesis_source.options import Options
from kinesis_source.testing import LocalKinesis

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]


def dockerfile_steps() -> list[tuple[str, str]]:
    """(instruction, rest) of each line, continued lines joined, comments dropped."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]  # type: ignore[misc]


def copied_paths() -> set[str]:
    return {
        source
        for instruction, rest in dockerfile_steps()
        if instruction == "COPY"
        for source in rest.split()[:-1]
    }


def test_the_services_are_the_stream_a_producer_and_the_job() -> None:
    assert set(SERVICES) == {"kinesis", "producer", "job"}
    for service in SERVICES.values():
        assert (DOCKER / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert all(
        SERVICES[name]["depends_on"]["kinesis"]["condition"] == "service_healthy"
        for name in ("producer", "job")
    )


def test_the_stream_serves_where_the_others_look_for_it() -> None:
    python, dash_m, module, *arguments = SERVICES["kinesis"]["command"]
    assert (python, dash_m) == ("python", "-m")
    assert importlib.util.find_spec(f"{module}.__main__") is not None
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    for name in ("producer", "job"):
        environment = SERVICES[name]["environment"]
        assert environment["KINESIS_ENDPOINT"] == f"http://kinesis:{options['--port']}"
        assert environment["STREAM_NAME"] == options["--stream"]
    assert SERVICES["kinesis"]["ports"] == [f"127.0.0.1:{options['--port']}:{options['--port']}"]
    assert options["--host"] == "0.0.0.0"


def test_the_local_stream_starts_with_the_arguments_of_the_compose_file() -> None:
    _, *arguments = SERVICES["kinesis"]["command"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    arguments = [{"0.0.0.0": "127.0.0.1", "4567": port}.get(word, word) for word in arguments]
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert port in process.stdout.readline()
        (_, _, probe) = SERVICES["kinesis"]["healthcheck"]["test"][1:]
        subprocess.run([sys.executable, "-c", probe.replace("4567", port)], check=True)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("name", ["producer", "job"])
def test_what_a_service_runs_is_in_the_image(name: str) -> None:
    python, script = SERVICES[name]["command"]
    assert python == "python"
    copied = [
        rest.split()[:-1] for instruction, rest in dockerfile_steps() if instruction == "COPY"
    ]
    assert f"docker/{script}" in [source for sources in copied for source in sources]


def test_the_jobs_options_are_options_of_the_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SERVICES["job"]["environment"].items():
        monkeypatch.setenv(name, value)
    options = Options.parse(runpy.run_path(str(DOCKER / "job.py"))["connector_options"]())
    assert options.stream_name == "orders"
    assert options.endpoint_url == "http://kinesis:4567"


def test_all_that_is_copied_is_sent_to_the_docker_engine() -> None:
    """.dockerignore leaves out everything but what it names after a `!`."""
    kept = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert copied_paths() == kept


@dataclass(frozen=True)
class Image:
    """What the Dockerfile's COPY and pip commands made: its last WORKDIR and its programs."""

    folder: Path
    programs: Path


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    root = tmp_path_factory.mktemp("image")
    programs = root / "environment" / "bin"
    venv.create(programs.parent, with_pip=True)
    variables = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    folder = root
    for instruction, rest in dockerfile_steps():
        if instruction == "WORKDIR":
            folder = root / rest.lstrip("/")
            folder.mkdir(parents=True)
        elif instruction == "COPY":
            *sources, target = shlex.split(rest)
            for source in sources:
                _copy(ROOT / source, folder / target, into=len(sources) > 1)
        elif instruction == "RUN" and rest.startswith("pip "):
            subprocess.run(shlex.split(rest), cwd=folder, env=variables, check=True)
    return Image(folder, programs)


@pytest.mark.timeout(600)
def test_the_image_has_the_connector_installed(image: Image) -> None:
    found = subprocess.run(
        [
            image.programs / "python",
            "-c",
            "from pyspark_kinesis import DefaultSource; print(DefaultSource.name());"
            "import kinesis_source; print(kinesis_source.__file__)",
        ],
        # From another folder than the source, so that only what was installed can be found.
        cwd=image.folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert found[0] == "kinesis"
    assert found[1].startswith(str(image.programs.parent))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_submit_runs_the_example_job_in_the_image(
    image: Image, local_kinesis: LocalKinesis
) -> None:
    local_kinesis.create_stream("orders", shards=2)
    local_kinesis.put("orders", b"order from the compose file", "customer-1")
    variables = os.environ | SERVICES["job"]["environment"]
    variables |= {
        "KINESIS_ENDPOINT": local_kinesis.endpoint_url,
        "PATH": f"{image.programs}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": "python3",
        "PYSPARK_DRIVER_PYTHON": "python3",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    # Another Spark than the image's must not be taken.
    variables.pop("SPARK_HOME", None)
    with subprocess.Popen(
        ["spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false", "job.py"],
        cwd=image.folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as job:
        assert job.stdout is not None
        try:
            printed = next((line for line in job.stdout if "order from" in line), None)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert printed is not None, "the job ended without printing the record"
    assert "customer-1" in printed


def _copy(source: Path, target: Path, into: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target / source.name if into else target)
