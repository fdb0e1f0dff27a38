"""The HTTP face, through boto3 and on the wire, and that both faces give the same answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError

from kinesis_source.testing import Fault, LocalKinesis, ManualClock

ZERO, ONE = (f"shardId-{index:012d}" for index in range(2))
ROOT = Path(__file__).parents[3]
ONCE = Config(retries={"total_max_attempts": 1})


class Wire:
    """One kept connection that speaks AWS JSON 1.1 without an SDK."""

    def __init__(self, kinesis: LocalKinesis) -> None:
        self.connection = HTTPConnection(kinesis.endpoint_url.removeprefix("http://"), timeout=10)

    def send(self, operation: str, body: bytes, **headers: str) -> HTTPResponse:
        target = {"X-Amz-Target": f"Kinesis_20131202.{operation}", "Authorization": "none"}
        sent = {name: value for name, value in (target | headers).items() if value}
        self.connection.request("POST", "/", body, sent)
        return self.connection.getresponse()

    def call(self, operation: str, **request: Any) -> tuple[int, dict[str, Any]]:
        response = self.send(operation, json.dumps(request).encode())
        return response.status, json.loads(response.read())


@pytest.fixture
def wire(running: LocalKinesis) -> Wire:
    return Wire(running)


def iterator_of(client: Any, shard_id: str = ZERO) -> str:
    answer = client.get_shard_iterator(
        StreamName="orders", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )
    return str(answer["ShardIterator"])


def test_boto3_puts_and_reads(running: LocalKinesis) -> None:
    client = running.client()
    put = client.put_record(StreamName="orders", Data=b"\x00\xff", PartitionKey="ключ")
    page = client.get_records(ShardIterator=iterator_of(client, put["ShardId"]))
    (record,) = page["Records"]
    assert record["Data"] == b"\x00\xff"
    assert record["PartitionKey"] == "ключ"
    assert record["SequenceNumber"] == put["SequenceNumber"]
    assert record["ApproximateArrivalTimestamp"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert page["MillisBehindLatest"] == 0


def test_milliseconds_survive_the_wire_both_ways(running: LocalKinesis, clock: ManualClock) -> None:
    client = running.client()
    for text in (b"a", b"b"):
        running.put_to_shard("orders", ZERO, text)
        clock.advance(1)
    arrival = datetime.fromtimestamp((clock.now_ms() - 1) / 1000, UTC)
    answer = client.get_shard_iterator(
        StreamName="orders", ShardId=ZERO, ShardIteratorType="AT_TIMESTAMP", Timestamp=arrival
    )
    (record,) = client.get_records(ShardIterator=answer["ShardIterator"])["Records"]
    assert record["Data"] == b"b"
    assert record["ApproximateArrivalTimestamp"] == arrival


def test_boto3_raises_the_typed_exceptions(running: LocalKinesis) -> None:
    client = running.client(config=ONCE)
    with pytest.raises(client.exceptions.ResourceNotFoundException, match="not found"):
        client.list_shards(StreamName="nothing")
    with pytest.raises(client.exceptions.InvalidArgumentException, match="Invalid ShardIterator"):
        client.get_records(ShardIterator="junk")
    iterator = iterator_of(client)
    running.inject(Fault("throttle"))
    with pytest.raises(client.exceptions.ProvisionedThroughputExceededException):
        client.get_records(ShardIterator=iterator)


def test_boto3s_paginator_is_refused_as_by_aws(running: LocalKinesis) -> None:
    """botocore's ListShards paginator sends StreamName with NextToken."""
    pages = (
        running.client()
        .get_paginator("list_shards")
        .paginate(StreamName="orders", PaginationConfig={"PageSize": 1})
    )
    with pytest.raises(ClientError, match="NextToken and StreamName cannot be provided together"):
        list(pages)


def test_every_answer_has_the_streams_own_date(wire: Wire, clock: ManualClock) -> None:
    clock.advance(86_400_999)
    for operation, status in (("ListStreams", 200), ("GetRecords", 400), ("Nonsense", 400)):
        response = wire.send(operation, b"{}")
        assert response.status == status
        assert response.getheader("Date") == "Fri, 02 Jan 2026 00:00:00 GMT"
        assert response.getheader("x-amzn-RequestId")
        assert response.getheader("Content-Type") == "application/x-amz-json-1.1"
        assert len(response.read()) == int(response.getheader("Content-Length", "-1"))


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"{}", {"Authorization": ""}, "MissingAuthenticationTokenException"),
        (b"{not json", {}, "SerializationException"),
        (b"[]", {}, "SerializationException"),
        (b'{"Data": "*", "PartitionKey": "k"}', {}, "SerializationException"),
        (b"{}", {"X-Amz-Target": "DynamoDB_20120810.PutItem"}, "UnknownOperationException"),
    ],
)
def test_requests_that_are_no_calls(
    wire: Wire, body: bytes, headers: dict[str, str], code: str
) -> None:
    response = wire.send("PutRecord", body, **headers)
    assert response.status in (400, 404)
    assert json.loads(response.read())["__type"] == code
    assert wire.call("ListStreams")[0] == 200


