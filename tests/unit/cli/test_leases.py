"""`kinesis-source leases`, on moto's DynamoDB and the local stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kinesis_source.aws.lease_table import open_lease_table
from kinesis_source.cli.lease_writing import WritingPlan, write
from kinesis_source.core.lease_rows import LeaseChange
from kinesis_source.core.leases import Lease, Sentinel
from kinesis_source.core.starting_position import parse_starting_position
from kinesis_source.errors import LeaseTableError
from kinesis_source.options import Options
from kinesis_source.testing import LocalKinesis, ManualClock
from tests.compat.fixtures import HERE, load_fixture
from tests.compat.history import restore
from tests.support.dynamodb import KEYS, REGION, LocalDynamoDB, local_dynamodb
from tests.support.kcl_rows import Row, in_stream, kcl_1, kcl_3_5, not_leases_of_3_5
from tests.unit.cli.command_line import CommandLine, Ran

SHARD = "shardId-{:012}".format
TABLE = "orders-application"
HOUR_MS = 3_600_000


class MeddlingClock(ManualClock):
    """Somebody does something while the command waits."""

    meddle: Callable[[], None] | None = None

    def sleep(self, seconds: float) -> None:
        if self.meddle is not None and seconds >= 10:
            self.meddle()
        super().sleep(seconds)


@pytest.fixture
def clock() -> MeddlingClock:
    return MeddlingClock()


@pytest.fixture(scope="module")
def server() -> Iterator[LocalDynamoDB]:
    with local_dynamodb() as dynamodb:
        yield dynamodb


@pytest.fixture
def dynamodb(server: LocalDynamoDB) -> Iterator[LocalDynamoDB]:
    yield server
    for name in server.client.list_tables()["TableNames"]:
        server.client.delete_table(TableName=name)


@pytest.fixture
def leases(
    command_line: CommandLine, dynamodb: LocalDynamoDB, kinesis: LocalKinesis
) -> Callable[..., Ran]:
    """`leases("show", …)` on `TABLE` and the stream `orders`."""

    def run(command: str, *arguments: str, table: str = TABLE) -> Ran:
        stream = ("--stream", "orders", "--region", "us-east-1")
        where = ("--table-region", REGION, "--table-endpoint-url", dynamodb.url)
        return command_line("leases", command, table, *arguments, *stream, *where, kinesis=kinesis)

    return run


def rows(dynamodb: LocalDynamoDB, table: str = TABLE) -> dict[str, dict[str, Any]]:
    items = dynamodb.client.scan(TableName=table, ConsistentRead=True)["Items"]
    return {item["leaseKey"]["S"]: item for item in items}


def checkpoints(dynamodb: LocalDynamoDB, table: str = TABLE) -> dict[str, str]:
    return {key: row["checkpoint"]["S"] for key, row in rows(dynamodb, table).items()}


def put(kinesis: LocalKinesis, shard: int, count: int) -> list[int]:
    return [
        kinesis.put_to_shard("orders", SHARD(shard), b"x", "key").sequence_number
        for _ in range(count)
    ]


@pytest.fixture
def wedged(kinesis: LocalKinesis, dynamodb: LocalDynamoDB, clock: ManualClock) -> list[str]:
    """The old failure: shard 0 was split and has closed, its lease is not at SHARD_END, and its
    children wait for ever. The numbers at which the leases of shards 0 and 1 stand."""
    kinesis.create_stream("orders", shards=2)
    parent, other = put(kinesis, 0, 5)[1], put(kinesis, 1, 3)[2]
    kinesis.split("orders", SHARD(0))
    clock.advance(60_000)
    dynamodb.create_lease_table(
        TABLE,
        [
            kcl_1(SHARD(0), str(parent), owner="worker-1"),
            kcl_1(SHARD(1), str(other), owner="worker-2"),
            kcl_1(SHARD(2), "TRIM_HORIZON", parents=[SHARD(0)], owner="worker-1"),
            kcl_1(SHARD(3), "TRIM_HORIZON", parents=[SHARD(0)]),
        ],
    )
    return [str(parent), str(other)]


# show


def test_the_wedged_table(leases: Callable[..., Ran], wedged: list[str]) -> None:
    parent, other = wedged
    ran = leases("show")
    assert ran.status == 1
    assert (
        ran.out
        == f"""\
