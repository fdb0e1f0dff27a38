"""Credentials given as options are shown nowhere."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from kinesis_source.options import Options
from kinesis_source.spark.source import SCHEMA, KinesisDataSource
from kinesis_source.testing import Fault, LocalKinesis
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

pytestmark = pytest.mark.spark

SECRETS = {
    "awsAccessKeyId": "AKIAQ7XWJ3SHOWNNEVER",
    "awsSecretKey": "s7/Gq2+NeverShownSecretKey0123456789abcd",
    "awsSessionToken": "IQoJb3JpZ2luX2VjENeverShownSessionToken==",
}


@pytest.fixture
def chatty(spark: SparkSession) -> Iterator[None]:
    """Spark's own log from INFO up."""
    # In a shell the root level is INFO all along, behind a filter that only a change takes away.
    spark.sparkContext.setLogLevel("DEBUG")
    spark.sparkContext.setLogLevel("INFO")
    yield
    spark.sparkContext.setLogLevel("WARN")


@pytest.mark.usefixtures("chatty")
def test_credentials_show_in_no_plan_progress_log_error_or_checkpoint(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path, driver_log: DriverLog
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    for number in range(20):
        kinesis.put(STREAM, b"record", f"key {number}")
    places: dict[str, str] = {}

    options = options_of(kinesis, **SECRETS)
    source = KinesisDataSource(options)
    places["repr"] = repr([Options.parse(options), source, source.streamReader(SCHEMA)])
    frame = load(spark, kinesis, **SECRETS)
    batches = Batches()
    query = batches.start(frame, tmp_path / "checkpoint")
    until(lambda: batches.rows == ledger_rows(kinesis), "the rows", query)
    places["plans"] = printed(lambda: [frame.explain("extended"), query.explain(True)])
    places["plan"] = frame._jdf.queryExecution().toString()
    places["progress"] = "".join(progress.json for progress in query.recentProgress)
    places["status"] = json.dumps(query.status)
    query.stop()

    # Errors of the planner, with a trace of the SDK's behind them, and of the options.
    for kind in ("expired_credentials", "access_denied"):
        kinesis.inject(Fault(kind, "GetRecords", times=None))
        with pytest.raises(StreamingQueryException) as ended:
            finish(batches.start(load(spark, kinesis, **SECRETS), tmp_path / kind))
        places[kind] = str(ended.value)
        kinesis.clear_faults()
    for wrong in (
        {"awsAccesKeyId": SECRETS["awsAccessKeyId"]},
        {"awsSecretKey": SECRETS["awsSecretKey"] + "\n"},
        {"minFetchPeriod": "1ms"},
    ):
        with pytest.raises(AnalysisException) as refused:
            load(spark, kinesis, **SECRETS | wrong)
        places[f"refused {list(wrong)}"] = str(refused.value)

    for path in tmp_path.rglob("*"):
        if path.is_file():
            places[str(path)] = path.read_bytes().decode("latin-1")
    places["log"] = driver_log.text()

    assert "StreamingDataSourceV2" in places["plans"]
    assert "batch planned" in places["log"]
    assert "INFO MicroBatchExecution" in places["log"]
    assert str(tmp_path / "checkpoint" / "offsets" / "0") in places
    shown = [
        (name, place)
        for name, secret in SECRETS.items()
        for place, text in places.items()
        if secret in text
    ]
    assert shown == []


def printed(call: Callable[[], object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        call()
    return output.getvalue()
