"""Roles, rotating keys and executors' own environment, with real Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kinesis_source.testing import LocalKinesis
from tests.spark.drivers import environment, submit
from tests.spark.queries import (
    STREAM,
    Batches,
    DriverLog,
    finish,
    ledger_rows,
    load,
    options_of,
    until,
)
from tests.support.proxies import proxy
from tests.support.sts import local_sts

pytestmark = pytest.mark.spark

ROLE = "arn:aws:iam::210987654321:role/reader"
SECRET = "NEVERSHOWN"


@pytest.fixture
def credentials_file(spark_log: Path) -> Iterator[Path]:
    """The shared Spark's file of profiles, with a profile `etl`."""
    path = spark_log.parent / "credentials"
    write_profile(path, "AKIDFIRST")
    yield path
    path.unlink()


def write_profile(path: Path, key_id: str) -> None:
    path.write_text(f"[etl]\naws_access_key_id={key_id}\naws_secret_access_key={SECRET}\n")


def load_with_profile(spark: SparkSession, kinesis: LocalKinesis) -> DataFrame:
    options = options_of(kinesis, profile="etl")
    del options["awsAccessKeyId"], options["awsSecretKey"]
    return spark.readStream.format("kinesis").options(**options).load()


def test_a_role_is_assumed_once_a_process_and_not_once_a_task(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, driver_log: DriverLog
) -> None:
    """Sessions of five minutes. By the SDK alone: six calls of STS a task."""
    kinesis.create_stream(STREAM, shards=4)
    batches = Batches()
    with local_sts(300) as sts:
        role = {"roleArn": ROLE, "roleExternalId": "tenant-7", "stsEndpointUrl": sts.url}
        frame = load(spark, kinesis, shardsPerTask=1, **role)
        query = batches.start(frame, tmp_path)
        for number in range(4):
            for shard_id in kinesis.open_shards(STREAM):
                kinesis.put_to_shard(STREAM, shard_id, b"%d" % number, "key")
            until(lambda: batches.rows == ledger_rows(kinesis), "the rows", query)
        query.stop()
        # The planner, and a Python worker for each of two cores; one that idled may be replaced.
        assert 2 <= sts.calls["AssumeRole"] <= 5
        assert {form["ExternalId"] for form in sts.requests} == {"tenant-7"}
        keys = {key for key, operation in kinesis.callers if operation == "GetRecords"}
        assert keys <= {f"ASIA{n}" for n in range(1, 6)}
    shown = driver_log.text() + "".join(p.json for p in query.recentProgress)
    assert SECRET not in shown
    assert "ASIA" not in shown


def test_keys_that_are_rotated_late_hold_planner_and_tasks_up_but_end_nothing(
    spark: SparkSession,
    kinesis: LocalKinesis,
    tmp_path: Path,
    driver_log: DriverLog,
    credentials_file: Path,
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.put(STREAM, b"first", "key")

    class Rotating(Batches):
        def _take(self, frame: DataFrame, batch_id: int) -> None:
            if batch_id == 1:
                # Between plan and read: the task is refused, and waits.
                rotate("AKIDTHIRD", after_s=3)
            super()._take(frame, batch_id)

    def rotate(key_id: str, after_s: float) -> None:
        kinesis.accept_only(key_id)
        threading.Timer(after_s, write_profile, (credentials_file, key_id)).start()

    batches = Rotating()
    query = batches.start(load_with_profile(spark, kinesis), tmp_path)
    until(lambda: batches.rows == ledger_rows(kinesis), "the first row", query)
    rotate("AKIDSECOND", after_s=3)
    kinesis.put(STREAM, b"second", "key")
    until(lambda: batches.rows == ledger_rows(kinesis), "the second row", query)
    query.stop()
    assert kinesis.callers["AKIDTHIRD", "GetRecords"] > 0
    (warning, *more) = driver_log.lines("does not accept the credentials on the driver")
    assert "WARNING" in warning
    assert len(more) <= 2, "one a minute for each subject"
    assert SECRET not in driver_log.text()


def test_a_query_that_starts_with_refused_keys_ends_at_once(
    spark: SparkSession, kinesis: LocalKinesis, credentials_file: Path
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.accept_only("AKIDSECOND")
    query = Batches().start(load_with_profile(spark, kinesis), credentials_file.parent / "new")
    with pytest.raises(Exception, match=r"CredentialsError.*on the driver"):
        finish(query, 30)


@pytest.mark.slow
def test_executors_have_keys_and_a_proxy_of_their_own(
    kinesis: LocalKinesis, tmp_path: Path
) -> None:
    """`spark.executorEnv` reaches the Python workers of a cluster."""
    kinesis.create_stream(STREAM, shards=2)
    for number in range(20):
        kinesis.put(STREAM, b"record", f"key {number}")
    options = options_of(kinesis)
    del options["awsAccessKeyId"], options["awsSecretKey"]
    arguments = {
        "options": options,
        "checkpoint": str(tmp_path / "checkpoint"),
        "result": str(tmp_path / "result.json"),
    }
    env = environment(AWS_ACCESS_KEY_ID="AKIDDRIVER", AWS_SECRET_ACCESS_KEY=SECRET)
    with proxy(forward=True) as way:
        settings = {
            "spark.master": "local-cluster[1,1,1024]",
            "spark.executorEnv.AWS_ACCESS_KEY_ID": "AKIDEXECUTOR",
            "spark.executorEnv.HTTP_PROXY": way.url,
        }
        log = tmp_path / "log"
        with submit("available_now", arguments, log, settings=settings, env=env) as driver:
            driver.finish()
        assert way.hosts == {"127.0.0.1"}
    by_key: dict[str, set[str]] = {}
    for key, operation in kinesis.callers:
        by_key.setdefault(key, set()).add(operation)
    assert by_key == {
        "AKIDDRIVER": {"DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"},
        "AKIDEXECUTOR": {"GetShardIterator", "GetRecords"},
    }
    assert SECRET not in log.read_text()
