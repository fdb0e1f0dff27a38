"""A query that starts from a KCL application's lease table, and one that writes a lease table."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import kinesis_source.planning.lease_writer as lease_writer
from kinesis_source.core.positions import SHARD_END
from kinesis_source.errors import AccessDeniedError, DataLossError, LeaseTableError
from tests.support.dynamodb import KEYS, REGION, LocalDynamoDB, local_dynamodb
from tests.support.engine import QueryFailed
from tests.support.inline import InlineExecutor
from tests.support.kcl_rows import Row, kcl_1
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery

TABLE = "orders-application"


@pytest.fixture(autouse=True)
def _without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_writer, "ThreadPoolExecutor", InlineExecutor)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalDynamoDB]:
    with local_dynamodb() as dynamodb:
        yield dynamodb


@pytest.fixture
def dynamodb(server: LocalDynamoDB) -> Iterator[LocalDynamoDB]:
    server.create_lease_table(TABLE)
    yield server
    server.client.delete_table(TableName=TABLE)


def options(dynamodb: LocalDynamoDB, *uses: str) -> dict[str, str]:
    return {
        **KEYS,
        **dict.fromkeys(uses, TABLE),
        "leaseTableRegion": REGION,
        "leaseTableEndpointUrl": dynamodb.url,
    }


def reads(dynamodb: LocalDynamoDB, **rest: str) -> dict[str, str]:
    return {**options(dynamodb, "startFromLeaseTable"), "startingPosition": "TRIM_HORIZON", **rest}


def rows(dynamodb: LocalDynamoDB) -> dict[str, str]:
    """Each lease's checkpoint."""
    items = dynamodb.client.scan(TableName=TABLE, ConsistentRead=True)["Items"]
    return {item["leaseKey"]["S"]: item["checkpoint"]["S"] for item in items}


def wedge(query: LocalQuery, dynamodb: LocalDynamoDB) -> tuple[list[int], list[str]]:
    """The old failure: a parent that closed without its SHARD_END, its children leased and waiting
    for ever. The numbers that the query must read of the parent, and the children."""
    parent = query.shard()
    put = query.put(parent, 5)
    children = query.kinesis.split(STREAM, parent)
    for child in children:
        query.put(child, 2)
    query.clock.advance(60_000)
    leases = [kcl_1(parent, str(put[1]))]
    leases += [kcl_1(child, "TRIM_HORIZON", parents=[parent]) for child in children]
    dynamodb.put(TABLE, leases)
    return put[2:], list(children)


# Start


def test_a_wedged_table_is_read_on_from_the_parents_tail_and_then_the_children(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**reads(dynamodb))
    tail, children = wedge(query, dynamodb)
    before = rows(dynamodb)
    query.settle()
    assert query.numbers(query.shard()) == tail
    assert query.numbers()[: len(tail)] == tail, "the parent first"
    for child in children:
        assert len(query.numbers(child)) == 2
    assert rows(dynamodb) == before, "nobody edits a row"


