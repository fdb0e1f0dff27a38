"""Sessions of a few minutes cost STS little, stay good while STS is down, and outlive a task."""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.aws import session as sessions
from kinesis_source.aws.session import Connection, connect
from kinesis_source.clock import SystemClock
from kinesis_source.core.horizon import UNLIMITED
from kinesis_source.core.offset import INITIAL_OFFSET
from kinesis_source.errors import (
    AccessDeniedError,
    CredentialsError,
    TransientServiceError,
)
from kinesis_source.options import Options
from kinesis_source.planning.planner import StreamPlanner
from kinesis_source.testing import Fault, LocalKinesis, ManualClock
from tests.support.sts import CONTAINER, LocalSts, local_sts

ROLE = "arn:aws:iam::210987654321:role/reader"
KEYS = {"awsAccessKeyId": "AKIDOPTION", "awsSecretKey": "SECRETOPTION"}
TOKEN = "NEVERSHOWN-web-identity-token"


@pytest.fixture(autouse=True)
def aws_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No AWS settings but the file of profiles that is returned, and nothing kept from before."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    config = tmp_path / "config"
    write_profile(config, "AKIDFILE")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(sessions, "_ANSWERED", set())
    return config


def write_profile(config: Path, key_id: str) -> None:
    config.write_text(
        f"[profile etl]\naws_access_key_id = {key_id}\naws_secret_access_key = NEVERSHOWNFILE\n"
        f"[profile chained]\nrole_arn = {ROLE}\nsource_profile = etl\n"
    )


@pytest.fixture
def kinesis(clock: ManualClock) -> Iterator[LocalKinesis]:
    with LocalKinesis(clock) as kinesis:
        kinesis.create_stream("orders")
        yield kinesis


@pytest.fixture
def sts(clock: ManualClock) -> Iterator[LocalSts]:
    """Sessions of five minutes, by the tests' clock."""
    with local_sts(300, clock) as sts:
        yield sts


def options_of(kinesis: LocalKinesis, **given: str) -> Options:
    named = {"streamName": "orders", "region": "us-east-1", "endpointUrl": kinesis.endpoint_url}
    return Options.parse({**named, **given})


@pytest.fixture
def role_options(kinesis: LocalKinesis, sts: LocalSts) -> Options:
    return options_of(kinesis, **KEYS, roleArn=ROLE, stsEndpointUrl=sts.url)


def call(connection: Connection) -> None:
    connection.client.describe_stream_summary()


