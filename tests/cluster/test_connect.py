"""Spark Connect: a server on the cluster, and a client that has neither the package nor a JVM."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.demo.audit import audit
from tests.cluster.conftest import Say
from tests.cluster.orders import Orders
from tests.cluster.page import blocks, filled
from tests.cluster.runs import LIMIT_S, MASTER
from tests.crash.sinks import rows_of_batches, rows_of_parquet
from tests.spark.drivers import SMALL_SPARK, Process
from tests.spark.standalone import Cluster

pytestmark = pytest.mark.cluster

REST = Path(__file__).parent / "jobs" / "connect_client.py"
STARTED = re.compile(r"Spark Connect server started at: .*:(\d+)")
SETTINGS = SMALL_SPARK | {"spark.executor.memory": "1g", "spark.connect.grpc.binding.port": "0"}


def test_a_thin_client_on_spark_connect(
    shared_cluster: Cluster,
    tmp_path: Path,
    orders: Orders,
    made: Path,
    env: dict[str, str],
    say: Say,
) -> None:
    start, client = blocks("docs/clusters.md", "Spark Connect")
    defaults = "".join(f"{name} {value}\n" for name, value in SETTINGS.items())
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    start = filled(start, {"/opt/job": str(made / "job"), MASTER: shared_cluster.master})
    for line in start.splitlines():
        say(f"$ {line}")
    # In the foreground, so that it ends with the test.
    env = env | {"SPARK_NO_DAEMONIZE": "1", "SPARK_CONF_DIR": str(tmp_path)}
    env |= {"SPARK_LOG_DIR": str(tmp_path), "SPARK_PID_DIR": str(tmp_path)}
    command = ["bash", "-ec", start]
    orders.put()
    with Process(command, tmp_path / "server.log", env, tmp_path) as server:
        server.until(lambda: STARTED.search(server.log), "the server", LIMIT_S)
        port = STARTED.findall(server.log)[0]
        script = tmp_path / "client.py"
        values = {
            "sc://host:15002": f"sc://127.0.0.1:{port}",
            '.option("region", "eu-west-1")': f".options(**{orders.options!r})",
            "s3a://my-bucket": str(tmp_path),
        }
        names = f"FOLDER, OPTIONS = {str(tmp_path)!r}, {orders.options!r}\n"
        rest = REST.read_text().replace("from __future__ import annotations\n", "")
        script.write_text(filled(client, values) + names + rest)
        command = [f"{made}/client/bin/python", str(script)]
        with Process(command, tmp_path / "client.log", env, tmp_path) as process:
            sink = tmp_path / "orders"
            process.until(lambda: len(_rows(sink)) >= 240, "240 rows", LIMIT_S)
            orders.split()
            orders.put()
            process.until(lambda: len(_rows(sink)) >= 480, "480 rows", LIMIT_S)
            (tmp_path / "stop").touch()
            process.finish(LIMIT_S)
            told = _told(process.log)
    say("the client has neither kinesis_source nor pyspark_kinesis nor py4j")
    say(f"progress, as the client sees it: {json.dumps(told['progress']['latestOffset'])}")
    assert told["on the client"] == []
    assert "millisBehindLatest" in told["progress"]["latestOffset"]
    batches = len(list((tmp_path / "batches").iterdir()))
    for name, rows in (
        ("parquet", rows_of_parquet(sink)),
        ("foreachBatch", rows_of_batches(tmp_path / "batches", batches)),
    ):
        result = audit(orders.accepted(), rows)
        say(
            f"{name}: put {result.put}, rows {result.rows}: "
            f"lost {result.lost}, repeated {result.repeated}"
        )
        assert result.passed
    for what, error in (
        ("wrong option", r"OptionError: .*; did you mean 'streamName'\?"),
        ("wrong stream", r"StreamNotFoundError: stream 'no-such' was not found"),
    ):
        found = re.search(error, told[what])
        assert found is not None, told[what]
        say(f"{what}: {found[0]}")


def _rows(sink: Path) -> list[Any]:
    return list(rows_of_parquet(sink)) if sink.is_dir() else []


def _told(log: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for line in log.splitlines():
        if line.startswith("{"):
            told |= json.loads(line)
    return told
