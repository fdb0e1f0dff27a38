"""What a user sees when a query cannot start: our sentence, readable in what Spark raises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kinesis_source.testing import LocalKinesis
from tests.spark.queries import STREAM, Batches, DriverLog, MovableClock, finish, load

pytestmark = pytest.mark.spark

SHARD = "shardId-000000000000"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"startingPositon": "LATEST"},
            "unknown option 'startingpositon'; did you mean 'startingPosition'?",
        ),
        (
            {"minFetchPeriod": "soon"},
            "option minFetchPeriod: found 'soon'; expected a whole number with a unit, such as "
            "200ms, 5s, 10m or 1h",
        ),
        (
            {"streamName": "a,b"},
            "option streamName: found 'a,b'; expected one stream: for several use one load() each "
            "and union them",
        ),
        (
            {"streamARN": "arn:aws:kinesis:us-east-1:123456789012:stream/other"},
            "streamName is 'orders', but streamARN says 'other'; expected them to agree. "
            "Leave streamName out, the ARN is enough",
        ),
    ],
)
def test_a_wrong_option_is_refused_at_load(
    spark: SparkSession, kinesis: LocalKinesis, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, kinesis, **options)
    assert f"OptionError: {sentence}" in str(caught.value)


def test_a_stream_must_be_given(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.readStream.format("kinesis").option("region", "eu-west-1").load()
    sentence = "no stream is given; expected the option streamName or streamARN"
    assert f"OptionError: {sentence}" in str(caught.value)


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, kinesis: LocalKinesis) -> None:
    kinesis.create_stream(STREAM)
    reader = spark.readStream.format("kinesis").options(**kinesis.spark_options(STREAM))
    text = error_of(reader.schema("data BINARY").load())
    assert "OptionError: found the schema struct<data:binary>; the columns of a Kinesis" in text
    assert "Leave out .schema(…) and select what you need" in text


def error_of(frame: DataFrame, **trigger: bool) -> str:
    """What the user is shown when the query of the frame ends, as it must."""
    with pytest.raises(StreamingQueryException) as caught:
        finish(
            frame.writeStream.format("noop").trigger(**trigger or {"availableNow": True}).start()
        )
    text = str(caught.value)
    # An exception in a reader's constructor shows as this one.
    assert "UnboundLocalError" not in text
    return text


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}])
def test_a_stream_that_does_not_exist(
    spark: SparkSession, kinesis: LocalKinesis, trigger: dict[str, bool]
) -> None:
    text = error_of(load(spark, kinesis, "no-such-stream"), **trigger)
    assert "StreamNotFoundError: stream 'no-such-stream' was not found (" in text
    assert "check streamName or streamARN, region, endpointUrl, and whose account" in text


@pytest.mark.parametrize("status", ["CREATING", "DELETING"])
def test_a_stream_that_is_not_ready(
    spark: SparkSession, kinesis: LocalKinesis, status: str
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.set_status(STREAM, status)
    text = error_of(load(spark, kinesis))
    assert f"StreamNotReadyError: stream 'orders' has the status {status}; expected ACTIVE." in text
    assert "Start the query once the stream is active" in text


@pytest.mark.parametrize(
    "operation", ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"]
)
def test_a_role_that_may_not_call(
    spark: SparkSession, kinesis: LocalKinesis, operation: str
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.deny(operation)
    text = error_of(load(spark, kinesis))
    assert f"AccessDeniedError: {operation} (stream orders" in text
    account = "<account>" if operation == "DescribeStreamSummary" else "123456789012"
    arn = f"arn:aws:kinesis:us-east-1:{account}:stream/orders"
    assert f"Allow the action kinesis:{operation} on {arn} to the credentials" in text


def test_a_profile_that_is_not_there(spark: SparkSession, kinesis: LocalKinesis) -> None:
    kinesis.create_stream(STREAM)
    options = kinesis.spark_options(STREAM)
    del options["awsAccessKeyId"], options["awsSecretKey"]
    reader = spark.readStream.format("kinesis").options(**options).option("profile", "analytics")
    text = error_of(reader.load())
    assert "CredentialsError: no usable AWS credentials or region on the driver:" in text
    assert "The config profile (analytics) could not be found" in text


def test_a_stream_made_again_under_its_name_is_refused(
    spark: SparkSession, kinesis: LocalKinesis, tmp_path: Path
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.put(STREAM, b"old", "key")
    Batches().run_available(load(spark, kinesis), tmp_path)
    kinesis.delete_stream(STREAM)
    kinesis.create_stream(STREAM)
    with pytest.raises(StreamingQueryException) as caught:
        Batches().run_available(load(spark, kinesis), tmp_path)
    assert "StreamRecreatedError: the Spark checkpoint belongs to stream" in str(caught.value)
    assert "new checkpointLocation and startingPosition=TRIM_HORIZON" in str(caught.value)


def test_a_role_that_may_no_longer_read_ends_the_query_in_the_task(
    spark: SparkSession, kinesis: LocalKinesis
) -> None:
    kinesis.create_stream(STREAM)
    kinesis.put(STREAM, b"record", "key")

    def take(frame: DataFrame, _: int) -> None:
        kinesis.deny("GetRecords")
        frame.count()

    writer = load(spark, kinesis).writeStream.foreachBatch(take).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException) as caught:
        finish(writer.start())
    text = str(caught.value)
    assert "AccessDeniedError: GetRecords (stream orders, shard shardId-000000000000)" in text
    arn = kinesis.ledger(STREAM).stream_arn
    assert f"Allow the action kinesis:GetRecords on {arn} to the credentials on an exec" in text


def test_data_loss_stops_the_query_and_is_survived_when_allowed(
    spark: SparkSession, tmp_path: Path, driver_log: DriverLog
) -> None:
    clock = MovableClock()
    with LocalKinesis(clock) as kinesis:
        kinesis.create_stream(STREAM)
        batches = Batches()
        read = kinesis.put(STREAM, b"read", "key").sequence_number
        batches.run_available(load(spark, kinesis), tmp_path)
        kinesis.put(STREAM, b"lost", "key")
        clock.forward_ms += 25 * 3_600_000
        kinesis.put(STREAM, b"left", "key")
        with pytest.raises(StreamingQueryException) as caught:
            batches.run_available(load(spark, kinesis), tmp_path)
        loss = f"data loss in {SHARD} of stream orders: "
        position = (
            f"The query had read to AFTER_SEQUENCE_NUMBER {read}; records that arrived from 20"
        )
        assert f"DataLossError: {loss}" in str(caught.value)
        assert position in str(caught.value)
        suggested = re.search(r"again with acceptDataLossUntil=(\S+) \(", str(caught.value))
        assert suggested is not None

        driver_log.restart()
        frame = load(spark, kinesis, acceptDataLossUntil=suggested[1])
        batches.run_available(frame, tmp_path)
    assert [row.data for row in batches.rows] == [b"read", b"left"]
    (warning,) = driver_log.lines("data loss")
    assert loss in warning
    assert position in warning
    accepted = f"acceptDataLossUntil={suggested[1]}: going on from the oldest record that is left"
    assert accepted in warning
