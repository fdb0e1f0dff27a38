from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from kinesis_source.aws.session import Connection, connect, resolve_region
from kinesis_source.clock import SystemClock
from kinesis_source.errors import AccessDeniedError, CredentialsError, TransientServiceError
from kinesis_source.options import Options

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
ROLE = "arn:aws:iam::123456789012:role/reader"
KEYS = {"awsAccessKeyId": "AKIDOPTION", "awsSecretKey": "SECRETOPTION"}
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def aws_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without AWS settings but the file of profiles that is returned."""
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text(
        "[profile etl]\nregion = ap-south-1\n"
        "aws_access_key_id = AKIDPROFILE\naws_secret_access_key = SECRETPROFILE\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return config


def parse(**given: str) -> Options:
    return Options.parse({"streamName": "orders", **given})


@pytest.fixture
def sts(server: Any) -> Iterator[Any]:
    """A second scripted server, for STS."""
    sts = type(server)()
    yield sts
    sts.close()


@pytest.fixture
def at_server(server: Any, sts: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`parse`, with Kinesis and STS at the scripted servers."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
    return lambda **given: parse(endpointUrl=server.url, region="eu-west-1", **given)


def assumed(sts: Any, access_key: str, expires_ms: int) -> None:
    """Queue STS's answer to AssumeRole."""
    expires = datetime.fromtimestamp(expires_ms / 1000, UTC).isoformat(timespec="seconds")
    body = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
      <AssumeRoleResult><Credentials><AccessKeyId>{access_key}</AccessKeyId>
      <SecretAccessKey>SECRETROLE</SecretAccessKey><SessionToken>TOKEN{access_key}</SessionToken>
      <Expiration>{expires}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
    sts.answer(body.encode(), headers={"Content-Type": "text/xml"})


class TestRegion:
    def test_the_option_comes_first_then_the_arn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
        assert resolve_region(parse(region="eu-north-1", profile="etl")) == "eu-north-1"
        assert resolve_region(Options.parse({"streamARN": ARN})) == "eu-west-1"

    def test_then_the_machines_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert resolve_region(parse(profile="etl")) == "ap-south-1"
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
        assert resolve_region(parse()) == "us-west-2"

    def test_without_any_the_error_says_what_to_set(self) -> None:
        with pytest.raises(CredentialsError, match=r"option region.*AWS_REGION"):
            resolve_region(parse())
        with pytest.raises(CredentialsError, match="option region"):
            connect(parse(**KEYS), "driver")

    def test_executors_use_what_the_driver_resolved(self, server: Any) -> None:
        server.answer({"Shards": []})
        options = parse(endpointUrl=server.url, **KEYS)
        connect(options, "executor", region="sa-east-1").client.list_shards()
        assert "/sa-east-1/kinesis/" in server.requests[0].headers["authorization"]