class TestAssumedRole:
    def test_it_is_assumed_about_once_in_half_of_a_session(
        self, role_options: Options, sts: LocalSts, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        """The SDK itself would call STS twice for each of these calls."""
        connection = connect(role_options, "driver", clock=clock)
        for _ in range(360):
            call(connection)
            clock.advance(10_000)
        assert 3600 // 150 - 1 <= sts.calls["AssumeRole"] <= 3600 // 150 + 1
        assert sum(kinesis.callers.values()) == 360

    def test_many_threads_fetch_once(
        self, role_options: Options, sts: LocalSts, clock: ManualClock
    ) -> None:
        connection = connect(role_options, "driver", threads=16, clock=clock)
        barrier = threading.Barrier(16)

        def together(_: int) -> None:
            barrier.wait(10)
            call(connection)

        for expected in (1, 2):
            connection.map(together, range(16))
            assert sts.calls["AssumeRole"] == expected
            clock.advance(300_000)
        connection.close()

    def test_while_it_is_good_nobody_waits_for_the_next(
        self, role_options: Options, sts: LocalSts, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        connection = connect(role_options, "driver", threads=2, clock=clock)
        call(connection)
        clock.advance(150_000)
        sts.open.clear()
        renewing = threading.Thread(target=call, args=(connection,))
        renewing.start()
        while sts.calls["AssumeRole"] < 2:
            SystemClock().sleep(0.01)
        call(connection)
        assert kinesis.callers["ASIA1", "DescribeStreamSummary"] == 2
        sts.open.set()
        renewing.join(10)
        assert kinesis.callers["ASIA2", "DescribeStreamSummary"] == 1
        connection.close()

    def test_sts_may_be_down_until_it_expires(
        self,
        role_options: Options,
        sts: LocalSts,
        clock: ManualClock,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        connection = connect(role_options, "driver", clock=clock)
        call(connection)
        sts.refusal = ("ServiceUnavailable", "down", 503)
        for _ in range(29):
            clock.advance(10_000)
            call(connection)
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert 2 <= len(warnings) <= 12
        assert f"the credentials of the role {ROLE} could not be renewed, 150 s bef" in warnings[0]
        assert f"AssumeRole (role {ROLE}): ServiceUnavailable" in warnings[0]
        clock.advance(20_000)
        with pytest.raises(TransientServiceError, match="AssumeRole"):
            call(connection)
        sts.refusal = None
        clock.advance(3_000)
        call(connection)

    def test_a_length_is_reckoned_by_the_clock_of_sts(
        self, role_options: Options, sts: LocalSts, clock: ManualClock
    ) -> None:
        """Four minutes off, as the service lets pass: a session of five is not one of nine."""
        sts.clock = ManualClock(clock.now_ms() + 240_000)
        connection = connect(role_options, "driver", clock=clock)
        call(connection)
        clock.advance(151_000)
        call(connection)
        assert sts.calls["AssumeRole"] == 2

    def test_the_stream_of_another_account(
        self, kinesis: LocalKinesis, sts: LocalSts, clock: ManualClock
    ) -> None:
        """By ARN, external id, session name and STS endpoint, on driver and executors."""
        arn = kinesis.ledger("orders").stream_arn
        options = Options.parse(
            {
                "streamARN": arn,
                "endpointUrl": kinesis.endpoint_url,
                "roleArn": ROLE,
                "roleExternalId": "tenant-7",
                "roleSessionName": "nightly",
                "stsEndpointUrl": sts.url,
                "profile": "etl",
            }
        )
        for process in ("driver", "executor"):
            call(connect(options, process, region="us-east-1", clock=clock))  # type: ignore[arg-type]
        wanted = {"RoleArn": ROLE, "ExternalId": "tenant-7", "RoleSessionName": "nightly"}
        assert [wanted.items() <= form.items() for form in sts.requests] == [True, True]
        assert [form["Key"] for form in sts.requests] == ["AKIDFILE", "AKIDFILE"]
        assert set(kinesis.callers) == {(f"ASIA{n}", "DescribeStreamSummary") for n in (1, 2)}

    @pytest.mark.parametrize(
        ("external_id", "words"),
        [
            ({}, "if that asks for an external id, set roleExternalId"),
            ({"roleExternalId": "tenant-7"}, "must be that of roleExternalId"),
        ],
    )
    def test_one_that_may_not_be_assumed(
        self, kinesis: LocalKinesis, sts: LocalSts, external_id: dict[str, str], words: str
    ) -> None:
        sts.refusal = ("AccessDenied", "User: arn:x is not authorized", 403)
        options = options_of(kinesis, **KEYS, roleArn=ROLE, stsEndpointUrl=sts.url, **external_id)
        with pytest.raises(AccessDeniedError) as raised:
            call(connect(options, "driver"))
        text = str(raised.value)
        assert f"Allow the action sts:AssumeRole on {ROLE} to the credentials on the dri" in text
        assert words in text
        assert "tenant-7" not in text

    def test_a_refused_request_is_a_matter_of_credentials(
        self, role_options: Options, sts: LocalSts
    ) -> None:
        sts.refusal = ("RegionDisabledException", "STS is not activated in this region", 403)
        with pytest.raises(CredentialsError, match=r"on the driver.*STS is not activated"):
            call(connect(role_options, "driver"))


def through_web_identity(sts: LocalSts, directory: Path, patch: pytest.MonkeyPatch) -> None:
    (directory / "token").write_text(TOKEN)
    patch.setenv("AWS_ROLE_ARN", ROLE)
    patch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(directory / "token"))
    patch.setenv("AWS_ENDPOINT_URL_STS", sts.url)


def through_container(sts: LocalSts, directory: Path, patch: pytest.MonkeyPatch) -> None:
    """As ECS and EKS Pod Identity give them."""
    (directory / "token").write_text(TOKEN)
    patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{sts.url}/credentials")
    patch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(directory / "token"))


def through_profile(sts: LocalSts, directory: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_PROFILE", "chained")
    patch.setenv("AWS_ENDPOINT_URL_STS", sts.url)


def through_process(sts: LocalSts, directory: Path, patch: pytest.MonkeyPatch) -> None:
    script = directory / "process.py"
    script.write_text(
        "import json, urllib.request as u\n"
        f"keys = json.load(u.urlopen('{sts.url}/credentials'))\n"
        "keys['SessionToken'] = keys.pop('Token')\nprint(json.dumps({'Version': 1, **keys}))\n"
    )
    config = directory / "process-config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {script}\n")
    patch.setenv("AWS_CONFIG_FILE", str(config))


KINDS = [through_web_identity, through_container, through_profile, through_process]


@pytest.fixture
def wall_sts() -> Iterator[LocalSts]:
    """Sessions of five minutes by the machine's clock, which the SDK's chain looks at."""
    with local_sts(300) as sts:
        yield sts


class TestChain:
    @pytest.mark.parametrize("through", KINDS)
    def test_sessions_of_five_minutes_are_fetched_seldom(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        clock: ManualClock,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        through: Callable[[LocalSts, Path, pytest.MonkeyPatch], None],
    ) -> None:
        through(wall_sts, tmp_path, monkeypatch)
        connection = connect(options_of(kinesis), "driver", threads=16, clock=clock)
        connection.map(lambda _: call(connection), range(100))
        connection.close()
        # One more where the SDK's provider fetches to see whether there are any.
        first = len(wall_sts.requests)
        assert first <= 2
        clock.advance(151_000)
        call(connection)
        call(connection)
        assert len(wall_sts.requests) == first + 1
        assert f"ASIA{first + 1}" in {key for key, _ in kinesis.callers}

    @pytest.mark.parametrize("through", [through_web_identity, through_container])
    def test_a_token_file_is_read_again_for_each_session(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        clock: ManualClock,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        through: Callable[[LocalSts, Path, pytest.MonkeyPatch], None],
    ) -> None:
        through(wall_sts, tmp_path, monkeypatch)
        connection = connect(options_of(kinesis), "driver", clock=clock)
        call(connection)
        (tmp_path / "token").write_text("another-token")
        clock.advance(151_000)
        call(connection)
        if wall_sts.calls[CONTAINER] == 0:
            tokens = [form["WebIdentityToken"] for form in wall_sts.requests]
            assert tokens == [TOKEN, "another-token"]
        # Missing while it is replaced: the session is good until it expires.
        fetched = len(wall_sts.requests)
        (tmp_path / "token").unlink()
        clock.advance(151_000)
        call(connection)
        assert len(wall_sts.requests) == fetched

    def test_the_machines_role(
        self, kinesis: LocalKinesis, wall_sts: LocalSts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wall_sts.life_s = 6 * 3600
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{wall_sts.url}/")
        for _ in range(5):
            call(connect(options_of(kinesis), "executor"))
        assert kinesis.callers == {("ASIA1", "DescribeStreamSummary"): 5}

    @pytest.mark.parametrize("content", [None, ""])
    def test_a_token_file_that_is_not_there_is_a_matter_of_credentials(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        content: str | None,
    ) -> None:
        """The SDK lets through what opening it raises, and its own check of an empty one."""
        through_web_identity(wall_sts, tmp_path, monkeypatch)
        (tmp_path / "token").unlink()
        if content is not None:
            (tmp_path / "token").write_text(content)
        with pytest.raises(CredentialsError, match=r"on the driver.*web-identity"):
            call(connect(options_of(kinesis), "driver"))

    def test_an_expired_web_identity_says_so_without_the_token(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        through_web_identity(wall_sts, tmp_path, monkeypatch)
        wall_sts.refusal = ("ExpiredTokenException", "Token expired: current date must be", 400)
        with pytest.raises(CredentialsError) as raised:
            call(connect(options_of(kinesis), "driver"))
        assert "AssumeRoleWithWebIdentity" in str(raised.value)
        assert "Token expired" in str(raised.value)
        assert TOKEN not in str(raised.value)

    def test_a_failed_renewal_quotes_no_request(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        clock: ManualClock,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The SDK logs the error itself, with all that it says."""
        through_profile(wall_sts, tmp_path, monkeypatch)
        connection = connect(options_of(kinesis), "driver", clock=clock)
        call(connection)
        wall_sts.clock = clock
        wall_sts.refusal = ("SignatureDoesNotMatch", "x-amz-security-token:NEVERSHOWNTOKEN", 403)
        clock.advance(151_000)
        call(connection)
        clock.advance(150_000)
        with pytest.raises(TransientServiceError) as raised:
            call(connection)
        assert "SignatureDoesNotMatch: the service does not accept the cred" in caplog.text
        assert "Refreshing temporary credentials failed" in caplog.text
        assert "NEVERSHOWN" not in caplog.text + str(raised.value)

    def test_sessions_that_come_expired(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The SDK raises a RuntimeError."""
        through_web_identity(wall_sts, tmp_path, monkeypatch)
        wall_sts.life_s = -60
        with pytest.raises(CredentialsError, match="still expired"):
            call(connect(options_of(kinesis), "driver"))

    def test_a_role_of_the_options_on_top_of_a_web_identity(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        clock: ManualClock,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Chained, with no region but the options'."""
        through_web_identity(wall_sts, tmp_path, monkeypatch)
        options = options_of(kinesis, roleArn=ROLE)
        connection = connect(options, "executor", clock=clock)
        call(connection)
        assert [form["Action"] for form in wall_sts.requests] == [
            "AssumeRoleWithWebIdentity",
            "AssumeRole",
        ]
        assert wall_sts.requests[1]["Key"] == "ASIA1"


class TestKept:
    """On executors, from one task to the next."""

    def test_tasks_of_one_process_share_a_session(
        self, role_options: Options, sts: LocalSts, clock: ManualClock
    ) -> None:
        for _ in range(20):
            # Options come anew with each task.
            options = pickle.loads(pickle.dumps(role_options))
            connection = connect(options, "executor", region="us-east-1", clock=clock)
            call(connection)
            connection.close()
        assert sts.calls["AssumeRole"] == 1
        call(connect(role_options, "driver", clock=clock))
        assert sts.calls["AssumeRole"] == 2

    @pytest.mark.parametrize(
        "other",
        [
            {"roleSessionName": "other"},
            {"roleExternalId": "other"},
            {"roleArn": ROLE + "2"},
            {"awsSecretKey": "other"},
            {"region": "eu-west-1"},
        ],
    )
    def test_not_with_other_options(
        self, kinesis: LocalKinesis, sts: LocalSts, clock: ManualClock, other: dict[str, str]
    ) -> None:
        given = {**KEYS, "roleArn": ROLE, "stsEndpointUrl": sts.url}
        for more in ({}, other, {}, other):
            call(connect(options_of(kinesis, **given | more), "executor", clock=clock))
        assert sts.calls["AssumeRole"] == 2

    def test_refused_ones_are_replaced_for_the_tasks_to_come(
        self, role_options: Options, sts: LocalSts, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        call(connect(role_options, "executor", clock=clock))
        kinesis.expire("ASIA1")
        for _ in range(3):
            call(connect(role_options, "executor", clock=clock))
        assert sts.calls["AssumeRole"] == 2
        assert kinesis.callers["ASIA1", "DescribeStreamSummary"] == 2
        assert kinesis.callers["ASIA2", "DescribeStreamSummary"] == 3

    def test_denied_ones_are_replaced_too(
        self, role_options: Options, sts: LocalSts, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        """A session that was revoked is denied; a new one of the same role is not."""
        call(connect(role_options, "executor", clock=clock))
        kinesis.inject(Fault("access_denied", "DescribeStreamSummary"))
        for _ in range(3):
            call(connect(role_options, "executor", clock=clock))
        assert sts.calls["AssumeRole"] == 2

    def test_an_edited_profile_counts_at_once(
        self,
        kinesis: LocalKinesis,
        wall_sts: LocalSts,
        aws_files: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", wall_sts.url)
        for role in (ROLE, ROLE + "-of-another-team"):
            aws_files.write_text(aws_files.read_text().replace(f"{ROLE}\n", f"{role}\n"))
            for _ in range(2):
                call(connect(options_of(kinesis, profile="chained"), "executor"))
        assert [r["RoleArn"] for r in wall_sts.requests] == [ROLE, ROLE + "-of-another-team"]

    def test_keys_in_a_file_are_not_kept(
        self, kinesis: LocalKinesis, clock: ManualClock, aws_files: Path
    ) -> None:
        for key_id in ("AKIDONE", "AKIDTWO"):
            write_profile(aws_files, key_id)
            call(connect(options_of(kinesis, profile="etl"), "executor", clock=clock))
        assert {key for key, _ in kinesis.callers} == {"AKIDONE", "AKIDTWO"}

    def test_no_secret_shows(
        self, role_options: Options, sts: LocalSts, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        call(connect(role_options, "executor", clock=clock))
        (kept,) = [
            c
            for c in sessions._KEPT._kept.values()
            if c._clock is clock and c.get_frozen_credentials().access_key == "ASIA1"
        ]
        shown = f"{sessions._KEPT!r} {kept!r} {vars(kept)!r}"
        assert "NEVERSHOWN" not in shown
        assert "ASIA1" not in shown


RESULT = "<AssumeRoleResponse><AssumeRoleResult>{}</AssumeRoleResult></AssumeRoleResponse>"
KEY = "<AccessKeyId>ASIA9</AccessKeyId>"


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>Please log in</body></html>",
        "<AssumeRoleResponse></AssumeRoleResponse>",
        RESULT.format(""),
        RESULT.format(f"<Credentials>{KEY}</Credentials>"),
        RESULT.format(f"<Credentials>{KEY}<Expiration>NEVERSHOWN</Expiration></Credentials>"),
    ],
)
def test_an_answer_that_is_no_session_is_a_matter_of_credentials(
    role_options: Options, sts: LocalSts, clock: ManualClock, body: str
) -> None:
    sts.body = body
    with pytest.raises(CredentialsError) as failed:
        call(connect(role_options, "driver", clock=clock))
    assert "what came is not credentials with an expiry" in str(failed.value)
    assert "NEVERSHOWN" not in str(failed.value)


@pytest.mark.parametrize(
    "printed",
    [
        "[]",
        '{"Version": 1, "AccessKeyId": null, "SecretAccessKey": null, "SessionToken": null, '
        '"Expiration": "2099-01-01T00:00:00Z"}',
        '{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "Expiration": 4}',
    ],
)
def test_a_process_that_prints_no_session_is_a_matter_of_credentials_and_forgotten(
    kinesis: LocalKinesis, clock: ManualClock, aws_files: Path, tmp_path: Path, printed: str
) -> None:
    answer = tmp_path / "answer"
    answer.write_text(printed)
    aws_files.write_text(f"[profile odd]\ncredential_process = cat {answer}\n")
    options = options_of(kinesis, profile="odd")
    with pytest.raises((CredentialsError, TransientServiceError)):
        call(connect(options, "executor", clock=clock))
    answer.write_text('{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s"}')
    clock.advance(10_000)
    call(connect(options, "executor", clock=clock))


class TestPatience:
    """Keys in a file that somebody rotates late, as good as any credentials that can change."""

    @pytest.fixture
    def options(self, kinesis: LocalKinesis) -> Options:
        return options_of(kinesis, profile="etl")

    def test_a_running_process_waits_and_goes_on(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock, aws_files: Path
    ) -> None:
        client = connect(options, "driver", clock=clock).client
        client.describe_stream_summary()
        kinesis.accept_only("AKIDNEXT")
        for _ in range(12):
            with pytest.raises(TransientServiceError, match="credentials on the driver"):
                client.describe_stream_summary()
            clock.advance(5_000)
        write_profile(aws_files, "AKIDNEXT")
        client.describe_stream_summary()

    def test_for_five_minutes(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        client = connect(options, "driver", clock=clock).client
        client.describe_stream_summary()
        kinesis.expire("AKIDFILE")
        with pytest.raises(TransientServiceError, match="for up to 300 s more"):
            client.describe_stream_summary()
        clock.advance(299_000)
        with pytest.raises(TransientServiceError):
            client.describe_stream_summary()
        clock.advance(1_000)
        with pytest.raises(CredentialsError, match=r"has expired.*Waited 300 s"):
            client.describe_stream_summary()

    def test_an_answer_begins_the_five_minutes_anew(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        client = connect(options, "driver", clock=clock).client
        client.describe_stream_summary()
        for _ in range(2):
            kinesis.expire("AKIDFILE")
            with pytest.raises(TransientServiceError, match="for up to 300 s more"):
                client.describe_stream_summary()
            clock.advance(250_000)
            kinesis.accept_any()
            client.describe_stream_summary()

    def test_what_has_never_worked_is_raised_at_once(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        kinesis.accept_only()
        with pytest.raises(CredentialsError, match="does not accept"):
            call(connect(options, "driver", clock=clock))

    def test_an_executor_is_given_ninety_seconds_at_first(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock, aws_files: Path
    ) -> None:
        client = connect(options, "executor", clock=clock).client
        aws_files.unlink()
        for _ in range(3):
            with pytest.raises(TransientServiceError, match=r"on an executor.*etl.*Waiting"):
                client.describe_stream_summary()
            clock.advance(30_000)
        with pytest.raises(CredentialsError, match=r"etl.*Waited 90 s"):
            client.describe_stream_summary()
        write_profile(aws_files, "AKIDFILE")
        clock.advance(5_000)
        client.describe_stream_summary()
        kinesis.accept_only()
        # This task's, and those that the process is given later.
        for connection in (client, connect(options, "executor", clock=clock).client):
            with pytest.raises(TransientServiceError, match="for up to 300 s more"):
                connection.describe_stream_summary()

    @pytest.mark.parametrize("process", ["driver", "executor"])
    def test_fixed_keys_cannot_change(
        self, kinesis: LocalKinesis, clock: ManualClock, process: Any
    ) -> None:
        client = connect(options_of(kinesis, **KEYS), process, clock=clock).client
        client.describe_stream_summary()
        kinesis.expire("AKIDOPTION")
        with pytest.raises(CredentialsError, match="has expired"):
            client.describe_stream_summary()

    def test_a_refused_call_is_no_matter_of_patience(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        client = connect(options, "driver", clock=clock).client
        client.describe_stream_summary()
        kinesis.deny("DescribeStreamSummary")
        with pytest.raises(AccessDeniedError):
            client.describe_stream_summary()

    def test_files_are_not_read_again_for_each_of_many_calls(
        self,
        options: Options,
        kinesis: LocalKinesis,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        client = connect(options, "driver", clock=clock).client
        client.describe_stream_summary()
        kinesis.accept_only()
        made = 0
        make = sessions.sdk_client

        def counting(*given: Any) -> Any:
            nonlocal made
            made += 1
            return make(*given)

        monkeypatch.setattr(sessions, "sdk_client", counting)
        for _ in range(90):
            with pytest.raises(TransientServiceError):
                client.describe_stream_summary()
            clock.advance(100)
        assert made == 2

    def test_a_planner_warns_once_a_minute_and_reads_on(
        self,
        options: Options,
        kinesis: LocalKinesis,
        clock: ManualClock,
        aws_files: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        planner = StreamPlanner(options, connect(options, "driver", clock=clock))
        end = planner.latest_offset(INITIAL_OFFSET, UNLIMITED)
        kinesis.accept_only("AKIDNEXT")
        kinesis.put("orders", b"during", "key")
        begun_ms = clock.now_ms()
        while clock.now_ms() - begun_ms < 200_000:
            assert planner.latest_offset(end, UNLIMITED) is end
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        subjects = {w.partition(":")[0] for w in warnings}
        for subject in subjects:
            assert sum(w.startswith(subject) for w in warnings) <= 4
        assert any("does not accept the credentials on the driver" in w for w in warnings)
        assert "NEVERSHOWN" not in caplog.text
        write_profile(aws_files, "AKIDNEXT")
        mended_ms = clock.now_ms()
        while planner.latest_offset(end, UNLIMITED) is end:
            assert clock.now_ms() - mended_ms < 20_000

    def test_a_planner_ends_after_five_minutes(
        self, options: Options, kinesis: LocalKinesis, clock: ManualClock
    ) -> None:
        planner = StreamPlanner(options, connect(options, "driver", clock=clock))
        end = planner.latest_offset(INITIAL_OFFSET, UNLIMITED)
        kinesis.expire("AKIDFILE")
        begun_ms = clock.now_ms()

        def run_on() -> None:
            while clock.now_ms() - begun_ms < 3_600_000:
                planner.latest_offset(end, UNLIMITED)

        with pytest.raises(CredentialsError, match="on the driver has expired"):
            run_on()
        assert 300_000 <= clock.now_ms() - begun_ms <= 320_000


@pytest.mark.parametrize(("ahead_s", "words"), [(3600, "behind"), (-3600, "ahead of")])
def test_a_clock_that_is_wrong_is_told_by_how_much(ahead_s: int, words: str) -> None:
    """The service's time is in the Date header of its answers."""
    machine = ManualClock()
    with LocalKinesis(ManualClock(machine.now_ms() + ahead_s * 1000)) as kinesis:
        kinesis.create_stream("orders")
        options = Options.parse(kinesis.spark_options("orders"))
        kinesis.accept_only()
        client = connect(options, "driver", clock=machine).client
        with pytest.raises(CredentialsError) as raised:
            client.describe_stream_summary()
    assert f"this machine's clock is 3,600 s {words} the service's" in str(raised.value)
    assert "Set the clock of the machine on the driver" in str(raised.value)
