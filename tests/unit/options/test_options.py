from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from kinesis_source.core.positions import TRIM_HORIZON, AfterSequenceNumber, AtTimestamp
from kinesis_source.core.starting_position import LATEST, PerShard
from kinesis_source.errors import OptionError
from kinesis_source.options import OPTIONS, Options, Secret, options_table
from kinesis_source.options.values import parse_duration_ms, parse_size

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
KEYS = {"awsAccessKeyId": "AKIDEXAMPLE", "awsSecretKey": "sEcReT/+="}


def parse(**given: str) -> Options:
    return Options.parse({"streamName": "orders", **given})


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(OptionError) as caught:
        Options.parse(given)
    return str(caught.value)


def test_defaults() -> None:
    options = parse()
    assert options == Options(
        stream_name="orders",
        stream_arn=None,
        region=None,
        endpoint_url=None,
        starting_position=LATEST,
        start_from_lease_table=None,
        write_lease_table=None,
        lease_table_region=None,
        lease_table_endpoint_url=None,
        lease_table_role_arn=None,
        fail_on_data_loss=True,
        accept_data_loss_until_ms=None,
        max_records_per_trigger=None,
        max_bytes_per_trigger=None,
        max_bytes_per_shard_per_trigger=128 * 1024**2,
        shards_per_task=8,
        min_fetch_period_ms=1000,
        shard_fetch_interval_ms=10_000,
        max_fetch_rate=2 * 1024**2,
        role_arn=None,
        role_external_id=None,
        role_session_name="pyspark-kinesis",
        sts_endpoint_url=None,
        profile=None,
        aws_access_key_id=None,
        aws_secret_key=None,
        aws_session_token=None,
    )


def test_every_option_can_be_given_in_any_letter_case() -> None:
    texts = {
        "streamName": "orders",
        "streamARN": ARN,
        "region": "eu-west-1",
        "endpointUrl": "https://vpce-1.kinesis.eu-west-1.vpce.amazonaws.com:443",
        "startingPosition": "earliest",
        "startFromLeaseTable": "orders-application",
        "writeLeaseTable": "orders.back_again",
        "leaseTableRegion": "eu-central-1",
        "leaseTableEndpointUrl": "http://127.0.0.1:8000",
        "leaseTableRoleArn": "arn:aws:iam::123456789012:role/leases",
        "failOnDataLoss": "True",
        "acceptDataLossUntil": "2026-01-02T03:04:05.678Z",
        "maxRecordsPerTrigger": "7",
        "maxBytesPerTrigger": "1g",
        "maxBytesPerShardPerTrigger": "64m",
        "shardsPerTask": "3",
        "minFetchPeriod": "200ms",
        "shardFetchInterval": "5m",
        "maxFetchRate": "512k",
        "roleArn": "arn:aws:iam::123456789012:role/path/reader",
        "roleExternalId": "ext:1",
        "roleSessionName": "job@7",
        "stsEndpointUrl": "https://vpce-2.sts.eu-west-1.vpce.amazonaws.com",
        **KEYS,
        "awsSessionToken": "tOkEn",
    }
    options = Options.parse(texts)
    assert options == Options(
        stream_name="orders",
        stream_arn=ARN,
        region="eu-west-1",
        endpoint_url="https://vpce-1.kinesis.eu-west-1.vpce.amazonaws.com:443",
        starting_position=TRIM_HORIZON,
        start_from_lease_table="orders-application",
        write_lease_table="orders.back_again",
        lease_table_region="eu-central-1",
        lease_table_endpoint_url="http://127.0.0.1:8000",
        lease_table_role_arn="arn:aws:iam::123456789012:role/leases",
        fail_on_data_loss=True,
        accept_data_loss_until_ms=1_767_323_045_678,
        max_records_per_trigger=7,
        max_bytes_per_trigger=1024**3,
        max_bytes_per_shard_per_trigger=64 * 1024**2,
        shards_per_task=3,
        min_fetch_period_ms=200,
        shard_fetch_interval_ms=300_000,
        max_fetch_rate=512 * 1024,
        role_arn="arn:aws:iam::123456789012:role/path/reader",
        role_external_id="ext:1",
        role_session_name="job@7",
        sts_endpoint_url="https://vpce-2.sts.eu-west-1.vpce.amazonaws.com",
        profile=None,
        aws_access_key_id=Secret("AKIDEXAMPLE"),
        aws_secret_key=Secret("sEcReT/+="),
        aws_session_token=Secret("tOkEn"),
    )
    assert {*texts, "profile"} == {spec.name for spec in OPTIONS}
    for change in (str.lower, str.upper, str.swapcase):
        assert Options.parse({change(name): text for name, text in texts.items()}) == options