class TestCredentials:
    def test_keys_of_the_options(self, server: Any, at_server: Any) -> None:
        server.answer({"Shards": []})
        connection = connect(at_server(**KEYS, awsSessionToken="TOKENOPTION"), "driver")
        assert server.requests == []
        connection.client.list_shards()
        headers = server.requests[0].headers
        assert "Credential=AKIDOPTION/" in headers["authorization"]
        assert headers["x-amz-security-token"] == "TOKENOPTION"
        assert "pyspark-kinesis/" in headers["user-agent"]

    def test_a_profile(self, server: Any, at_server: Any) -> None:
        server.answer({"Shards": []})
        connect(at_server(profile="etl"), "driver").client.list_shards()
        assert "Credential=AKIDPROFILE/" in server.requests[0].headers["authorization"]

    def test_the_default_chain(
        self, server: Any, at_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRETENV")
        server.answer({"Shards": []})
        connect(at_server(), "driver").client.list_shards()
        assert "Credential=AKIDENV/" in server.requests[0].headers["authorization"]

    @pytest.mark.parametrize("refusal", ["ExpiredTokenException", "UnrecognizedClientException"])
    def test_keys_in_a_file_are_read_again_when_they_are_refused(
        self, server: Any, at_server: Any, aws_files: Path, refusal: str
    ) -> None:
        client = connect(at_server(profile="etl"), "driver").client
        server.answer({"Shards": []})
        client.list_shards()
        aws_files.write_text(aws_files.read_text().replace("AKIDPROFILE", "AKIDROTATED"))
        server.fail(refusal)
        server.answer({"Shards": []})
        client.list_shards()
        keys = [r.headers["authorization"].split("Credential=")[1][:11] for r in server.requests]
        assert keys == ["AKIDPROFILE", "AKIDPROFILE", "AKIDROTATED"]

    def test_keys_that_stay_refused_are_an_error(self, server: Any, at_server: Any) -> None:
        client = connect(at_server(**KEYS), "driver").client
        server.fail("ExpiredTokenException")
        server.fail("ExpiredTokenException")
        with pytest.raises(CredentialsError, match=r"on the driver has expired"):
            client.list_shards()
        assert len(server.requests) == 2

    def test_a_profile_that_is_not_there_is_named_and_where(self) -> None:
        for given in ({"region": "eu-west-1"}, {}):
            with pytest.raises(CredentialsError, match=r"on the driver.*gone"):
                connect(parse(profile="gone", **given), "driver")
        with pytest.raises(CredentialsError, match=r"on the driver.*gone"):
            resolve_region(parse(profile="gone"))

    def test_no_credentials_at_all(self, at_server: Any) -> None:
        for given in ({}, {"roleArn": ROLE}):
            with pytest.raises(CredentialsError, match=r"on the driver.*NoCredentials"):
                connect(at_server(**given), "driver").client.list_shards()

    def test_a_broken_configuration_file(self, aws_files: Path) -> None:
        aws_files.write_text("[profile\n")
        with pytest.raises(CredentialsError, match="ConfigParseError"):
            connect(parse(region="eu-west-1"), "driver")


class TestRole:
    def test_it_is_assumed_with_the_given_credentials_when_needed(
        self, server: Any, sts: Any, at_server: Any
    ) -> None:
        assumed(sts, "AKIDROLE", SystemClock().now_ms() + HOUR_MS)
        server.answer({"Shards": []})
        server.answer({"Shards": []})
        options = at_server(
            **KEYS, roleArn=ROLE, roleExternalId="external", roleSessionName="nightly"
        )
        client = connect(options, "driver").client
        assert sts.requests == []
        client.list_shards()
        client.list_shards()
        (assume,) = sts.requests
        form = parse_qs(assume.body.decode())
        assert form["RoleArn"] == [ROLE]
        assert form["ExternalId"] == ["external"]
        assert form["RoleSessionName"] == ["nightly"]
        assert "Credential=AKIDOPTION/" in assume.headers["authorization"]
        assert len(server.requests) == 2
        for request in server.requests:
            assert "Credential=AKIDROLE/" in request.headers["authorization"]
            assert request.headers["x-amz-security-token"] == "TOKENAKIDROLE"

    def test_a_profile_can_assume_it(self, server: Any, sts: Any, at_server: Any) -> None:
        assumed(sts, "AKIDROLE", SystemClock().now_ms() + HOUR_MS)
        server.answer({"Shards": []})
        connect(at_server(profile="etl", roleArn=ROLE), "driver").client.list_shards()
        (assume,) = sts.requests
        assert "Credential=AKIDPROFILE/" in assume.headers["authorization"]
        assert parse_qs(assume.body.decode())["RoleSessionName"] == ["pyspark-kinesis"]

    def test_one_that_may_not_be_assumed(self, sts: Any, at_server: Any) -> None:
        for _ in range(2):
            sts.answer(
                b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>User: arn:x is not "
                b"authorized</Message></Error></ErrorResponse>",
                403,
                headers={"Content-Type": "text/xml"},
            )
        with pytest.raises(AccessDeniedError, match=rf"arn:x.*sts:AssumeRole on {ROLE}.*executor"):
            connect(at_server(**KEYS, roleArn=ROLE), "executor").client.list_shards()


class TestClient:
    @pytest.mark.parametrize(("role", "requests"), [("driver", 2), ("executor", 3)])
    def test_the_sdk_gives_up_soon(
        self, server: Any, at_server: Any, role: Any, requests: int
    ) -> None:
        for _ in range(requests):
            server.fail("InternalFailure", status=500)
        client = connect(at_server(**KEYS), role).client
        with pytest.raises(TransientServiceError):
            client.list_shards()
        assert client.counters.take().calls == {"ListShards": requests}

    def test_the_arn_of_the_options_is_sent(self, server: Any, monkeypatch: Any) -> None:
        server.answer({"Shards": []})
        options = Options.parse({"streamARN": ARN, "endpointUrl": server.url, **KEYS})
        connect(options, "driver").client.list_shards()
        assert server.requests[0].params == {"StreamARN": ARN}

    def test_records_are_decoded_without_the_sdks_parser(self, server: Any, at_server: Any) -> None:
        server.answer(b'{"Records": [], "MillisBehi')
        client = connect(at_server(**KEYS), "driver").client
        with pytest.raises(TransientServiceError, match="cut short"):
            client.get_records("shardId-000000000000", "it", 1)

    def test_connect_is_pickled_by_reference(self) -> None:
        assert pickle.loads(pickle.dumps(connect)) is connect


class TestConnection:
    @pytest.fixture
    def pooled(self, client: Any) -> Iterator[Connection]:
        connection = Connection(client, SystemClock(), threads=3)
        yield connection
        connection.close()

    def test_results_come_in_the_items_order_and_calls_run_at_once(
        self, pooled: Connection
    ) -> None:
        together = threading.Barrier(3, timeout=5)

        def call(item: int) -> int:
            together.wait()
            return item * 10

        assert pooled.map(call, [1, 2, 3]) == [10, 20, 30]

    def test_one_thread_is_the_callers(self, client: Any) -> None:
        connection = Connection(client, SystemClock())
        assert (
            connection.map(lambda _: threading.current_thread(), [1, 2])
            == [threading.current_thread()] * 2
        )

    def test_what_an_item_raises_is_raised(self, pooled: Connection) -> None:
        with pytest.raises(ZeroDivisionError):
            pooled.map(lambda item: 1 / item, [1, 0])

    def test_close_may_be_called_twice(self, client: Any) -> None:
        closed: list[str] = []
        connection = Connection(client, SystemClock(), 2, lambda: closed.append("x"))
        connection.map(str, [1])
        connection.close()
        connection.close()
        assert closed == ["x", "x"]