def test_what_the_children_of_a_wedged_parent_lose_later_is_told(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    """They were leased and so were there from the start; the parent has been read to its end when
    the query stops for longer than the retention period."""
    query = make_query(**reads(dynamodb))
    wedge(query, dynamodb)
    query.trigger()
    query.stop()
    assert query.offset().shards[query.shard(0)].position == SHARD_END
    query.clock.advance(30 * HOUR_MS)
    with pytest.raises(QueryFailed, match=f"data loss in {query.shard(1)}"):
        query.settle()


def test_the_table_is_not_read_when_there_is_a_checkpoint(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**reads(dynamodb))
    wedge(query, dynamodb)
    query.settle()
    query.stop()
    read = query.numbers()
    dynamodb.put(TABLE, [kcl_1(query.shard(), "TRIM_HORIZON")])
    query.options["startFromLeaseTable"] = "no-such-table"
    put = query.put(query.shard(1))
    query.settle()
    assert query.numbers() == read + put


def test_the_positions_are_pinned_before_batch_0_is_read(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**reads(dynamodb))
    wedge(query, dynamodb)
    query.trigger()
    starts = query.offset(0).starts
    assert starts is not None
    assert {i: str(s.position) for i, s in starts.items()} == {
        query.shard(0): f"AFTER_SEQUENCE_NUMBER {query.truth()[1]}",
        query.shard(1): "TRIM_HORIZON",
        query.shard(2): "TRIM_HORIZON",
    }


def test_a_lease_inside_an_aggregate_reads_that_record_again(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**reads(dynamodb))
    put = []
    for _ in range(3):
        put += query.put(query.shard())
        query.clock.advance(5_000)
    dynamodb.put(TABLE, [kcl_1(query.shard(), str(put[1]), sub=3)])
    query.settle()
    assert query.numbers() == put[1:]


def test_leases_that_carry_no_time_need_one(make_query: MakeQuery, dynamodb: LocalDynamoDB) -> None:
    query = make_query(**reads(dynamodb))
    old = query.put(query.shard())
    query.clock.advance(HOUR_MS)
    since_ms = query.clock.now_ms()
    new = query.put(query.shard(), 2)
    query.clock.advance(60_000)
    dynamodb.put(TABLE, [kcl_1(query.shard(), "LATEST")])
    with pytest.raises(QueryFailed, match="startingPosition=AT_TIMESTAMP") as failed:
        query.settle()
    assert isinstance(failed.value.original, LeaseTableError)
    query.options["startingPosition"] = f"AT_TIMESTAMP {since_ms}"
    query.settle()
    assert query.numbers() == new
    assert old[0] < new[0]


def test_a_parent_at_its_end_whose_children_are_not_leased(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**reads(dynamodb))
    query.put(query.shard(), 3)
    children = query.kinesis.split(STREAM, query.shard())
    put = [number for child in children for number in query.put(child, 2)]
    dynamodb.put(TABLE, [kcl_1(query.shard(), "SHARD_END")])
    query.settle()
    assert sorted(query.numbers()) == sorted(put)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_an_unfinished_lease_of_a_shard_that_is_gone(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, fail: str
) -> None:
    query = make_query(**reads(dynamodb, failOnDataLoss=fail))
    lost = query.put(query.shard(), 3)
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(30 * HOUR_MS)
    put = [number for child in children for number in query.put(child, 2)]
    dynamodb.put(
        TABLE,
        [kcl_1(query.shard(), str(lost[0])), *(kcl_1(c, "TRIM_HORIZON") for c in children)],
    )
    if fail == "true":
        with pytest.raises(QueryFailed, match=f"data loss in {query.shard()}") as failed:
            query.settle()
        assert isinstance(failed.value.original, DataLossError)
    else:
        query.settle()
        assert sorted(query.numbers()) == sorted(put)


def test_owners_are_told(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(**reads(dynamodb))
    put = query.put(query.shard(), 2)
    dynamodb.put(TABLE, [kcl_1(query.shard(), str(put[0]), owner="worker-7")])
    with caplog.at_level(logging.WARNING):
        query.settle()
    assert query.numbers() == put[1:]
    assert [r for r in caplog.records if "worker-7" in r.getMessage()]


@pytest.mark.parametrize(
    ("leases", "told"),
    [
        ([], "holds no leases of the stream"),
        ([kcl_1("shardId-000000000077", "4957")], "none of the 1 leased shards exists"),
        ([kcl_1("shardId-000000000000", "SHARD_END")], "the shard is open"),
    ],
)
def test_a_table_that_cannot_be_the_streams(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, leases: list[Row], told: str
) -> None:
    query = make_query(**reads(dynamodb))
    dynamodb.put(TABLE, leases)
    with pytest.raises(QueryFailed, match=told):
        query.settle()


def test_no_such_table(make_query: MakeQuery, dynamodb: LocalDynamoDB) -> None:
    query = make_query(**reads(dynamodb, startFromLeaseTable="orders-aplication"))
    with pytest.raises(QueryFailed, match="found no table of this name in eu-west-1") as failed:
        query.settle()
    assert not isinstance(failed.value.original, AccessDeniedError)


def test_a_table_that_does_not_answer_is_not_waited_for_for_ever(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**reads(dynamodb, leaseTableEndpointUrl="http://127.0.0.1:1"))
    begun_ms = query.clock.now_ms()
    with pytest.raises(QueryFailed, match="check leaseTableRegion, leaseTableEndpointUrl"):
        query.settle()
    assert 30_000 <= query.clock.now_ms() - begun_ms <= 60_000


# Write-back


def written(query: LocalQuery) -> dict[str, str]:
    """What the last committed offset says, in the KCL's words."""
    return {
        i: str(place.position).replace("AFTER_SEQUENCE_NUMBER ", "")
        for i, place in query.offset().shards.items()
    }


def test_progress_is_written_within_a_minute(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(2, **options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    for _ in range(4):
        query.put(query.shard(0), 3)
        query.trigger(6, gap_ms=10_000)
    assert rows(dynamodb) == written(query)
    assert rows(dynamodb)[query.shard(1)] == "TRIM_HORIZON"


def test_it_is_there_when_a_run_of_available_now_has_ended(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(2, **options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    for _ in range(3):
        query.put(query.shard(0), 3)
        query.available_now()
        assert rows(dynamodb) == written(query)


def test_a_split_parent_is_at_its_end_with_its_children_beside_it(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    query.put(query.shard(), 3)
    query.available_now()
    children = query.kinesis.split(STREAM, query.shard())
    query.clock.advance(60_000)
    query.available_now()
    query.put(children[0], 2)
    query.available_now()
    assert rows(dynamodb)[query.shard(0)] == "SHARD_END"
    assert rows(dynamodb)[children[0]] == str(query.numbers(children[0])[-1])
    row = dynamodb.row(TABLE, query.shard(0))
    assert row is not None
    assert set(row["childShardIds"]["SS"]) == set(children)


def test_a_table_in_use_is_left_alone(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(**options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    query.put(query.shard(), 3)
    with caplog.at_level(logging.WARNING):
        for counter in range(12):
            lease = kcl_1(query.shard(), "TRIM_HORIZON", counter=counter, owner="worker-7")
            dynamodb.put(TABLE, [lease])
            query.trigger(2, gap_ms=10_000)
    assert rows(dynamodb) == {query.shard(): "TRIM_HORIZON"}
    assert [r for r in caplog.records if "is in use: worker-7" in r.getMessage()]
    assert len(query.numbers()) == 3, "the query goes on"


def test_the_names_of_workers_that_have_stopped_are_taken_out(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    query = make_query(**options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    dynamodb.put(TABLE, [kcl_1(query.shard(), "TRIM_HORIZON", counter=7, owner="worker-7")])
    query.put(query.shard(), 3)
    query.trigger(11, gap_ms=10_000)
    assert rows(dynamodb) == written(query)
    row = dynamodb.row(TABLE, query.shard())
    assert row is not None
    assert "leaseOwner" not in row


def test_a_run_of_available_now_waits_to_see_that_they_have_stopped(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, caplog: pytest.LogCaptureFixture
) -> None:
    """Else no run would ever be long enough."""
    query = make_query(**options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    dynamodb.put(TABLE, [kcl_1(query.shard(), "TRIM_HORIZON", counter=7, owner="worker-7")])
    query.put(query.shard(), 3)
    with caplog.at_level(logging.WARNING):
        query.available_now()
    assert rows(dynamodb) == written(query)
    assert [r for r in caplog.records if "have owners (worker-7)" in r.getMessage()]


def test_a_table_that_cannot_be_written_does_not_end_the_query(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, caplog: pytest.LogCaptureFixture
) -> None:
    given = options(dynamodb, "writeLeaseTable") | {"writeLeaseTable": "orders-aplication"}
    query = make_query(**given, startingPosition="TRIM_HORIZON")
    query.put(query.shard(), 3)
    with caplog.at_level(logging.WARNING):
        query.trigger(10, gap_ms=10_000)
    assert len(query.numbers()) == 3
    assert [r for r in caplog.records if "found no table of this name" in r.getMessage()]


def test_a_query_goes_to_the_kcl_and_back(make_query: MakeQuery, dynamodb: LocalDynamoDB) -> None:
    """What one query wrote, another starts from: nothing is read twice, nothing is left out."""
    query = make_query(2, **options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    query.put(query.shard(0), 3)
    query.kinesis.split(STREAM, query.shard(0))
    query.clock.advance(60_000)
    query.available_now()
    other = make_query(kinesis=query.kinesis, clock=query.clock, **reads(dynamodb))
    put = [n for shard_id in query.kinesis.open_shards(STREAM) for n in query.put(shard_id, 2)]
    other.settle()
    assert sorted(other.numbers()) == sorted(put)


def test_a_shard_that_has_expired_since_it_was_written_is_finished_in_the_table(
    make_query: MakeQuery, dynamodb: LocalDynamoDB
) -> None:
    given = options(dynamodb, "writeLeaseTable")
    query = make_query(**given, startingPosition="TRIM_HORIZON")
    parent = query.shard()
    query.put(parent, 3)
    query.available_now()
    query.options = {}
    query.kinesis.split(STREAM, parent)
    query.clock.advance(60_000)
    query.settle()
    for _ in range(3):
        query.clock.advance(20 * HOUR_MS)
        query.settle()
    assert rows(dynamodb)[parent] not in ("SHARD_END", "TRIM_HORIZON")
    query.options = given
    query.available_now()
    query.clock.advance(60_000)
    query.put(query.kinesis.open_shards(STREAM)[0])
    query.available_now()
    assert rows(dynamodb)[parent] == "SHARD_END"


def test_leases_that_are_ahead_of_spark_are_set_back_and_told(
    make_query: MakeQuery, dynamodb: LocalDynamoDB, caplog: pytest.LogCaptureFixture
) -> None:
    query = make_query(**options(dynamodb, "writeLeaseTable"), startingPosition="TRIM_HORIZON")
    query.put(query.shard(), 3)
    query.available_now()
    later = query.put(query.shard(), 2)
    dynamodb.put(TABLE, [kcl_1(query.shard(), str(later[-1]), counter=90)])
    with caplog.at_level(logging.WARNING):
        query.trigger()
    assert [r for r in caplog.records if "are ahead of Spark's checkpoint" in r.getMessage()]
