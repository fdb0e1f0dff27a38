"""A worker that has lost its network, beside one that has not."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from kinesis_source.testing import LocalKinesis
from tests.spark.drivers import environment, submit
from tests.spark.queries import STREAM, ledger_rows, options_of
from tests.spark.standalone import SPECULATION, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CUT_OFF = "127.0.0.2"

#: The Python of every process. In the folders of one worker it finds nothing but a proxy that does
#: not answer.
PYTHON = f"""#!/bin/sh
case "$PWD" in
*/{CUT_OFF}/*)
  unset no_proxy NO_PROXY
  export HTTP_PROXY=http://127.0.0.1:{{port}}
esac
exec {sys.executable} "$@"
"""

SETTINGS = SPECULATION | {
    # Longer than a task takes to start and waits without a word.
    "spark.speculation.minTaskRuntime": "20s",
    # Both workers are there before a task is given out.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


def test_a_task_that_cannot_reach_kinesis_waits_until_spark_gives_it_to_another_worker(
    kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    for number in range(200):
        kinesis.put(STREAM, b"record %d" % number, f"key {number % 11}")
    python, result = tmp_path / "python", tmp_path / "result.json"
    python.write_text(PYTHON.format(port=closed_port()))
    python.chmod(0o755)
    arguments = {
        "options": options_of(kinesis, shardsPerTask=1),
        "checkpoint": str(tmp_path / "checkpoint"),
        "result": str(result),
    }
    with standalone_cluster(tmp_path) as cluster:
        settings = SETTINGS | {"spark.master": cluster.master, "spark.executor.memory": "1g"}
        # Tasks of a source that Spark found by itself run with the driver's.
        env = environment(PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=str(python))
        with submit(
            "available_now", arguments, tmp_path / "log", settings=settings, env=env
        ) as driver:
            driver.finish()
        logs = {host: log_of(tmp_path / host) for host in ("127.0.0.1", CUT_OFF)}
    rows = [[row.shard_id, row.sequence_number, row.data.hex()] for row in ledger_rows(kinesis)]
    assert sorted(json.loads(result.read_text())["rows"]) == rows
    waiting = f"waiting to read on (host {socket.gethostname()}): GetShardIterator (stream orders, "
    assert waiting in logs[CUT_OFF]
    assert "ProxyConnectionError" in logs[CUT_OFF]
    assert waiting not in logs["127.0.0.1"]


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
    return port


def log_of(work_folder: Path) -> str:
    """What the executors on a worker printed, their Python workers too."""
    return "\n".join(path.read_text() for path in work_folder.glob("app-*/*/stderr"))
