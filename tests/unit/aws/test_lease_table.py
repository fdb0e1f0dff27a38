"""Reading and writing lease tables, on moto's DynamoDB over HTTP, and scripted refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.aws.lease_table import LeaseTable, open_lease_table
from kinesis_source.clock import SystemClock
from kinesis_source.core.lease_rows import LeaseChange, lease_rows, plan_lease_changes
from kinesis_source.core.lease_starts import moving_leases
from kinesis_source.core.leases import Lease, RecordCheckpoint, Sentinel, parse_lease
from kinesis_source.errors import (
    AccessDeniedError,
    CredentialsError,
    LeaseTableError,
    TransientServiceError,
)
from kinesis_source.options import Options
from kinesis_source.testing.clock import ManualClock
from tests.support import kcl_rows
from tests.support.dynamodb import KEYS, REGION, LocalDynamoDB, local_dynamodb
from tests.unit.aws.test_session import ROLE, assumed
from tests.unit.core.building import after, ended, lineage, places, shard, shard_id, span

S0, S1, S2 = (shard_id(n) for n in range(3))


@pytest.fixture(autouse=True)
def no_aws_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[LocalDynamoDB]:
    with local_dynamodb() as local:
        yield local


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A table name of this test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:200]


@pytest.fixture
def table(dynamodb: LocalDynamoDB, name: str) -> Iterator[LeaseTable]:
    table = open_table(dynamodb.url, name)
    yield table
    table.close()


def open_table(url: str, name: str, clock: ManualClock | None = None, **rest: str) -> LeaseTable:
    """`rest`: more options."""
    options = Options.parse(
        {
            "streamName": "orders",
            "region": REGION,
            "endpointUrl": "http://127.0.0.1:1",
            "startFromLeaseTable": name,
            "leaseTableEndpointUrl": url,
            **KEYS,
            **rest,
        }
    )
    return open_lease_table(options, name, clock=clock)


def by_shard(table: LeaseTable) -> dict[str, Lease]:
    return {lease.shard_id: lease for lease in table.read()}


class TestRead:
    def test_rows_of_every_version(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        rows = [
            kcl_rows.kcl_1(S0, "SHARD_END", owner="w"),
            kcl_rows.kcl_2(S1, "4957", span(0, 4), children=[S2], pending="4958"),
            kcl_rows.kcl_3(S2, "TRIM_HORIZON", span(4, 8), owner="w", checkpoint_owner="v"),
            kcl_rows.kcl_3_5(shard_id(3), "4959", span(8, 16), sub=3),
            kcl_rows.in_stream(kcl_rows.kcl_3_5(S0, "1", span(0, 8)), "123456789012:other:7"),
        ]
        dynamodb.create_lease_table(name, [*rows, *kcl_rows.not_leases_of_3_5()])
        read = table.read()
        assert sorted(read, key=lambda i: i.lease_key) == sorted(
            (found for row in rows if (found := parse_lease(kcl_rows.plain(row)))),
            key=lambda i: i.lease_key,
        )
        assert len(read) == len(rows)

    def test_a_thousand_leases_come_in_several_pages(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        padding = {"note": {"S": "x" * 2_000}}  # a page is at most 1 MB
        rows = [{**kcl_rows.kcl_1(shard_id(n), str(n)), **padding} for n in range(1_000)]
        dynamodb.create_lease_table(name, rows)
        assert "LastEvaluatedKey" in dynamodb.client.scan(TableName=name)
        leases = by_shard(table)
        assert {i: lease.checkpoint for i, lease in leases.items()} == {
            shard_id(n): RecordCheckpoint(n) for n in range(1_000)
        }

    def test_no_such_table(self, table: LeaseTable, name: str) -> None:
        with pytest.raises(
            LeaseTableError, match=rf"lease table {name}\): found no table .*{REGION}"
        ):
            table.read()

    def test_a_table_of_something_else(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        dynamodb.put(name, [{"id": {"S": "7"}}])
        with pytest.raises(LeaseTableError, match="leaseKey"):
            table.read()
        with pytest.raises(LeaseTableError, match=r"whose only key is leaseKey"):
            table.write(Lease(shard_id=S0, checkpoint=RecordCheckpoint(5)), None)

    def test_a_live_owner_shows_in_a_second_read(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        rows = [kcl_rows.kcl_1(S0, "5", owner="alive"), kcl_rows.kcl_1(S1, "5", owner="dead")]
        dynamodb.create_lease_table(name, rows)
        first = table.read()
        dynamodb.put(name, [kcl_rows.kcl_1(S0, "5", owner="alive", counter=42)])
        assert [lease.owner for lease in moving_leases(first, table.read())] == ["alive"]


class TestWrite:
    def test_a_new_row_is_as_the_library_makes_it(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.create_lease_table(name)
        (row,) = lease_rows(places({1: after(4957)}), lineage(shard(1, 0, 4, 0)))
        table.write(row, None)
        assert dynamodb.row(name, S1) == kcl_rows.kcl_2(
            S1, "4957", span(0, 4), counter=0, parents=[S0]
        )

    def test_a_row_that_is_there_is_not_taken_for_new(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        row = kcl_rows.kcl_1(S1, "7")
        dynamodb.create_lease_table(name, [row])
        with pytest.raises(
            LeaseTableError, match=rf"{S1}: found counter 41 at 7; expected no lease"
        ):
            table.write(Lease(shard_id=S1, checkpoint=RecordCheckpoint(5)), None)
        assert dynamodb.row(name, S1) == row

    def test_other_attributes_stay_and_what_was_pending_goes(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.create_lease_table(
            name, [kcl_rows.kcl_3_5(S1, "7", span(0, 4), parents=[S0], pending="8", switches=2)]
        )
        before = by_shard(table)[S1]
        rows = lease_rows(places({1: after(9)}), lineage(shard(1, 0, 4, 0)))
        ((change,),) = plan_lease_changes(rows, {S1: before}, {})
        table.write(change.lease, change.expected)
        assert dynamodb.row(name, S1) == kcl_rows.kcl_3_5(
            S1, "9", span(0, 4), parents=[S0], counter=42
        )

    def test_it_is_refused_when_the_counter_has_moved(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.create_lease_table(name, [kcl_rows.kcl_1(S1, "7")])
        before = by_shard(table)[S1]
        moved = kcl_rows.kcl_1(S1, "8", counter=42)
        dynamodb.put(name, [moved])
        with pytest.raises(
            LeaseTableError, match=r"found counter 42 at 8; expected counter 41 at 7.*Nothing"
        ):
            table.write(replace(before, checkpoint=RecordCheckpoint(9)), before)
        assert dynamodb.row(name, S1) == moved

    @pytest.mark.parametrize("holder", ["leaseOwner", "checkpointOwner"])
    def test_it_is_refused_when_there_is_an_owner(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str, holder: str
    ) -> None:
        owned = {**kcl_rows.kcl_1(S1, "7"), holder: {"S": "worker-1"}}
        dynamodb.create_lease_table(name, [owned])
        before = by_shard(table)[S1]
        with pytest.raises(LeaseTableError, match=r"found owner 'worker-1'; expected none"):
            table.write(replace(before, checkpoint=RecordCheckpoint(9)), before)
        assert dynamodb.row(name, S1) == owned

    def test_a_released_lease_can_be_written(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.create_lease_table(
            name, [kcl_rows.kcl_3(S1, "7", span(0, 4), owner="dead", checkpoint_owner="gone")]
        )
        table.release(by_shard(table)[S1])
        released = by_shard(table)[S1]
        assert released.owners == ()
        assert released.counter == 42
        table.write(replace(released, checkpoint=RecordCheckpoint(9), counter=43), released)
        assert by_shard(table)[S1].checkpoint == RecordCheckpoint(9)

    def test_a_live_owner_is_not_released(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.create_lease_table(name, [kcl_rows.kcl_1(S1, "7", owner="alive")])
        before = by_shard(table)[S1]
        moved = kcl_rows.kcl_1(S1, "7", owner="alive", counter=42)
        dynamodb.put(name, [moved])
        with pytest.raises(LeaseTableError, match="owner 'alive'"):
            table.release(before)
        assert dynamodb.row(name, S1) == moved

    def test_the_parents_of_a_merge_are_written_together_or_not_at_all(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        family = lineage(
            shard(1, 0, 8, closed=True), shard(2, 8, 16, closed=True), shard(3, 0, 16, 1, 2)
        )
        rows = lease_rows(places({1: ended(), 2: ended()}), family)
        owned = kcl_rows.kcl_1(S2, "7", owner="worker-1")
        dynamodb.create_lease_table(name, [owned])
        parents, child = plan_lease_changes(rows, by_shard(table), {})
        with pytest.raises(LeaseTableError, match=rf"{S2}: found owner 'worker-1'"):
            table.write_together(parents)
        assert set(by_shard(table)) == {S2}

        dynamodb.put(name, [kcl_rows.kcl_1(S2, "7")])
        table.write_together(parents)
        table.write_together(child)
        assert {i: lease.checkpoint for i, lease in by_shard(table).items()} == {
            S1: Sentinel.SHARD_END,
            S2: Sentinel.SHARD_END,
            shard_id(3): Sentinel.TRIM_HORIZON,
        }
        assert by_shard(table)[S1].child_ids == {shard_id(3)}

    def test_export_import_export_is_the_same(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        dynamodb.create_lease_table(name)
        family = lineage(
            shard(0, 0, 8, closed=True), shard(1, 0, 4, 0), shard(2, 4, 8, 0), shard(3, 8, 16)
        )
        rows = lease_rows(places({0: ended(), 3: after(4957)}), family)
        for group in plan_lease_changes(rows, {}, {}):
            table.write_together(group)
        assert [by_shard(table)[row.shard_id] for row in rows] == rows
        assert plan_lease_changes(rows, by_shard(table), {}) == []


class TestCreate:
    def test_a_table_is_created_once(
        self, dynamodb: LocalDynamoDB, table: LeaseTable, name: str
    ) -> None:
        table.create()
        table.write(Lease(shard_id=S0, checkpoint=RecordCheckpoint(5)), None)
        table.create()
        assert set(by_shard(table)) == {S0}
        description = dynamodb.client.describe_table(TableName=name)["Table"]
        assert description["KeySchema"] == [{"AttributeName": "leaseKey", "KeyType": "HASH"}]
        assert description["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"

    def test_it_waits_until_the_table_is_active(self, server: Any) -> None:
        clock = ManualClock()
        server.fail("ResourceNotFoundException")
        server.answer({"TableDescription": {"TableName": "app", "TableStatus": "CREATING"}})
        for status in ("CREATING", "CREATING", "ACTIVE"):
            server.answer({"Table": {"TableName": "app", "TableStatus": status}})
        before = clock.monotonic()
        open_table(server.url, "app", clock).create()
        assert [r.operation for r in server.requests].count("CreateTable") == 1
        assert clock.monotonic() - before == 3


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "action"),
        [
            (lambda t: t.read(), "Scan"),
            (
                lambda t: t.write(Lease(shard_id=S0, checkpoint=RecordCheckpoint(5)), None),
                "UpdateItem",
            ),
            (
                lambda t: t.write_together(
                    [
                        LeaseChange(Lease(shard_id=i, checkpoint=RecordCheckpoint(5)), None)
                        for i in (S0, S1)
                    ]
                ),
                "UpdateItem",
            ),
            (lambda t: t.create(), "DescribeTable"),
        ],
    )
    def test_no_permission_names_the_action(self, server: Any, call: Any, action: str) -> None:
        server.fail("AccessDeniedException", "User: arn:x is not authorized")
        with pytest.raises(
            AccessDeniedError, match=rf"arn:x.*Allow the action dynamodb:{action} on"
        ):
            call(open_table(server.url, "app"))

    @pytest.mark.parametrize(
        "code", ["ProvisionedThroughputExceededException", "ThrottlingException"]
    )
    def test_throttles_are_transient(self, server: Any, code: str) -> None:
        for _ in range(2):  # the SDK tries twice
            server.fail(code)
        with pytest.raises(TransientServiceError, match=r"Scan \(lease table app\)") as raised:
            open_table(server.url, "app").read()
        assert raised.value.throttled

    def test_faults_and_resets_are_transient(self, server: Any) -> None:
        server.fail("InternalServerError", status=500)
        server.reset()
        with pytest.raises(TransientServiceError, match="ConnectionClosed"):
            open_table(server.url, "app").read()
        with pytest.raises(TransientServiceError, match=r"127\.0\.0\.1:1/"):
            open_table("http://127.0.0.1:1", "app").read()

    def test_an_answer_that_was_cut_is_transient(self, server: Any) -> None:
        server.answer({"Count": 1})
        with pytest.raises(TransientServiceError, match="incomplete, it has no Items"):
            open_table(server.url, "app").read()

    def test_a_conflicting_transaction_is_transient(self, server: Any) -> None:
        reasons = [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "busy"}]
        server.answer(
            {
                "__type": "TransactionCanceledException",
                "message": "cancelled",
                "CancellationReasons": reasons,
            },
            400,
        )
        leases = [Lease(shard_id=i, checkpoint=RecordCheckpoint(5)) for i in (S0, S1)]
        with pytest.raises(TransientServiceError, match="cancelled"):
            open_table(server.url, "app").write_together([LeaseChange(i, None) for i in leases])

    def test_refused_keys_are_read_again_once(self, server: Any) -> None:
        for _ in range(2):
            server.fail("ExpiredTokenException")
        with pytest.raises(CredentialsError, match="has expired"):
            open_table(server.url, "app").read()
        assert len(server.requests) == 2

    def test_no_error_holds_a_key(self, server: Any) -> None:
        for _ in range(2):
            server.fail("InvalidSignatureException", KEYS["awsSecretKey"])
        with pytest.raises(CredentialsError) as raised:
            open_table(server.url, "app").read()
        assert KEYS["awsSecretKey"] not in str(raised.value)
        assert raised.value.__cause__ is None


class TestConnection:
    def test_region_and_role_of_its_own(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        sts = type(server)()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        assumed(sts, "AKIDROLE", SystemClock().now_ms() + 3_600_000)
        server.answer({"Items": []})
        table = open_table(server.url, "app", leaseTableRegion="us-west-2", leaseTableRoleArn=ROLE)
        assert table.read() == []
        sts.close()
        authorization = server.requests[0].headers["authorization"]
        assert "Credential=AKIDROLE/" in authorization
        assert "/us-west-2/dynamodb/" in authorization

    def test_a_role_that_may_not_be_assumed(
        self, server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sts = type(server)()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        sts.answer(
            b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>arn:x is not authorized"
            b"</Message></Error></ErrorResponse>",
            403,
            headers={"Content-Type": "text/xml"},
        )
        with pytest.raises(AccessDeniedError, match=r"arn:x.*sts:AssumeRole"):
            open_table(server.url, "app", leaseTableRoleArn=ROLE).read()
        sts.close()

    def test_one_consistent_scan(self, server: Any) -> None:
        key = {"leaseKey": {"S": S0}}
        server.answer({"Items": [kcl_rows.kcl_1(S0, "5")], "LastEvaluatedKey": key})
        server.answer({"Items": [kcl_rows.kcl_1(S1, "6")]})
        leases = open_table(server.url, "app").read()
        assert [lease.shard_id for lease in leases] == [S0, S1]
        assert [r.params["ConsistentRead"] for r in server.requests] == [True, True]
        assert server.requests[1].params["ExclusiveStartKey"] == key
        assert "pyspark-kinesis/" in server.requests[0].headers["user-agent"]