def test_the_declaration_and_the_fields_are_the_same_set() -> None:
    assert [spec.field for spec in OPTIONS] == [field.name for field in fields(Options)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("streamName", "", "1 to 128"),
        ("streamName", "orders!", "1 to 128"),
        ("streamName", "a,b", "one stream"),
        ("streamARN", f"{ARN},{ARN}", "one stream"),
        ("streamARN", "arn:aws:kinesis:eu-west-1:1234:stream/orders", "arn:aws:kinesis:"),
        ("streamARN", f"{ARN}/consumer/mine:17", "the stream alone"),
        ("streamName", ARN, "as streamARN"),
        ("streamARN", "arn:aws:sqs:eu-west-1:123456789012:orders", "arn:aws:kinesis:"),
        ("region", "EU", "region"),
        ("endpointUrl", "localhost:4567", "http(s)://"),
        ("endpointUrl", "http://h:port", "http(s)://"),
        ("endpointUrl", "http://my_host:4567", "no underscore"),
        ("stsEndpointUrl", "https://a b", "http(s)://"),
        ("startingPosition", "[" * 100_000, "LATEST"),
        ("startingPosition", '{"a":' * 100_000, "two levels"),
        ("startingPosition", "yesterday", "LATEST"),
        ("startFromLeaseTable", "a b", "3 to 255"),
        ("writeLeaseTable", "", "3 to 255"),
        ("failOnDataLoss", "no", "true or false"),
        ("maxRecordsPerTrigger", "0", "at least 1"),
        ("maxRecordsPerTrigger", "1.5", "whole number"),
        ("maxRecordsPerTrigger", "٣", "whole number"),
        ("maxBytesPerTrigger", "64 mega", "64m"),
        ("maxBytesPerShardPerTrigger", "0m", "at least 1"),
        ("shardsPerTask", "-1", "at least 1"),
        ("minFetchPeriod", "100ms", "at least 200ms"),
        ("minFetchPeriod", "5", "unit"),
        ("shardFetchInterval", "10 weeks", "unit"),
        ("maxFetchRate", "fast", "512k"),
        ("maxFetchRate", "63k", "at least 64k"),
        ("maxFetchRate", "1.0", "Databricks' 1.0 MB/s are 1024k here"),
        ("maxFetchRate", "2", "Databricks' 2 MB/s are 2048k here"),
        ("maxFetchRate", "0.5", "Databricks' 0.5 MB/s are 512k here"),
        ("roleArn", "reader", "arn:aws:iam:"),
        ("roleExternalId", "a b", "characters"),
        ("roleSessionName", "x", "2 to 64"),
        ("stsEndpointUrl", "sts.eu-west-1.amazonaws.com", "http"),
        ("profile", "", "profile"),
    ],
)
def test_a_wrong_value_names_option_found_and_allowed(name: str, text: str, expected: str) -> None:
    message = refusal({"streamName": "orders", name: text})
    assert message.startswith(f"option {name}: found {text!r}; ")
    assert expected in message.partition("; ")[2]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("streamNames", "streamName"),
        ("kinesis.streamNames", "streamName"),
        ("kinesis.roleArn", "roleArn"),
        ("startingPositions", "startingPosition"),
        ("maxBytesPerTriger", "maxBytesPerTrigger"),
        ("AWSSECRETKYE", "awsSecretKey"),
    ],
)
def test_an_unknown_option_suggests_the_nearest(name: str, nearest: str) -> None:
    message = refusal({"streamName": "orders", name: "x"})
    assert message == f"unknown option {name!r}; did you mean {nearest!r}?"


