"""One real Spark for most of these tests, and what they share.

Its Python workers live in Los Angeles and its session in Tokyo, so that a time that is off by a
zone shows in every test. What the driver and the planner print is kept in one file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kinesis_source.testing import LocalKinesis
from tests.spark.drivers import ROOT, SMALL_SPARK
from tests.spark.queries import SESSION_ZONE, WORKER_ZONE, DriverLog


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark") / "driver.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path) -> Iterator[SparkSession]:
    """`local[2]`, with nothing registered."""
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Works from a checkout that is not installed, too.
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "TZ": WORKER_ZONE,
        # Not this machine's; there only while a test has written it.
        "AWS_SHARED_CREDENTIALS_FILE": str(spark_log.parent / "credentials"),
        "AWS_CONFIG_FILE": str(spark_log.parent / "config"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    # A failed task attempt is tried again.
    settings = SMALL_SPARK | {
        "spark.master": "local[2,3]",
        "spark.sql.session.timeZone": SESSION_ZONE,
        # An idle query reports its progress as soon as a busy one does.
        "spark.sql.streaming.noDataProgressEventInterval": "500ms",
        "spark.sql.warehouse.dir": str(spark_log.parent / "warehouse"),
    }
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with pytest.MonkeyPatch.context() as patch, spark_log.open("ab") as log:
        for name in [n for n in os.environ if n.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
        session = SparkSession(SparkContext(gateway=gateway, conf=conf))
        yield session
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def driver_log(spark: SparkSession, spark_log: Path) -> DriverLog:
    """What the shared driver prints from now on."""
    return DriverLog(spark_log)


@pytest.fixture(autouse=True)
def _no_query_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails leaves no query running for the next one."""
    yield
    if "spark" in request.fixturenames:
        for query in request.getfixturevalue("spark").streams.active:
            query.stop()


@pytest.fixture
def kinesis() -> Iterator[LocalKinesis]:
    with LocalKinesis() as local:
        yield local
