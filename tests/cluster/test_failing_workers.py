"""A worker that dies in a batch, and tasks that are run twice at once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cluster import event_log
from tests.cluster.conftest import Say
from tests.cluster.event_log import Attempt
from tests.cluster.orders import Orders
from tests.cluster.page import blocks, filled
from tests.cluster.runs import LIMIT_S, Run
from tests.spark.attempts import attempts
from tests.spark.drivers import ROOT, submit
from tests.spark.standalone import HOSTS, SPECULATION, Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def command(made: Path) -> str:
    return filled(
        blocks("docs/clusters.md", "Installed on every machine")[1], {"/opt/job": str(made / "job")}
    )


@pytest.mark.parametrize("sink", ["parquet", "batches"])
def test_a_worker_killed_in_a_batch(
    own_cluster: Cluster,
    tmp_path: Path,
    orders: Orders,
    command: str,
    env: dict[str, str],
    say: Say,
    sink: str,
) -> None:
    """With its executor. The other one gets its tasks, and every record comes once."""
    run = Run(tmp_path / "run", own_cluster, orders, say)
    with run.submit(command, env, sink=sink):
        orders.put()
        run.until_all_is_read()
        run.hold()
        orders.put()
        held = run.until_held(2)
        say(f"in the middle of batch {run.batches()}: {', '.join(held)} (host-partition-attempt)")
        own_cluster.workers[HOSTS[1]].kill()
        say(f"SIGKILL to the worker on {HOSTS[1]} and its executor")
        run.release()
        run.until_all_is_read()
        orders.put()
        run.until_all_is_read()
        result, made_attempts = run.finish()
    assert {one.split("-")[0] for one in held} == set(HOSTS)
    assert result.passed
    lost = _tasks(a for a in made_attempts if a.outcome == "ExecutorLostFailure")
    again = _tasks(a for a in made_attempts if a.attempt > 0 and a.outcome == "Success")
    assert lost
    assert lost <= again


def _tasks(made_attempts: Iterable[Attempt]) -> set[tuple[int, int]]:
    return {(a.stage, a.partition) for a in made_attempts}


def test_speculation(
    shared_cluster: Cluster,
    tmp_path: Path,
    orders: Orders,
    made: Path,
    env: dict[str, str],
    say: Say,
) -> None:
    """The first attempt of a task hangs when it has been given all its rows; another one is started
    on the other worker, and is given the same."""
    orders.put()
    given, events = tmp_path / "given", tmp_path / "events"
    given.mkdir()
    events.mkdir()
    arguments = {"options": orders.options, "checkpoint": str(tmp_path / "checkpoint")}
    arguments |= {"result": str(tmp_path / "result.json"), "attempts": [str(given), "hangs"]}
    settings = {"spark.master": shared_cluster.master, "spark.executor.memory": "1g"}
    settings |= SPECULATION | event_log.SETTINGS | {"spark.eventLog.dir": f"file:{events}"}
    # For the step that keeps what it is given, on driver and executors.
    env = env | {"PYSPARK_PYTHON": f"{made}/job/bin/python", "PYTHONPATH": str(ROOT)}
    settings["spark.executorEnv.PYTHONPATH"] = str(ROOT)
    with submit(
        "available_now", arguments, tmp_path / "driver.log", settings=settings, env=env
    ) as driver:
        driver.finish(LIMIT_S)
    rows = attempts(given)
    logged = event_log.attempts(events)
    (second,) = [a for a in logged if a.speculative]
    of_the_task = [a for a in logged if (a.stage, a.partition) == (second.stage, 0)]
    (first,) = [a for a in of_the_task if not a.speculative]
    for what, attempt in (("first", first), ("speculative", second)):
        given_rows = len(rows[0, attempt.attempt])
        say(f"{what} attempt on {attempt.host}: given {given_rows} rows, then {attempt.outcome}")
    assert {first.host, second.host} == set(HOSTS)
    assert rows[0, 0] == rows[0, 1] != []
    found = json.loads((tmp_path / "result.json").read_text())["rows"]
    put = [[r.shard_id, r.sequence_number, r.data.hex()] for r in orders.accepted()]
    assert sorted(found) == sorted(put)
    say(f"both attempts were given equal rows; put {len(put)}, rows {len(found)}, the same")