def test_an_unknown_option_like_none_lists_all() -> None:
    message = refusal({"zzz": "x"})
    assert all(spec.name in message for spec in OPTIONS)


def test_a_path_is_refused_by_name() -> None:
    assert "load()" in refusal({"streamName": "orders", "path": "orders"})


def test_a_stream_is_required() -> None:
    assert "streamName or streamARN" in refusal({"region": "eu-west-1"})


def test_name_and_region_come_from_the_arn() -> None:
    options = Options.parse({"streamARN": ARN})
    assert (options.stream_name, options.region) == ("orders", "eu-west-1")
    gov = Options.parse({"streamARN": ARN.replace("arn:aws:", "arn:aws-us-gov:")})
    assert gov.stream_name == "orders"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("kinesis.eu-west-1.amazonaws.com", "eu-west-1"),
        ("kinesis-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("kinesis.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("kinesis.eu-west-1.api.aws", "eu-west-1"),
        ("123456789012.data-kinesis.eu-west-1.amazonaws.com", "eu-west-1"),
        ("vpce-0a1b-2c3d.kinesis.eu-west-1.vpce.amazonaws.com:443", "eu-west-1"),
        ("kinesis.eu-west-1.amazonaws.com.example.org", None),
        ("firehose.eu-west-1.amazonaws.com", None),
        ("127.0.0.1:4567", None),
    ],
)
def test_the_region_comes_from_an_aws_endpoint(host: str, region: str | None) -> None:
    assert parse(endpointUrl=f"https://{host}").region == region
    assert parse(endpointUrl=f"https://{host}", region=region or "eu-west-2").region == (
        region or "eu-west-2"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"streamName": "other", "streamARN": ARN}, ["streamName", "'other'", "'orders'"]),
        ({"region": "us-east-1", "streamARN": ARN}, ["region", "'us-east-1'", "'eu-west-1'"]),
        (
            {"region": "eu-west-1", "endpointUrl": "https://kinesis.us-east-1.amazonaws.com"},
            ["'eu-west-1'", "endpointUrl", "'us-east-1'"],
        ),
        (
            {"streamARN": ARN, "endpointUrl": "https://kinesis.us-east-1.amazonaws.com"},
            ["'eu-west-1'", "endpointUrl", "'us-east-1'"],
        ),
        ({"awsAccessKeyId": "A"}, ["awsAccessKeyId", "awsSecretKey"]),
        ({"awsSecretKey": "s"}, ["awsSecretKey", "awsAccessKeyId"]),
        ({"awsSessionToken": "t"}, ["awsSessionToken", "awsAccessKeyId"]),
        ({**KEYS, "profile": "p"}, ["awsAccessKeyId", "profile"]),
        ({"roleExternalId": "id"}, ["roleExternalId", "roleArn"]),
        ({"roleSessionName": "me"}, ["roleSessionName", "roleArn"]),
        (
            {"failOnDataLoss": "false", "acceptDataLossUntil": "2026-01-02T00:00:00Z"},
            ["failOnDataLoss", "acceptDataLossUntil"],
        ),
        ({"stsEndpointUrl": "http://sts"}, ["stsEndpointUrl", "roleArn", "leaseTableRoleArn"]),
    ],
)
def test_options_that_contradict_each_other(given: dict[str, str], words: list[str]) -> None:
    message = refusal({"streamName": "orders", **given})
    for word in words:
        assert word in message


def test_the_offset_of_another_stream_is_refused() -> None:
    offset = (
        '{"metadata": {"streamName": "payments", "batchId": "7"}, "shardId-000000000000": '
        '{"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "4960"}}'
    )
    message = refusal({"streamName": "orders", "startingPosition": offset})
    assert message == (
        "startingPosition is an offset of the stream 'payments'; expected one of 'orders'"
    )


