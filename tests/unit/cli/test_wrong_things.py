"""Somebody points a command at the wrong thing: one message, status 2, no traceback."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kinesis_source.cli.flags import FLAGS
from kinesis_source.options import OPTIONS
from kinesis_source.testing import LocalKinesis
from tests.compat.fixtures import HERE
from tests.unit.cli.command_line import CommandLine, Ran

CHECKPOINT = HERE / "0.1.0" / "merge_half_drained" / "checkpoint"
ORDERS = ("shards", "--stream", "orders", "--region", "us-east-1")


def refused(ran: Ran) -> str:
    """The message; it is all that was printed."""
    assert (ran.status, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    return ran.err.removeprefix("Error: ").rstrip("\n")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """To be spoilt."""
    return Path(shutil.copytree(CHECKPOINT, tmp_path / "checkpoint"))


def write_end(checkpoint: Path, batch: int, *sources: str, version: str = "v1") -> None:
    text = "\n".join((version, '{"batchTimestampMs":1796125661173}', *sources))
    (checkpoint / "offsets" / str(batch)).write_text(text)


# Not a checkpoint of ours


def test_no_such_folder(command_line: CommandLine) -> None:
    assert refused(command_line("checkpoint", "/no/such/folder")) == (
        "/no/such/folder does not exist; expected the checkpointLocation of a query"
    )


def test_a_file(command_line: CommandLine) -> None:
    assert "is a file; expected the folder" in refused(command_line("checkpoint", __file__))


def test_an_empty_folder(command_line: CommandLine, tmp_path: Path) -> None:
    assert refused(command_line("checkpoint", str(tmp_path))) == (
        f"{tmp_path} is empty; expected the checkpointLocation of a query"
    )


def test_some_other_folder(command_line: CommandLine) -> None:
    here = str(Path(__file__).parent)
    message = refused(command_line("checkpoint", here))
    assert message == f"{here} is not a Spark checkpoint: it has no folder 'offsets'"


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_part_of_a_checkpoint(command_line: CommandLine, log: str) -> None:
    message = refused(command_line("checkpoint", str(CHECKPOINT / log)))
    assert message.endswith("is a part of a checkpoint; expected the folder above it")


def test_a_folder_of_checkpoints(command_line: CommandLine) -> None:
    message = refused(command_line("checkpoint", str(CHECKPOINT.parent)))
    assert message.endswith("is not a checkpoint, but holds some: checkpoint. Name one of them")


def test_the_output_of_a_file_sink(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v1")
    message = refused(command_line("checkpoint", str(tmp_path)))
    assert "is what a file sink has written; expected the checkpointLocation" in message


def test_a_query_without_a_batch(command_line: CommandLine, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")
    shutil.rmtree(checkpoint / "commits")
    message = refused(command_line("checkpoint", str(checkpoint)))
    assert "the checkpoint of a query that has not planned a batch yet" in message


def test_commits_without_offsets(command_line: CommandLine, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")
    assert "is damaged: it has commits and no offsets" in refused(
        command_line("checkpoint", str(checkpoint))
    )


def test_a_commit_without_its_offset(command_line: CommandLine, checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").unlink()
    message = refused(command_line("checkpoint", str(checkpoint)))
    assert "is damaged: batch 1 is committed and its end is not in offsets" in message


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        ('{"orders":{"0":120,"1":98}}', "a Kafka source"),
        ('{"offset":2,"timestamp":1000}', "another source"),
        ("1796125661", "another source"),
        ('{"logOffset":7}', "a file source"),
        ("-", "a source without an offset yet"),
        ("not json", "another source"),
    ],
)
def test_the_checkpoint_of_another_source(
    command_line: CommandLine, checkpoint: Path, offset: str, kind: str
) -> None:
    write_end(checkpoint, 2, offset)
    message = refused(command_line("checkpoint", str(checkpoint)))
    assert f"batch 2 has no offset of format('kinesis'); found 0: {kind}" in message


def test_an_offset_of_a_newer_version(command_line: CommandLine, checkpoint: Path) -> None:
    write_end(checkpoint, 2, '{"v": 2, "stream": {"arn": "arn"}, "places": []}')
    assert refused(command_line("checkpoint", str(checkpoint))) == (
        f"{checkpoint}/offsets/2: found an offset of version 2; this release reads version 1. If a "
        "newer release wrote the checkpoint, run that release or a later one"
    )


def test_a_log_of_a_newer_spark(command_line: CommandLine, checkpoint: Path) -> None:
    write_end(checkpoint, 2, "{}", version="v3")
    message = refused(command_line("checkpoint", str(checkpoint)))
    assert "offsets/2 has the version 'v3'; expected v1 or v2" in message


def test_a_log_that_is_cut_off(command_line: CommandLine, checkpoint: Path) -> None:
    (checkpoint / "offsets" / "2").write_text("v1\n")
    message = refused(command_line("checkpoint", str(checkpoint)))
    assert "offsets/2 is cut off after 1 line" in message


@pytest.mark.parametrize("time", ['"soon"', "1e308", str(10**17), "-5", "[]", "null"])
def test_a_time_that_is_none(command_line: CommandLine, checkpoint: Path, time: str) -> None:
    path = checkpoint / "offsets" / "1"
    version, metadata, *sources = path.read_text().splitlines()
    metadata = re.sub(r'"batchTimestampMs":\d+', f'"batchTimestampMs":{time}', metadata)
    path.write_text("\n".join([version, metadata, *sources]))
    assert command_line("checkpoint", str(checkpoint)).status == 0


def test_an_offset_that_is_nested_beyond_reason(
    command_line: CommandLine, checkpoint: Path
) -> None:
    write_end(checkpoint, 1, "[" * 100_000)
    assert "the offset is not JSON" in refused(command_line("checkpoint", str(checkpoint)))


def test_a_store_that_is_not_known(command_line: CommandLine) -> None:
    message = refused(command_line("checkpoint", "dbfs:/checkpoints/orders"))
    assert "expected a local path or a URI such as s3://, hdfs://, gs:// or abfss://" in message


def test_a_uri_with_a_secret_is_not_printed_with_it(command_line: CommandLine) -> None:
    message = refused(command_line("checkpoint", "s4://AKIAKEY:SECRET@bucket/x"))
    assert "s4://***@bucket/x" in message
    assert "SECRET" not in message


# No stream, or not that one


def test_no_stream_named(command_line: CommandLine) -> None:
    assert refused(command_line("shards")).endswith("no stream is given; expected --stream NAME")


def test_no_such_stream(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    message = refused(command_line(*ORDERS, kinesis=kinesis))
    assert "stream 'orders' was not found" in message


def test_a_stream_that_is_being_made(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    kinesis.create_stream("orders")
    kinesis.set_status("orders", "CREATING")
    assert "has the status CREATING" in refused(command_line(*ORDERS, kinesis=kinesis))


@pytest.mark.parametrize("operation", ["DescribeStreamSummary", "ListShards"])
def test_no_permission(command_line: CommandLine, kinesis: LocalKinesis, operation: str) -> None:
    kinesis.create_stream("orders")
    kinesis.deny(operation)
    message = refused(command_line(*ORDERS, kinesis=kinesis))
    assert f"Allow the action kinesis:{operation}" in message


def test_no_network(command_line: CommandLine) -> None:
    message = refused(command_line(*ORDERS, "--endpoint-url", "http://127.0.0.1:9"))
    assert "Could not connect to the endpoint URL" in message


def test_no_region(command_line: CommandLine) -> None:
    assert "no AWS region" in refused(command_line("shards", "--stream", "orders"))


def test_no_credentials(
    command_line: CommandLine, kinesis: LocalKinesis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    message = refused(command_line(*ORDERS, kinesis=kinesis))
    assert "no usable AWS credentials" in message


def test_no_such_profile(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    message = refused(command_line(*ORDERS, "--profile", "nobody", kinesis=kinesis))
    assert "nobody" in message


# Options


def test_an_option_that_does_not_exist(command_line: CommandLine, kinesis: LocalKinesis) -> None:
    message = refused(command_line(*ORDERS, "--option", "endpointUrll=x"))
    assert message.startswith("unknown option 'endpointUrll'; did you mean 'endpointUrl'?")


@pytest.mark.parametrize(
    "secret", ["awsSecretKey=two words-of-it", "words-of-it", "a b=words-of-it"]
)
def test_a_secret_is_not_printed(command_line: CommandLine, secret: str) -> None:
    assert "words-of-it" not in refused(command_line(*ORDERS, "--option", secret))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--option", "streamname=x"),
        ("--option", "REGION=x"),
        ("--option", "roleSessionName=x", "--option", "rolesessionname=x"),
    ],
)
def test_an_option_that_is_given_twice(command_line: CommandLine, arguments: tuple[str]) -> None:
    message = refused(command_line(*ORDERS, *arguments))
    assert "given twice" in message or "are both given" in message


def test_the_flags_are_options_of_the_source() -> None:
    assert {name for _, name, _ in FLAGS} <= {spec.name for spec in OPTIONS}


def test_keys_can_be_given_by_who_insists(
    command_line: CommandLine, kinesis: LocalKinesis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    kinesis.create_stream("orders")
    keys = ("--option", "awsAccessKeyId=AKIAX", "--option", "awsSecretKey=SECRET")
    ran = command_line(*ORDERS, *keys, kinesis=kinesis)
    assert ran.status == 0
    assert "SECRET" not in ran.out


# The extra


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from kinesis_source.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"kinesis-source needs {missing}, which is not installed; expected the extra 'cli': "
        "pip install 'pyspark-kinesis[cli]'\n"
    )


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kinesis_source.cli", "checkpoint", str(CHECKPOINT)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Committed   batch 1" in done.stdout
