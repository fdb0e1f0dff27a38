"""The policies in README and docs/access.md allow every call that is made, and nothing else.

A query's life is played in one process with the simulated engine, each call noted with the process
that made it: a reshard, a restart, runs of AvailableNow, loss, lease tables, a role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.aws import lease_table
from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.lease_table import open_lease_table
from kinesis_source.aws.session import Connection, ProcessRole, connect
from kinesis_source.errors import AccessDeniedError
from kinesis_source.options import Options
from kinesis_source.planning import lease_writer
from kinesis_source.spark.source import KinesisDataSource
from kinesis_source.testing import LocalKinesis, ManualClock
from tests.support import connection as connections
from tests.support.dynamodb import KEYS, REGION, LocalDynamoDB, local_dynamodb
from tests.support.inline import InlineExecutor
from tests.support.kcl_rows import kcl_1
from tests.support.sts import local_sts
from tests.unit.planning.local_query import LocalQuery

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text().partition("## Permissions")[2].partition("\n## ")[0]
DOCUMENT = (ROOT / "docs/access.md").read_text()
TABLE = "orders-application"
ROLE = "arn:aws:iam::210987654321:role/reader"
HOUR_MS = 3_600_000

calls: set[tuple[str, str]] = set()


class _Noting:
    """A client that notes which process calls what."""

    def __init__(self, client: Any, role: str) -> None:
        self._client = client
        self._role = role

    def __getattr__(self, name: str) -> Any:
        if name not in ("close", "meta"):
            operation = "".join(word.capitalize() for word in name.split("_"))
            calls.add((self._role, f"kinesis:{operation}"))
        return getattr(self._client, name)


def connect_noting(
    options: Options, role: ProcessRole, region: str | None = None, threads: int = 1
) -> Connection:
    client, clock = connections._STREAMS[str(options.endpoint_url)]
    stream = StreamRef(options.stream_name, options.stream_arn)
    return Connection(KinesisClient(_Noting(client, role), stream, clock, role), clock)


class NotingDataSource(KinesisDataSource):
    connect = staticmethod(connect_noting)


@pytest.fixture
def query() -> Iterator[LocalQuery]:
    calls.clear()
    query = LocalQuery(2)
    given = query.source
    query.source = lambda **o: NotingDataSource(dict(given(**o).options))  # type: ignore
    yield query
    query.stop()
    query.close()


def statements(text: str) -> list[dict[str, Any]]:
    policies = re.findall(r"^ *```json\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [s for policy in policies for s in json.loads(policy)["Statement"]]


def allowed(text: str, service: str) -> set[str]:
    """The actions of a service that the policies in a text allow."""
    actions: set[str] = set()
    for statement in statements(text):
        named = statement["Action"]
        actions |= {named} if isinstance(named, str) else set(named)
    return {action for action in actions if action.startswith(service)}


def live(query: LocalQuery) -> None:
    """Batches, a split and a merge, a restart, AvailableNow, a trimmed position, a lost shard."""
    for number in (0, 1):
        query.put(query.shard(number), 3)
    query.settle()
    children = query.kinesis.split("orders", query.shard(0))
    for shard_id in children:
        query.put(shard_id, 3)
    query.settle()
    query.kinesis.merge("orders", *children)
    query.put(query.shard(4), 3)
    query.stop()
    query.settle()
    query.put(query.shard(1), 3)
    query.available_now()
    query.put(query.shard(1), 3)
    query.stop()
    query.clock.advance(30 * HOUR_MS)
    query.options["failOnDataLoss"] = "false"
    query.put(query.shard(1), 3)
    query.settle()
    # Between plan and read: what the tasks ask when a record is not there.
    query.put(query.shard(1), 3)
    source = query.source()
    reader = source.streamReader(source.schema())
    start = json.loads(query.offsets[max(query.offsets)])
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    query.clock.advance(30 * HOUR_MS)
    for partition in partitions:
        list(reader.read(partition))


def test_the_life_of_a_query_makes_the_calls_that_the_readme_allows(query: LocalQuery) -> None:
    live(query)
    by_role = {role: {call for r, call in calls if r == role} for role in ("driver", "executor")}
    assert by_role["driver"] == allowed(README, "kinesis:")
    assert by_role["executor"] == allowed(README, "kinesis:") - {"kinesis:ListShards"}
    assert "not `kinesis:ListShards`" in README


@pytest.mark.parametrize("action", sorted(allowed(README, "kinesis:")))
def test_each_action_is_needed_and_named_when_it_is_missing(query: LocalQuery, action: str) -> None:
    query.put(query.shard(0))
    with LocalKinesis(ManualClock()) as kinesis:
        kinesis.create_stream("orders")
        kinesis.put("orders", b"record", "key")
        kinesis.deny(action.removeprefix("kinesis:"))
        options = kinesis.spark_options("orders") | {"startingPosition": "TRIM_HORIZON"}
        reader = KinesisDataSource(options).streamReader(KinesisDataSource(options).schema())
        with pytest.raises(AccessDeniedError) as raised:
            reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        reader.stop()
    assert f"Allow the action {action} on arn:aws:kinesis:us-east-1:" in str(raised.value)
    assert ":stream/orders to the credentials on the driver" in str(raised.value)


def test_the_action_on_the_key_is_the_one_that_a_refusal_names(query: LocalQuery) -> None:
    query.put(query.shard(0))
    query.fault("kms_denied", "GetRecords", times=None)
    with pytest.raises(Exception, match="Allow the action kms:Decrypt"):
        query.trigger()
    assert allowed(README, "kms:") == {"kms:Decrypt"}


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[LocalDynamoDB]:
    with local_dynamodb() as server:
        yield server


def noting_tables(monkeypatch: pytest.MonkeyPatch, denied: str | None = None) -> set[str]:
    """The operations that lease tables are asked for from now on; `denied` is refused."""
    monkeypatch.setattr(lease_writer, "ThreadPoolExecutor", InlineExecutor)
    made: set[str] = set()
    make: Callable[..., Any] = lease_table.sdk_client

    def noting_client(*given: Any) -> Any:
        client = make(*given)

        def note(model: Any, **_: Any) -> Any:
            made.add(model.name)
            if lease_table._ACTIONS.get(model.name, model.name) != denied:
                return None
            response = {
                "Error": {"Code": "AccessDeniedException", "Message": "not authorized"},
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }

            class Http:
                status_code = 400

            return Http(), response

        client.meta.events.register("before-call.dynamodb", note)
        return client

    monkeypatch.setattr(lease_table, "sdk_client", noting_client)
    return made


def lease_options(dynamodb: LocalDynamoDB) -> dict[str, str]:
    return {
        **KEYS,
        "startFromLeaseTable": TABLE,
        "writeLeaseTable": TABLE,
        "leaseTableRegion": REGION,
        "leaseTableEndpointUrl": dynamodb.url,
    }


def play_with_tables(query: LocalQuery, dynamodb: LocalDynamoDB) -> None:
    """From a table of leases that still have an owner, with a reshard, and with one that another
    application goes on writing."""
    if TABLE in dynamodb.client.list_tables()["TableNames"]:
        dynamodb.client.delete_table(TableName=TABLE)
    dynamodb.create_lease_table(TABLE, [kcl_1(query.shard(n), "TRIM_HORIZON") for n in (0, 1)])
    query.options |= lease_options(dynamodb)
    query.put(query.shard(0), 3)
    query.settle()
    query.kinesis.merge("orders", query.shard(0), query.shard(1))
    query.put(query.shard(2), 3)
    query.settle()
    row = dynamodb.row(TABLE, query.shard(2)) or kcl_1(query.shard(2), "TRIM_HORIZON")
    dynamodb.put(TABLE, [{**row, "leaseCounter": {"N": "999"}}])
    query.put(query.shard(2), 3)
    query.settle(gap_ms=20_000)


def test_lease_tables_take_the_calls_that_the_document_allows(
    query: LocalQuery, dynamodb: LocalDynamoDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = noting_tables(monkeypatch)
    play_with_tables(query, dynamodb)
    actions = {f"dynamodb:{lease_table._ACTIONS.get(name, name)}" for name in made}
    assert actions == allowed(DOCUMENT, "dynamodb:")


@pytest.mark.parametrize("action", sorted(allowed(DOCUMENT, "dynamodb:")))
def test_each_action_on_a_lease_table_is_named_when_it_is_missing(
    query: LocalQuery,
    dynamodb: LocalDynamoDB,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    action: str,
) -> None:
    noting_tables(monkeypatch, denied=action.removeprefix("dynamodb:"))
    try:
        play_with_tables(query, dynamodb)
    except Exception as error:
        assert action == "dynamodb:Scan"  # only that ends a query: it cannot know where to start
        shown = str(error)
    else:
        shown = caplog.text  # a table that cannot be written never does
    arn = f"arn:aws:dynamodb:{REGION}:<account>:table/{TABLE}"
    assert f"Allow the action {action} on {arn} to the credentials on the driver" in shown


def test_a_role_takes_the_call_that_the_document_allows() -> None:
    with local_sts() as sts, LocalKinesis() as kinesis:
        kinesis.create_stream("orders")
        given = {**kinesis.spark_options("orders"), "roleArn": ROLE, "stsEndpointUrl": sts.url}
        connect(Options.parse(given), "driver").client.describe_stream_summary()
        assert {f"sts:{action}" for action in sts.calls} == allowed(DOCUMENT, "sts:")


def test_a_role_that_is_not_the_tables_own_is_named(dynamodb: LocalDynamoDB) -> None:
    with local_sts() as sts:
        sts.refusal = ("AccessDenied", "not authorized", 403)
        given = {
            "streamName": "orders",
            **lease_options(dynamodb),
            "leaseTableRoleArn": ROLE,
            "roleExternalId": "tenant-7",
            "stsEndpointUrl": sts.url,
        }
        table = open_lease_table(Options.parse(given), TABLE)
        with pytest.raises(AccessDeniedError, match=f"sts:AssumeRole on {ROLE}"):
            table.read()
        assert sts.requests[0]["ExternalId"] == "tenant-7"
