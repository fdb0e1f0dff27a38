"""Reports of queries that lost their access after a while.

Each test is named after its row in docs/reports.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kinesis_source.aws.session import connect
from kinesis_source.options import Options
from kinesis_source.testing import LocalKinesis, ManualClock

#: Gives keys that expire in five minutes, and leaves a line for each time it was run.
PROCESS = """
import datetime, json
with open({log!r}, "a") as log:
    log.write("run\\n")
expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)
print(json.dumps({{"Version": 1, "AccessKeyId": "AKIDROTATED", "SecretAccessKey": "SECRET",
    "SessionToken": "TOKEN", "Expiration": expires.isoformat()}}))
"""


def test_row_85_keys_of_a_process_are_asked_for_again_before_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one connection, which a planner keeps as long as the query lives."""
    script, log = tmp_path / "rotate.py", tmp_path / "runs"
    script.write_text(PROCESS.format(log=str(log)))
    config = tmp_path / "config"
    config.write_text(f"[profile rotating]\ncredential_process = {sys.executable} {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    clock = ManualClock()
    with LocalKinesis() as kinesis:
        kinesis.create_stream("orders")
        given = {"streamName": "orders", "region": "us-east-1", "profile": "rotating"}
        options = Options.parse({**given, "endpointUrl": kinesis.endpoint_url})
        connection = connect(options, "driver", clock=clock)
        runs = []
        for _ in range(3):
            connection.client.describe_stream_summary()
            runs.append(len(log.read_text().splitlines()))
            clock.advance(151_000)  # half of their life is over
        connection.close()
    assert runs[0] < runs[1] < runs[2]
