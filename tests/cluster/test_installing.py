"""The ways to put the package on a cluster, and what becomes of the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster.conftest import Say
from tests.cluster.orders import Orders
from tests.cluster.page import blocks, filled
from tests.cluster.runs import LIMIT_S, Run
from tests.spark.standalone import HOSTS

pytestmark = pytest.mark.cluster


def reads_all_through_a_reshard(run: Run, orders: Orders, say: Say) -> dict[str, set[str]]:
    """Records before, between and after a split and a merge, each once in the sink; which Python
    ran where."""
    orders.put()
    run.until_all_is_read()
    orders.split()
    orders.put()
    run.until_all_is_read()
    orders.merge()
    # Tasks on both workers at once, so that both are seen.
    run.hold()
    orders.put()
    run.until_held(2)
    pythons = run.pythons()
    run.release()
    run.until_all_is_read()
    say("reshards: 1 split, 1 merge")
    for process, commands in pythons.items():
        say(f"Python of {process}: {', '.join(sorted(commands))}")
    result, attempts = run.finish()
    assert result.passed
    assert {a.host for a in attempts} == set(HOSTS)
    assert {a.outcome for a in attempts} == {"Success"}
    return pythons


def test_installed_on_every_machine(
    run: Run, orders: Orders, made: Path, env: dict[str, str], say: Say
) -> None:
    command = filled(
        blocks("docs/clusters.md", "Installed on every machine")[1], {"/opt/job": str(made / "job")}
    )
    with run.submit(command, env):
        pythons = reads_all_through_a_reshard(run, orders, say)
    assert set().union(*pythons.values()) == {f"{made}/job/bin/python"}


def test_a_packed_environment(
    run: Run, orders: Orders, made: Path, env: dict[str, str], say: Say
) -> None:
    shutil.copy(made / "environment.tar.gz", run.submit_folder)
    with run.submit(blocks("docs/clusters.md", "A packed environment")[1], env):
        pythons = reads_all_through_a_reshard(run, orders, say)
    assert set().union(*pythons.values()) == {"./environment/bin/python"}


def test_with_another_python_for_the_driver_the_executors_run_that(
    run: Run, orders: Orders, made: Path, env: dict[str, str], say: Say
) -> None:
    """Spark's own instructions for archives set it."""
    shutil.copy(made / "environment.tar.gz", run.submit_folder)
    own = f"{made}/job/bin/python"
    with run.submit(
        blocks("docs/clusters.md", "A packed environment")[1], env | {"PYSPARK_DRIVER_PYTHON": own}
    ):
        orders.put()
        run.hold()
        run.until_held(2)
        pythons = run.pythons()
        run.release()
        run.until_all_is_read()
        for host in HOSTS:
            say(f"Python of {host}: {', '.join(sorted(pythons[host]))}")
        run.finish()
    assert pythons["planner"] == {own}
    # The job's UDF and the source.
    assert all(pythons[host] == {"./environment/bin/python", own} for host in HOSTS)


def test_standalone_has_no_cluster_mode_for_python(
    run: Run, made: Path, env: dict[str, str], say: Say
) -> None:
    shutil.copy(made / "environment.tar.gz", run.submit_folder)
    commands = blocks("docs/clusters.md", "A packed environment")[1]
    commands = filled(commands, {"--archives": "--deploy-mode cluster --archives"})
    with run.submit(commands, env) as driver:
        driver.fail(LIMIT_S)
    message = (
        "Cluster deploy mode is currently not supported for python applications on standalone "
        "clusters."
    )
    assert message in driver.log
    say(message)


def test_one_file_beside_the_installed_dependencies(
    run: Run, orders: Orders, made: Path, env: dict[str, str], say: Say
) -> None:
    shutil.copy(made / "kinesis.zip", run.submit_folder)
    command = filled(blocks("docs/clusters.md", "One file")[1], {"/opt": str(made)})
    with run.submit(command, env):
        pythons = reads_all_through_a_reshard(run, orders, say)
    assert set().union(*pythons.values()) == {f"{made}/dependencies/bin/python"}


REGISTERED = """
from pyspark_kinesis import DefaultSource
spark.dataSource.register(DefaultSource)
"""
BY_VALUE = """
import kinesis_source
from kinesis_source.spark.source import KinesisDataSource
from pyspark import cloudpickle
cloudpickle.register_pickle_by_value(kinesis_source)
spark.dataSource.register(KinesisDataSource)
"""


@pytest.mark.parametrize(
    ("before", "error"),
    [
        pytest.param("", "[DATA_SOURCE_NOT_FOUND]", id="by name"),
        pytest.param(REGISTERED, "ModuleNotFoundError: No module named", id="registered"),
        pytest.param(BY_VALUE, "cannot pickle '_thread.lock' object", id="by value"),
    ],
)
def test_py_files_alone_do_not_do(
    run: Run, made: Path, env: dict[str, str], say: Say, before: str, error: str
) -> None:
    shutil.copy(made / "kinesis.zip", run.submit_folder)
    command = filled(
        blocks("docs/clusters.md", "One file")[1],
        {"/opt": str(made), "export PYTHONPATH=kinesis.zip\n": ""},
    )
    with run.submit(command, env, before=before) as driver:
        driver.fail(LIMIT_S)
    found = [line for line in run.errors() if error in line]
    assert found, run.errors()
    say(found[-1][:200])
