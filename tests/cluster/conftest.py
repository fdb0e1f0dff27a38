"""The environments, the cluster and the log of `make cluster`.

`CLUSTER` names the folder that `tests.cluster.environments` has filled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kinesis_source.clock import SystemClock
from kinesis_source.testing import LocalKinesis
from tests.cluster.orders import Orders
from tests.cluster.runs import Run, shell_environment, spark_home
from tests.spark.standalone import Cluster, standalone_cluster

Say = Callable[[str], None]
CLOCK = SystemClock()


@pytest.fixture(scope="session")
def made() -> Path:
    return Path(os.environ["CLUSTER"])


@pytest.fixture(scope="session")
def log(made: Path) -> Say:
    """A line to the screen and to `log.txt`, with the time since the start."""
    path, started = made / "log.txt", CLOCK.monotonic()
    path.unlink(missing_ok=True)

    def write(text: str) -> None:
        minutes, seconds = divmod(int(CLOCK.monotonic() - started), 60)
        line = f"[{minutes}:{seconds:02}] {text}"
        print(line, flush=True)
        with path.open("a") as file:
            file.write(line + "\n")

    return write


@pytest.fixture
def say(log: Say, request: pytest.FixtureRequest) -> Say:
    """The test's name, once, and its lines below it."""
    print()
    log("== " + request.node.name.removeprefix("test_").replace("_", " "))
    return lambda text: log(f"   {text}")


@pytest.fixture(scope="session")
def env(made: Path) -> dict[str, str]:
    """Of a machine of the cluster, with no Python chosen."""
    return shell_environment(made)


@pytest.fixture(scope="session")
def shared_cluster(
    made: Path, env: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """For what hurts no worker."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(folder, env, spark_home(made) / "bin" / "spark-class") as cluster:
        yield cluster


@pytest.fixture
def own_cluster(made: Path, env: dict[str, str], tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path, env, spark_home(made) / "bin" / "spark-class") as cluster:
        yield cluster


@pytest.fixture
def kinesis() -> Iterator[LocalKinesis]:
    with LocalKinesis(seed=1) as local:
        yield local


@pytest.fixture
def orders(kinesis: LocalKinesis) -> Orders:
    return Orders(kinesis)


@pytest.fixture
def run(tmp_path: Path, shared_cluster: Cluster, orders: Orders, say: Say) -> Run:
    """Not yet submitted, on the shared cluster."""
    return Run(tmp_path, shared_cluster, orders, say)