Table   orders-application, 4 leases
Stream  arn:aws:kinesis:us-east-1:123456789012:stream/orders
Owners  worker-1, worker-2

shard                    state   lease          owner
shardId-000000000000     closed  …{parent[-12:]}  worker-1  wedged-parent
├─ shardId-000000000002  open    TRIM_HORIZON   worker-1
└─ shardId-000000000003  open    TRIM_HORIZON
shardId-000000000001     open    …{other[-12:]}  worker-2

wedged-parent: shardId-000000000000 is closed and stands at {parent}, not at SHARD_END; \
until a worker reads its last records its children wait: shardId-000000000002 at TRIM_HORIZON, \
shardId-000000000003 at TRIM_HORIZON
owned: worker 'worker-1' holds 2 leases: it is running, or it stopped without giving them back
owned: worker 'worker-2' holds 1 leases: it is running, or it stopped without giving them back

Whether these owners are alive: --live reads again after 10 s.
"""
    )


def test_a_sound_table_of_three_generations(
    leases: Callable[..., Ran], kinesis: LocalKinesis, dynamodb: LocalDynamoDB
) -> None:
    """In the format of KCL 3.5, with its rows that are no leases."""
    kinesis.create_stream("orders", shards=2)
    kinesis.split("orders", SHARD(0))
    kinesis.merge("orders", SHARD(3), SHARD(1))
    number = str(put(kinesis, 2, 1)[0])
    shards = kinesis.ledger("orders").shards
    places = {0: "SHARD_END", 1: "SHARD_END", 2: number, 3: "SHARD_END", 4: "TRIM_HORIZON"}
    dynamodb.create_lease_table(
        TABLE,
        [
            kcl_3_5(SHARD(i), place, shards[SHARD(i)].hash_range, parents=shards[SHARD(i)].parents)
            for i, place in places.items()
        ]
        + not_leases_of_3_5(),
    )
    ran = leases("show")
    assert (
        ran.out
        == f"""\
Table   orders-application, 5 leases
Stream  arn:aws:kinesis:us-east-1:123456789012:stream/orders
Owners  none

shard                                state   lease          owner
shardId-000000000000                 closed  SHARD_END
├─ shardId-000000000002              open    …{number[-12:]}
└─ shardId-000000000003              closed  SHARD_END
   └─ shardId-000000000004 (merged)  open    TRIM_HORIZON
shardId-000000000001                 closed  SHARD_END
└─ shardId-000000000004              above