def test_a_connection_serves_many_calls_and_closes_when_asked(wire: Wire) -> None:
    for _ in range(20):
        assert wire.call("ListStreams") == (
            200,
            {"StreamNames": ["orders"], "HasMoreStreams": False},
        )
    first = wire.connection.sock
    wire.call("ListStreams")
    assert wire.connection.sock is first
    wire.send("ListStreams", b"{}", Connection="close").read()
    assert first.recv(1) == b""


def test_a_reset_is_a_connection_closed_without_answer(running: LocalKinesis) -> None:
    running.inject(Fault("reset"))
    with pytest.raises(ConnectionClosedError):
        running.client(config=ONCE).list_streams()
    running.inject(Fault("reset"))
    assert running.client().list_streams()["StreamNames"] == ["orders"]


def test_truncated_answers(running: LocalKinesis, wire: Wire) -> None:
    running.put_to_shard("orders", ZERO, bytes(1000))
    iterator = iterator_of(running.in_process_client())
    body = json.dumps({"ShardIterator": iterator}).encode()
    whole = wire.send("GetRecords", body).read()
    running.inject(Fault("truncated_consistent"))
    cut = wire.send("GetRecords", body).read()
    assert cut == whole[: len(whole) // 2]
    running.inject(Fault("truncated"))
    with pytest.raises(IncompleteRead):
        wire.send("GetRecords", body).read()


@pytest.mark.parametrize("kind", ["truncated", "truncated_consistent"])
def test_plain_boto3_takes_a_truncated_page_for_an_empty_answer(
    running: LocalKinesis, kind: Any
) -> None:
    """botocore 1.44 reads with `enforce_content_length=False`, so either kind gives `{}`: a
    reader must ask for `Records`."""
    running.put_to_shard("orders", ZERO, bytes(1000))
    client = running.client(config=ONCE)
    iterator = iterator_of(client)
    running.inject(Fault(kind, operation="GetRecords"))
    assert set(client.get_records(ShardIterator=iterator)) == {"ResponseMetadata"}


def test_stopping_frees_the_port_and_ends_connections(kinesis: LocalKinesis) -> None:
    with kinesis:
        wire = Wire(kinesis)
        wire.call("ListStreams")
        port = wire.connection.port
    with pytest.raises(OSError):
        wire.call("ListStreams")
    with pytest.raises(RuntimeError, match="only inside `with"):
        _ = kinesis.endpoint_url
    again = LocalKinesis(port=port)
    with again:
        assert again.endpoint_url == f"http://127.0.0.1:{port}"


def test_concurrent_writers_and_readers_lose_nothing(running: LocalKinesis) -> None:
    def write(writer: int, client: Any) -> None:
        for start in range(0, 100, 10):
            entries = [
                {"Data": b"%d-%d" % (writer, number), "PartitionKey": f"{writer}-{number}"}
                for number in range(start, start + 10)
            ]
            client.put_records(StreamName="orders", Records=entries)

    threads = [threading.Thread(target=write, args=(n, running.client())) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client, seen = running.client(), []
    for shard_id in (ZERO, ONE):
        records = client.get_records(ShardIterator=iterator_of(client, shard_id))["Records"]
        numbers = [int(record["SequenceNumber"]) for record in records]
        assert numbers == sorted(set(numbers))
        seen += [record["Data"] for record in records]
    assert sorted(seen) == sorted(b"%d-%d" % (w, n) for w in range(4) for n in range(100))


def test_spark_options_name_the_running_stream(running: LocalKinesis) -> None:
    options = running.spark_options("orders")
    assert options["streamName"] == "orders"
    assert options["region"] == "us-east-1"
    assert options["endpointUrl"] == running.endpoint_url
    assert set(options) == {
        "streamName",
        "region",
        "endpointUrl",
        "awsAccessKeyId",
        "awsSecretKey",
    }


@pytest.mark.parametrize("thread", [min, max], ids=["main-thread", "another-thread"])
def test_the_module_runs_as_a_process_of_its_own_until_any_thread_is_signalled(
    thread: Callable[[Iterable[int]], int],
) -> None:
    command = [
        sys.executable,
        "-m",
        "kinesis_source.testing",
        "--stream",
        "orders",
        "--shards",
        "3",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        endpoint_url = process.stdout.readline().strip()
        connection = HTTPConnection(endpoint_url.removeprefix("http://"), timeout=10)
        headers = {"X-Amz-Target": "Kinesis_20131202.ListShards", "Authorization": "none"}
        connection.request("POST", "/", b'{"StreamName": "orders"}', headers)
        assert len(json.loads(connection.getresponse().read())["Shards"]) == 3
        # The system chooses which thread takes a signal to the process, mostly the main one.
        os.kill(thread(int(task) for task in os.listdir(f"/proc/{process.pid}/task")), SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


# Both faces


def plain(answer: Any) -> Any:
    """An answer without what differs by design: metadata but the date, and datetimes."""
    if isinstance(answer, dict):
        answer = dict(answer)
        metadata = answer.pop("ResponseMetadata", None)
        if metadata is not None:
            answer["Date"] = metadata["HTTPHeaders"]["date"]
            answer["Status"] = metadata["HTTPStatusCode"]
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    return answer.timestamp() if isinstance(answer, datetime) else answer


def history(kinesis: LocalKinesis, clock: ManualClock, client: Any) -> list[Any]:
    """One scripted life of a stream as this client sees it: every answer and every refusal."""
    seen: list[Any] = []

    def call(operation: str, **request: Any) -> dict[str, Any]:
        try:
            answer = getattr(client, operation)(**request)
        except ClientError as error:
            response = error.response
            seen.append((operation, response["Error"], plain(response)["Status"]))
            return {}
        except BotoCoreError as error:
            seen.append((operation, type(error).__name__))
            return {}
        seen.append((operation, plain(answer)))
        return dict(answer)

    def read(shard_id: str, kind: str = "TRIM_HORIZON", **more: Any) -> None:
        answer = call(
            "get_shard_iterator",
            StreamName="orders",
            ShardId=shard_id,
            ShardIteratorType=kind,
            **more,
        )
        iterator = answer.get("ShardIterator")
        for _ in range(4):
            if iterator is not None:
                iterator = call("get_records", ShardIterator=iterator, Limit=3).get(
                    "NextShardIterator"
                )

    call("create_stream", StreamName="orders", ShardCount=2)
    call("describe_stream_summary", StreamName="orders")
    put = {"ShardId": ZERO, "SequenceNumber": "0"}
    for number in range(8):
        put = call(
            "put_record", StreamName="orders", Data=b"%d" % number, PartitionKey=f"é{number}"
        )
        clock.advance(37)
    entries = [{"Data": b"", "PartitionKey": f"{number}"} for number in range(5)]
    call("put_records", StreamName="orders", Records=entries)
    at = datetime.fromtimestamp((clock.now_ms() - 100) / 1000, UTC)
    for shard_id in (ZERO, ONE, "shardId-000000000009"):
        read(shard_id)
        read(shard_id, "LATEST")
        read(shard_id, "AT_TIMESTAMP", Timestamp=at)
        read(shard_id, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=put["SequenceNumber"])
    call("split_shard", StreamName="orders", ShardToSplit=ZERO, NewStartingHashKey=str(2**125))
    call("merge_shards", StreamName="orders", ShardToMerge=ZERO, AdjacentShardToMerge=ONE)
    call(
        "update_shard_count", StreamName="orders", TargetShardCount=2, ScalingType="UNIFORM_SCALING"
    )
    listing = call("list_shards", StreamName="orders", MaxResults=2)
    call("list_shards", NextToken=listing["NextToken"])
    call("list_shards", StreamName="orders", ShardFilter={"Type": "AT_TIMESTAMP", "Timestamp": at})
    read(ZERO)
    for fault in (
        Fault("throttle", operation="GetRecords"),
        Fault("internal", operation="GetRecords"),
        Fault("unavailable", operation="GetRecords"),
        Fault("reset", operation="GetRecords"),
        Fault("truncated_consistent", operation="GetRecords"),
        Fault("empty_page", times=2),
        Fault("null_iterator"),
        Fault("kms_denied"),
        Fault("throttle", operation="PutRecords"),
    ):
        kinesis.inject(fault)
        read(ONE)
        call("put_records", StreamName="orders", Records=entries)
    call("increase_stream_retention_period", StreamName="orders", RetentionPeriodHours=25)
    clock.advance(25 * 3_600_000 + 1)
    read(ZERO)
    read(ONE, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=put["SequenceNumber"])
    call("list_shards", NextToken=listing["NextToken"])
    call("delete_stream", StreamName="orders")
    call("list_streams")
    return seen


def test_both_faces_give_the_same_answers() -> None:
    def run(face: Callable[[LocalKinesis], Any]) -> list[Any]:
        clock = ManualClock()
        with LocalKinesis(clock, seed=3) as kinesis:
            return history(kinesis, clock, face(kinesis))

    over_http = run(lambda kinesis: kinesis.client(config=ONCE))
    in_process = run(lambda kinesis: kinesis.in_process_client())
    assert len(in_process) >= 100
    for http_step, in_process_step in zip(over_http, in_process, strict=True):
        assert http_step == in_process_step