def test_secrets_are_shown_nowhere() -> None:
    options = parse(**KEYS, awsSessionToken="tOkEn")
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    assert again.aws_secret_key.reveal() == "sEcReT/+="
    for shown in (repr(options), str(again), f"{options.aws_secret_key!s:>5}"):
        assert "***" in shown
        for secret in ("AKIDEXAMPLE", "sEcReT/+=", "tOkEn"):
            assert secret not in shown


def test_a_malformed_secret_is_not_quoted() -> None:
    for bad in ("sEcReT\n", "sEcReT x", "sEcReTü"):
        message = refusal({"streamName": "orders", "awsAccessKeyId": "A", "awsSecretKey": bad})
        assert "awsSecretKey" in message
        assert "sEcReT" not in message


def test_a_password_in_the_endpoint_is_not_quoted() -> None:
    for text in ("u:pw@h", r"https:\\u:pw@h", "https:/u:pw@h", "https://u:p\nw@h"):
        assert "pw" not in refusal({"streamName": "orders", "stsEndpointUrl": text})
    message = refusal({"streamName": "orders", "endpointUrl": "http://me:pass@host"})
    assert "endpointUrl" in message
    assert "pass" not in message.replace("password", "")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("200ms", 200),
        ("5s", 5000),
        ("10m", 600_000),
        ("10 min", 600_000),
        ("1H", 3_600_000),
        ("10 seconds", 10_000),
        ("1 Minute", 60_000),
        ("500 milliseconds", 500),
        ("2 hours", 7_200_000),
        ("2d", 172_800_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("10b", 10),
        ("512k", 512 * 1024),
        ("64M", 64 * 1024**2),
        ("128mb", 128 * 1024**2),
        ("1 g", 1024**3),
        ("2TB", 2 * 1024**4),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_starting_positions_reach_the_options() -> None:
    text = '{"default": "TRIM_HORIZON", "shardId-000000000001": "AFTER_SEQUENCE_NUMBER 12"}'
    assert parse(startingPosition=text).starting_position == PerShard(
        TRIM_HORIZON, {"shardId-000000000001": AfterSequenceNumber(12)}
    )
    time = parse(startingPosition="AT_TIMESTAMP 2026-01-02T03:04:05.678Z").starting_position
    assert time == AtTimestamp(1767323045678)


def test_the_table_has_a_row_for_each_option() -> None:
    rows = options_table().splitlines()[2:]
    assert len(rows) == len(OPTIONS)
    for row, spec in zip(rows, OPTIONS, strict=True):
        name, default, meaning = row.removeprefix("| ").removesuffix(" |").split(" | ")
        assert name == f"`{spec.name}`"
        assert default.strip("` ") == (spec.default or "")
        assert meaning.endswith(".")


@pytest.mark.parametrize("name", ["leaseTableRegion", "leaseTableEndpointUrl", "leaseTableRoleArn"])
def test_where_a_lease_table_is_needs_a_lease_table(name: str) -> None:
    text = {
        "leaseTableRegion": "eu-west-1",
        "leaseTableEndpointUrl": "http://127.0.0.1:8000",
        "leaseTableRoleArn": "arn:aws:iam::123456789012:role/leases",
    }[name]
    message = refusal({"streamName": "orders", name: text})
    assert message == (
        f"{name} is given without a table; expected startFromLeaseTable or writeLeaseTable"
    )
    for table in ("startFromLeaseTable", "writeLeaseTable"):
        Options.parse({"streamName": "orders", table: "orders-application", name: text})


def test_from_a_lease_table_the_rest_starts_at_the_oldest_record_unless_said_otherwise() -> None:
    given = {"streamName": "orders", "startFromLeaseTable": "orders-application"}
    assert Options.parse(given).starting_position == TRIM_HORIZON
    assert Options.parse({**given, "STARTINGPOSITION": "LATEST"}).starting_position == LATEST
    single = '{"shardId-000000000000": "TRIM_HORIZON"}'
    message = refusal({**given, "startingPosition": single})
    assert "startingPosition names single shards" in message