Nothing is wrong with it.
"""
    )


def test_leases_of_shards_that_are_gone_have_their_place_in_the_tree(
    leases: Callable[..., Ran], wedged: list[str], clock: ManualClock
) -> None:
    clock.advance(25 * HOUR_MS)
    ran = leases("show")
    assert ran.cells[SHARD(0)] == ["gone", f"…{wedged[0][-12:]}", "worker-1", "gone-shard"]
    assert ran.cells[SHARD(2)][0] == "open"
    assert f"gone-shard: {SHARD(0)}, whose lease stands at {wedged[0]}, does not exist" in ran.out


def test_the_document_of_a_table(leases: Callable[..., Ran], wedged: list[str]) -> None:
    document = leases("show", "--json").document
    assert document["shards"][0] == {
        "shardId": SHARD(0),
        "state": "closed",
        "parents": [],
        "lease": {
            "leaseKey": SHARD(0),
            "checkpoint": wedged[0],
            "checkpointSubSequenceNumber": 0,
            "owner": "worker-1",
            "checkpointOwner": None,
            "counter": 41,
            "children": [],
        },
    }
    assert [f["kind"] for f in document["findings"]] == ["wedged-parent", "owned", "owned"]
    assert document["findings"][0]["shardIds"] == [SHARD(0), SHARD(2), SHARD(3)]
    assert document["moving"] is None


def test_a_running_worker_is_seen_by_a_second_read(
    leases: Callable[..., Ran],
    wedged: list[str],
    dynamodb: LocalDynamoDB,
    clock: MeddlingClock,
) -> None:
    ran = leases("show", "--live")
    assert "Not one lease was written to within 10 s" in ran.out
    clock.meddle = lambda: beat(dynamodb, SHARD(2))
    ran = leases("show", "--live")
    assert "Running: worker-1 wrote to 1 leases within 10 s." in ran.out
    assert leases("show", "--live", "--json").document["moving"] == [SHARD(2)]


def beat(dynamodb: LocalDynamoDB, shard_id: str) -> None:
    """What a worker does every three seconds."""
    dynamodb.client.update_item(
        TableName=TABLE,
        Key={"leaseKey": {"S": shard_id}},
        UpdateExpression="ADD leaseCounter :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


# export


def test_the_wedged_table_as_a_starting_position(
    leases: Callable[..., Ran], wedged: list[str]
) -> None:
    ran = leases("export")
    assert ran.status == 0
    assert json.loads(ran.out) == {
        "default": "TRIM_HORIZON",
        SHARD(0): f"AFTER_SEQUENCE_NUMBER {wedged[0]}",
        SHARD(1): f"AFTER_SEQUENCE_NUMBER {wedged[1]}",
        SHARD(2): "TRIM_HORIZON",
        SHARD(3): "TRIM_HORIZON",
    }
    assert str(parse_starting_position(ran.out)) == ran.out.strip()


def test_leases_without_a_time_need_one(
    leases: Callable[..., Ran], kinesis: LocalKinesis, dynamodb: LocalDynamoDB, clock: ManualClock
) -> None:
    kinesis.create_stream("orders")
    clock.advance(60_000)
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(0), "LATEST")])
    ran = leases("export")
    assert (ran.status, ran.out) == (2, "")
    assert "leases stand at LATEST (1, such as" in ran.err
    time = f"AT_TIMESTAMP {clock.now_ms() - 30_000}"
    ran = leases("export", "--option", f"startingPosition={time}")
    assert json.loads(ran.out) == {"default": time, SHARD(0): time}


def test_a_lease_inside_an_aggregated_record_starts_before_it(
    leases: Callable[..., Ran], kinesis: LocalKinesis, dynamodb: LocalDynamoDB, clock: ManualClock
) -> None:
    kinesis.create_stream("orders")
    put(kinesis, 0, 1)
    clock.advance(5_000)
    arrival_ms, number = clock.now_ms(), put(kinesis, 0, 1)[0]
    clock.advance(5_000)
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(0), str(number), sub=7)])
    assert json.loads(leases("export").out)[SHARD(0)] == f"AT_TIMESTAMP {arrival_ms}"
    assert "(user record 7)" in leases("show").out


def test_what_is_lost_is_told_as_the_query_would(
    leases: Callable[..., Ran], wedged: list[str], clock: ManualClock
) -> None:
    clock.advance(25 * HOUR_MS)
    ran = leases("export")
    assert (ran.status, ran.out) == (2, "")
    assert f"data loss in {SHARD(0)}" in ran.err
    ran = leases("export", "--option", "failOnDataLoss=false")
    assert SHARD(0) not in json.loads(ran.out)


# write


def path_of(moment: str) -> str:
    return str(HERE / "0.1.0" / moment / "checkpoint")


@pytest.fixture
def restored(clock: ManualClock) -> Iterator[LocalKinesis]:
    """The stream of a query that has read a shard to its end and not begun with its children."""
    history = load_fixture("0.1.0/parent_at_shard_end").history
    clock.advance(history.acts[0].at_ms - clock.now_ms())
    with restore(history, clock) as kinesis:
        yield kinesis


@pytest.fixture
def write_leases(
    command_line: CommandLine, dynamodb: LocalDynamoDB, restored: LocalKinesis
) -> Callable[..., Ran]:
    """No option names the stream: the checkpoint does."""

    def run(*arguments: str, table: str = TABLE) -> Ran:
        where = ("--table-region", REGION, "--table-endpoint-url", dynamodb.url)
        path = path_of("parent_at_shard_end")
        return command_line("leases", "write", table, path, *arguments, *where, kinesis=restored)

    return run


def committed() -> dict[str, str]:
    """What a KCL application must find: the children of the finished parent at TRIM_HORIZON."""
    text = (Path(path_of("parent_at_shard_end")) / "offsets" / "1").read_text().splitlines()[2]
    shards = {shard: entry[0] for shard, entry in json.loads(text)["shards"].items()}
    return {shard: place.removeprefix("AFTER_SEQUENCE_NUMBER ") for shard, place in shards.items()}


def test_first_it_only_shows_what_would_be_written(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    dynamodb.create_lease_table(TABLE)
    ran = write_leases()
    assert ran.status == 0
    assert (
        ran.out
        == """\
