"""The commands against a local stream over HTTP, on one clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kinesis_source.testing import LocalKinesis, ManualClock
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def command_line(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """With credentials in the environment, and nothing else of this machine's configuration."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAINTHETEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
    return CommandLine(clock)


@pytest.fixture
def kinesis(clock: ManualClock) -> Iterator[LocalKinesis]:
    with LocalKinesis(clock) as kinesis:
        yield kinesis
