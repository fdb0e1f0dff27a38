"""Which source of a query is ours, in both formats of Spark's offset log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.session import Session
from pyarrow.fs import FileInfo, FileSelector, FileType, FSSpecHandler, PyFileSystem

from kinesis_source.errors import CheckpointError
from kinesis_source.spark_checkpoint import (
    SparkCheckpoint,
    choose_source,
    masked,
    open_checkpoint,
    parse_batch_end,
)
from tests.support.dynamodb import local_dynamodb
from tests.unit.cli.command_line import CommandLine

#: As Spark 4.3.0 wrote them: a rate source and two streams, both versions of the log.
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1796134111000,"conf":{}}'
TICKS = '{"offset":2,"timestamp":1000}'


@dataclass
class S3:
    """`query`: of a URI, to reach it."""

    client: Any
    query: str


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with local_dynamodb() as moto:
        session = Session()
        session.set_credentials("AKIDEXAMPLE", "SECRETEXAMPLE")
        client = session.create_client("s3", region_name="us-east-1", endpoint_url=moto.url)
        client.create_bucket(Bucket="jobs")
        host = moto.url.removeprefix("http://")
        yield S3(client, f"?endpoint_override={host}&scheme=http&region=us-east-1")
        client.close()


def offset_of(stream: str) -> str:
    shards = {"shardId-000000000000": ["TRIM_HORIZON", 1796134111016]}
    arn = f"arn:aws:kinesis:us-east-1:123456789012:stream/{stream}"
    return json.dumps(
        {"shards": shards, "stream": {"arn": arn, "createdMs": 1796134102250}, "v": 1}
    )


V1 = "\n".join(("v1", METADATA, TICKS, offset_of("orders"), offset_of("clicks")))
V2_BY_PLACE = "\n".join(("v2", METADATA, f"1:{offset_of('orders')}", f"0:{TICKS}"))
V2_NAMED = "\n".join(("v2", METADATA, f"ticks:{TICKS}", f"orders_in:{offset_of('orders')}"))


def write(folder: Path, text: str) -> str:
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text(text)
    return str(folder)


@pytest.mark.parametrize(("text", "source"), [(V2_BY_PLACE, "1"), (V2_NAMED, "orders_in")])
def test_the_only_stream_is_found(
    command_line: CommandLine, tmp_path: Path, text: str, source: str
) -> None:
    document = command_line("checkpoint", write(tmp_path, text), "--json").document
    assert document["source"] == source
    assert document["stream"]["arn"].endswith("/orders")
    assert document["planned"]["timeMs"] == 1796134111000
    assert document["queryId"] is None


def test_of_two_streams_one_must_be_chosen(command_line: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path, V1)
    ran = command_line("checkpoint", path)
    assert ran.status == 2
    assert "batch 0 has 2 Kinesis streams; choose one with --source 1 or 2" in ran.err
    for source, stream in (("1", "orders"), ("2", "clicks")):
        document = command_line("checkpoint", path, "--source", source, "--json").document
        assert document["stream"]["arn"].endswith(stream)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("0", r"source 0 is another source \(.*\); expected an offset of format\('kinesis'\)"),
        ("7", "has no source '7'; found 0: another source"),
    ],
)
def test_a_source_that_is_no_stream(wanted: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        choose_source(parse_batch_end(0, V1, "x"), wanted, "x")


def test_a_source_without_an_offset_keeps_its_place() -> None:
    end = parse_batch_end(3, "\n".join(("v1", METADATA, "-", offset_of("orders"))), "x")
    assert end.of_source("0") is None
    assert choose_source(end, None, "x") == "1"


def test_a_committed_batch_in_which_the_source_had_no_offset_yet(
    command_line: CommandLine, tmp_path: Path
) -> None:
    path = write(tmp_path, "\n".join(("v1", METADATA, TICKS, "-")))
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (tmp_path / "offsets" / "1").write_text("\n".join(("v1", METADATA, TICKS, offset_of("orders"))))
    ran = command_line("checkpoint", path)
    assert ran.status == 0
    assert "Committed   nothing yet" in ran.out


def test_metadata_without_a_time() -> None:
    assert parse_batch_end(0, f"v1\n\n{offset_of('orders')}", "x").timestamp_ms is None


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "./"])
def test_local_folders_as_spark_and_people_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    write(tmp_path, V2_NAMED)
    monkeypatch.chdir(tmp_path.parent)
    folder = tmp_path.name if prefix == "./" else str(tmp_path)
    assert open_checkpoint(prefix + folder + "/").offsets() == [0]


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://AKIA:se/cr@et@bucket/x", "s3://***@bucket/x"),
        ("abfss://container@account.dfs.core.windows.net/x",) * 2,
        ("/data/a:b@c",) * 2,
    ],
)
def test_what_is_masked(location: str, shown: str) -> None:
    assert masked(location) == shown


class RefusingStore(FSSpecHandler):
    """A store whose listings fail."""

    def __init__(self, error: Exception) -> None:
        super().__init__(None)
        self._error = error

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        raise self._error

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [FileInfo(path, FileType.Directory) for path in paths]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError("denied"), "no permission to read s3://b/x: denied"),
        (
            # As pyarrow says it of S3.
            OSError("When listing: AWS Error ACCESS_DENIED during ListObjectsV2: Access Denied"),
            "no permission to read s3://b/x: When listing: AWS Error ACCESS_DENIED during",
        ),
        (OSError("no route\n/usr/lib/a.so\n/usr/lib/b.so"), "be read: OSError: no route$"),
    ],
)
def test_a_store_that_refuses(error: Exception, message: str) -> None:
    checkpoint = SparkCheckpoint(PyFileSystem(RefusingStore(error)), "b/x", "s3://b/x")
    with pytest.raises(CheckpointError, match=message):
        checkpoint.check()


def test_files_that_are_being_written_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, V1)
    for name in (".1.abc.tmp", ".0.crc", "1.compact"):
        (tmp_path / "offsets" / name).touch()
    assert open_checkpoint(str(tmp_path)).offsets() == [0]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_checkpoint_on_s3(command_line: CommandLine, s3: S3, scheme: str) -> None:
    """On moto's S3; `s3a` is what Spark's own checkpointLocation says."""
    s3.client.put_object(Bucket="jobs", Key="orders/offsets/0", Body=V2_NAMED.encode())
    s3.client.put_object(Bucket="jobs", Key="orders/metadata", Body=b'{"id":"ba3c2a82"}')
    document = command_line("checkpoint", f"{scheme}://jobs/orders/{s3.query}", "--json").document
    assert document["checkpoint"] == f"{scheme}://jobs/orders"
    assert (document["queryId"], document["planned"]["batch"]) == ("ba3c2a82", 0)
    assert "s3://jobs is not a checkpoint, but holds some: orders." in (
        command_line("checkpoint", f"s3://jobs{s3.query}").err
    )
    missing = command_line("checkpoint", f"s3://jobs/nothing{s3.query}")
    assert (missing.status, missing.out) == (2, "")
    assert "s3://jobs/nothing does not exist" in missing.err