Table  orders-application
From   batch 1, the last that was committed
Rows   4 to write, 0 say the same already

lease                 now   will be
shardId-000000000000  none  SHARD_END
shardId-000000000001  none  TRIM_HORIZON
shardId-000000000002  none  TRIM_HORIZON
shardId-000000000003  none  TRIM_HORIZON

Nothing was written. --yes writes it.
"""
    )
    assert rows(dynamodb) == {}


def test_then_it_writes_and_the_second_time_there_is_nothing_to_write(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    dynamodb.create_lease_table(TABLE)
    ran = write_leases("--yes")
    assert ran.out.endswith("\n4 rows written.\n")
    assert checkpoints(dynamodb) == committed()
    assert rows(dynamodb)[SHARD(0)]["childShardIds"]["SS"] == [SHARD(2), SHARD(3)]
    assert "Rows   0 to write, 4 say the same already" in write_leases("--yes").out


def test_what_was_written_is_exported_the_same(
    write_leases: Callable[..., Ran],
    command_line: CommandLine,
    dynamodb: LocalDynamoDB,
    restored: LocalKinesis,
) -> None:
    dynamodb.create_lease_table(TABLE)
    write_leases("--yes")
    where = ("--table-region", REGION, "--table-endpoint-url", dynamodb.url)
    stream = ("--stream", "orders", "--region", "us-east-1")
    ran = command_line("leases", "export", TABLE, *where, *stream, kinesis=restored)
    assert json.loads(ran.out) == {"default": "TRIM_HORIZON", **committed()}
    ran = command_line("leases", "show", TABLE, *where, *stream, kinesis=restored)
    assert "Nothing is wrong with it." in ran.out


def test_an_older_table_is_brought_up_to_date(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    """Attributes that are not known here stay."""
    old: Row = {**kcl_1(SHARD(0), "4957", counter=7), "throughputKBps": {"N": "3"}}
    dynamodb.create_lease_table(TABLE, [old, kcl_1(SHARD(1), "TRIM_HORIZON")])
    document = write_leases("--yes", "--json").document
    assert (document["written"], document["unchanged"], document["owners"]) == (True, 1, [])
    assert document["changes"][0] == {
        "shardId": SHARD(0),
        "leaseKey": SHARD(0),
        "before": {"checkpoint": "4957", "checkpointSubSequenceNumber": 0},
        "after": {"checkpoint": "SHARD_END", "checkpointSubSequenceNumber": 0},
        "rewinds": False,
    }
    row = rows(dynamodb)[SHARD(0)]
    assert (row["checkpoint"]["S"], row["throughputKBps"]["N"]) == ("SHARD_END", "3")
    assert int(row["leaseCounter"]["N"]) > 7


def test_a_lease_that_is_ahead_of_the_checkpoint_is_marked(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(1), "4957", counter=7)])
    out = write_leases().out
    assert f"{SHARD(1)}  4957  TRIM_HORIZON  BACKWARDS\n" in out
    assert "a KCL application has read on since" in out
    (change,) = (c for c in write_leases("--json").document["changes"] if c["rewinds"])
    assert change["shardId"] == SHARD(1)


def test_nothing_is_written_over_an_owner(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(0), "4957", owner="worker-1")])
    before = rows(dynamodb)
    assert "1 leases have owners (worker-1), so --yes refuses." in write_leases().out
    ran = write_leases("--yes")
    assert ran.status == 2
    assert "1 leases have owners (worker-1); expected none. Nothing was written." in ran.err
    assert rows(dynamodb) == before


def test_owners_that_stand_still_are_taken_out_on_request(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(0), "4957", owner="worker-1")])
    ran = write_leases("--yes", "--release-owners")
    assert ran.out.endswith("\n4 rows written.\n")
    assert checkpoints(dynamodb) == committed()
    assert "leaseOwner" not in rows(dynamodb)[SHARD(0)]


def test_owners_that_are_running_are_not(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB, clock: MeddlingClock
) -> None:
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(0), "4957", owner="worker-1")])
    clock.meddle = lambda: beat(dynamodb, SHARD(0))
    ran = write_leases("--yes", "--release-owners")
    assert ran.status == 2
    assert f"worker-1 has written to {SHARD(0)} within the last 60 s" in ran.err
    assert checkpoints(dynamodb) == {SHARD(0): "4957"}


def test_a_table_that_is_not_there_is_created_on_request(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    assert "found no table of this name" in write_leases().err
    ran = write_leases("--create")
    assert "Rows   4 to write" in ran.out
    assert "found no table of this name in eu-west-1" in ran.out
    assert dynamodb.client.list_tables()["TableNames"] == []
    assert write_leases("--create", "--yes").status == 0
    assert checkpoints(dynamodb) == committed()


def test_a_multi_stream_table_gets_rows_of_its_kind(
    write_leases: Callable[..., Ran], dynamodb: LocalDynamoDB
) -> None:
    stream, other = "123456789012:orders:1767225600", "123456789012:clicks:1767225600"
    clicks = in_stream(kcl_1(SHARD(0), "55"), other)
    dynamodb.create_lease_table(TABLE, [in_stream(kcl_1(SHARD(0), "4957"), stream), clicks])
    assert write_leases("--yes").status == 0
    assert checkpoints(dynamodb) == {
        f"{other}:{SHARD(0)}": "55",
        **{f"{stream}:{shard}": place for shard, place in committed().items()},
    }


def test_without_a_committed_batch_there_is_nothing_to_write(
    command_line: CommandLine, dynamodb: LocalDynamoDB
) -> None:
    ran = command_line("leases", "write", TABLE, path_of("batch_0_uncommitted"), "--yes")
    assert ran.status == 2
    assert "has no committed batch" in ran.err


def test_a_write_that_is_refused_half_way_says_how_far_it_came(dynamodb: LocalDynamoDB) -> None:
    dynamodb.create_lease_table(TABLE, [kcl_1(SHARD(1), "5", counter=8)])
    options = Options.parse(
        {
            "streamName": "orders",
            "region": REGION,
            "writeLeaseTable": TABLE,
            "leaseTableEndpointUrl": dynamodb.url,
            **KEYS,
        }
    )
    first = Lease(shard_id=SHARD(0), checkpoint=Sentinel.TRIM_HORIZON)
    second = Lease(shard_id=SHARD(1), checkpoint=Sentinel.SHARD_END, counter=8)
    seen = Lease(shard_id=SHARD(1), checkpoint=Sentinel.TRIM_HORIZON, counter=7)
    changes = [(LeaseChange(first, None),), (LeaseChange(second, seen),)]
    table = open_lease_table(options, TABLE)
    with pytest.raises(LeaseTableError, match=r"expected counter 7 .* 1 of 2 rows were written"):
        write(table, WritingPlan(TABLE, changes, 0, []))
    table.close()
    assert checkpoints(dynamodb) == {SHARD(0): "TRIM_HORIZON", SHARD(1): "5"}


# Wrong things


def test_no_such_table(
    leases: Callable[..., Ran], kinesis: LocalKinesis, dynamodb: LocalDynamoDB
) -> None:
    kinesis.create_stream("orders")
    ran = leases("show", table="nosuch")
    assert (ran.status, ran.out) == (2, "")
    assert "found no table of this name in eu-west-1" in ran.err


def test_a_table_that_is_no_lease_table(
    leases: Callable[..., Ran], kinesis: LocalKinesis, dynamodb: LocalDynamoDB
) -> None:
    kinesis.create_stream("orders")
    dynamodb.client.create_table(
        TableName="customers",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.client.put_item(TableName="customers", Item={"id": {"S": "c-1"}})
    ran = leases("show", table="customers")
    assert (ran.status, ran.out) == (2, "")
    assert "leaseKey" in ran.err


def test_the_table_of_another_stream(
    leases: Callable[..., Ran], kinesis: LocalKinesis, dynamodb: LocalDynamoDB
) -> None:
    kinesis.create_stream("orders")
    other = "123456789012:clicks:1767225600"
    dynamodb.create_lease_table(TABLE, [in_stream(kcl_1(SHARD(0), "5"), other)])
    ran = leases("show")
    assert (ran.status, ran.out) == (2, "")
    assert f"the lease table holds leases of {other} only" in ran.err


def test_a_name_that_no_table_can_have(leases: Callable[..., Ran]) -> None:
    ran = leases("show", table="a/b")
    assert ran.status == 2
    assert "the name of a table" in ran.err
