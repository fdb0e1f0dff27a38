"""Rows of all versions of the KCL: what they say, where a query starts from them, what is written
back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kinesis_source.core.lease_rows import LeaseChange, lease_rows, plan_lease_changes
from kinesis_source.core.lease_starts import LeaseStarts, moving_leases, plan_lease_starts
from kinesis_source.core.leases import (
    Lease,
    LeaseCheckpoint,
    RecordCheckpoint,
    Sentinel,
    leases_of_stream,
    parse_lease,
    to_item,
)
from kinesis_source.core.lineage import Lineage, readable_shards
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.positions import (
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
    Position,
)
from kinesis_source.core.shards import Shard, StreamIdentity
from kinesis_source.core.starting_position import LATEST
from kinesis_source.core.starts import ServiceTime, resolve_starts
from kinesis_source.errors import LeaseTableError
from tests.support import kcl_rows
from tests.unit.core.building import (
    DIGITS_56,
    after,
    ended,
    fresh,
    lineage,
    listing,
    places,
    shard,
    shard_id,
    span,
)
from tests.unit.core.lineage_model import Query, World
from tests.unit.core.test_lineage_histories import (
    begin,
    expect_all,
    expire_what_was_read,
    settle,
)

STREAM = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1764500000123)
MULTI = "123456789012:orders:1764500000"
S0, S1, S2 = (shard_id(n) for n in range(3))
NUMBER = str(DIGITS_56)
TIME = ServiceTime(1_000_000, 600_000)

# 0 is split into 1 and 2; 3 covers the other half.
PARENT = shard(0, 0, 8, closed=True)
LEFT = shard(1, 0, 4, 0)
RIGHT = shard(2, 4, 8, 0)
OTHER = shard(3, 8, 16)
FAMILY = listing(PARENT, LEFT, RIGHT, OTHER)

ROWS = {
    "1.x": kcl_rows.kcl_1(S1, NUMBER, owner="w", switches=2, parents=[S0]),
    "2.x": kcl_rows.kcl_2(S0, "SHARD_END", span(0, 8), children=[S1, S2], pending=NUMBER),
    "3.x": kcl_rows.kcl_3(S1, NUMBER, span(0, 4), sub=7, owner="w", checkpoint_owner="v"),
    "3.5": kcl_rows.kcl_3_5(S1, "TRIM_HORIZON", span(0, 4), parents=[S0]),
    "3.5 multi-stream": kcl_rows.in_stream(kcl_rows.kcl_3_5(S1, NUMBER, span(0, 4)), MULTI),
    "2.x multi-stream": kcl_rows.in_stream(kcl_rows.kcl_2(S2, "LATEST", span(4, 8)), MULTI),
}


def lease(number: int, checkpoint: LeaseCheckpoint | int, **rest: Any) -> Lease:
    if isinstance(checkpoint, int):
        checkpoint = RecordCheckpoint(checkpoint)
    return Lease(shard_id=shard_id(number), checkpoint=checkpoint, **rest)


def starts(
    leases: list[Lease],
    known: dict[str, Shard],
    expired: tuple[int, ...] = (),
    time: AtTimestamp | None = None,
) -> LeaseStarts:
    return plan_lease_starts(leases, known, {shard_id(n) for n in expired}, time)


def positions(entries: dict[int, Position]) -> dict[str, Position]:
    return {shard_id(n): position for n, position in entries.items()}


class TestRows:
    @pytest.mark.parametrize("version", ROWS)
    def test_every_version_round_trip(self, version: str) -> None:
        """What is written says the same as what was read; the attributes that are left out are the
        ones that writing does not touch or removes."""
        row = kcl_rows.plain(ROWS[version])
        parsed = parse_lease(row)
        assert parsed is not None
        item = to_item(parsed)
        left_out = row.keys() - item.keys()
        assert item == {name: row[name] for name in row.keys() - left_out}
        assert left_out <= {
            "entityType",
            "throughputKBps",
            "pendingCheckpoint",
            "pendingCheckpointState",
            "pendingCheckpointSubSequenceNumber",
        }
        assert parse_lease(item) == parsed

    def test_what_the_attributes_mean(self) -> None:
        parsed = parse_lease(kcl_rows.plain(ROWS["3.x"]))
        assert parsed == Lease(
            shard_id=S1,
            checkpoint=RecordCheckpoint(DIGITS_56, 7),
            counter=41,
            owner="w",
            checkpoint_owner="v",
            hash_keys=span(0, 4),
        )
        assert parsed.owners == ("w", "v")
        finished = parse_lease(kcl_rows.plain(ROWS["2.x"]))
        assert finished is not None
        assert finished.finished
        assert finished.child_ids == {S1, S2}

    def test_rows_of_3_5_that_are_no_leases_are_skipped(self) -> None:
        rows = [kcl_rows.plain(row) for row in kcl_rows.not_leases_of_3_5()]
        assert [parse_lease(row) for row in rows] == [None] * 5

    def test_a_row_without_a_checkpoint_is_no_lease_unless_it_says_that_it_is_one(self) -> None:
        row = kcl_rows.plain(ROWS["3.5"])
        del row["checkpoint"]
        with pytest.raises(LeaseTableError, match=rf"{S1}: found None as checkpoint; expected"):
            parse_lease(row)
        del row["entityType"]
        assert parse_lease(row) is None

    @pytest.mark.parametrize(
        ("attribute", "value"),
        [
            ("leaseKey", "worker-1"),
            ("leaseKey", f"orders:{S1}"),
            ("leaseKey", None),
            ("checkpoint", "EARLIEST"),
            ("checkpoint", 12),
            ("checkpoint", ""),
            ("leaseCounter", None),
            ("leaseCounter", "41"),
            ("leaseCounter", 4.5),
            ("checkpointSubSequenceNumber", -1),
            ("leaseOwner", 7),
            ("parentShardId", S0),
            ("childShardIds", {"a"}),
            ("startingHashKey", "x"),
            ("endingHashKey", str(2**128)),
            ("shardId", S2),
            ("streamName", MULTI),
        ],
    )
    def test_a_malformed_lease_is_an_error_that_names_it(self, attribute: str, value: Any) -> None:
        row = {**kcl_rows.plain(ROWS["3.x"]), attribute: value}
        with pytest.raises(LeaseTableError) as raised:
            parse_lease(row)
        text = str(raised.value)
        key = "a row" if attribute == "leaseKey" and value is None else row["leaseKey"]
        assert str(key) in text
        assert f"found {value or None!r} as {attribute}; expected" in text.replace("''", "None")

    def test_another_kind_of_table_is_an_error(self) -> None:
        with pytest.raises(LeaseTableError, match="leaseKey"):
            parse_lease({"id": "7", "total": 12})


class TestLeasesOfStream:
    def test_a_single_stream_table_is_taken_whole(self) -> None:
        leases = [lease(1, 5), lease(0, Sentinel.SHARD_END)]
        assert leases_of_stream(leases, STREAM) == leases[::-1]
        assert leases_of_stream([], STREAM) == []

    @pytest.mark.parametrize("epoch", [1764500000, 1764500000123])
    def test_of_a_multi_stream_table_its_own_rows(self, epoch: int) -> None:
        own = lease(1, 5, stream=f"123456789012:orders:{epoch}")
        others = [lease(1, 9, stream=f"123456789012:{name}:{epoch}") for name in ("order", "a")]
        assert leases_of_stream([*others, own], STREAM) == [own]
        assert own.lease_key == f"123456789012:orders:{epoch}:{S1}"

    @pytest.mark.parametrize(
        "stream", ["123456789012:orders:1764400000", "999999999999:orders:1764500000"]
    )
    def test_rows_of_other_streams_only_are_an_error(self, stream: str) -> None:
        with pytest.raises(LeaseTableError, match=rf"leases of {stream} only; expected '{MULTI}'"):
            leases_of_stream([lease(1, 5, stream=stream)], STREAM)

    def test_two_kinds_in_one_table_are_an_error(self) -> None:
        with pytest.raises(LeaseTableError, match="expected one kind"):
            leases_of_stream([lease(1, 5), lease(1, 6, stream=MULTI)], STREAM)
        with pytest.raises(LeaseTableError, match="2 creation epochs"):
            leases_of_stream([lease(1, 5, stream=MULTI), lease(2, 6, stream=MULTI + "123")], STREAM)


class TestStarts:
    def test_the_wedged_table(self) -> None:
        """The parent is closed but its lease stands at a number; both children wait. The parent's
        rest is read first, then the children, and no row is edited."""
        rows = [
            kcl_rows.kcl_1(S0, NUMBER, owner="w"),
            kcl_rows.kcl_1(S1, "TRIM_HORIZON", owner="w", parents=[S0]),
            kcl_rows.kcl_1(S2, "TRIM_HORIZON", owner="w", parents=[S0]),
            kcl_rows.kcl_1(shard_id(3), NUMBER, owner="w"),
        ]
        leases = [found for row in rows if (found := parse_lease(kcl_rows.plain(row)))]
        planned = starts(leases, FAMILY)
        assert planned.shards == positions(
            {
                0: AfterSequenceNumber(DIGITS_56),
                1: TRIM_HORIZON,
                2: TRIM_HORIZON,
                3: AfterSequenceNumber(DIGITS_56),
            }
        )
        assert not planned.inside
        assert not planned.unleased
        start = planned.per_shard(TRIM_HORIZON, {})
        tracked = resolve_starts(start, FAMILY, [], [], TIME)
        assert readable_shards(Lineage(FAMILY), tracked, []) == {S0, shard_id(3)}
        tracked[S0] = ended()
        assert readable_shards(Lineage(FAMILY), tracked, []) == {S1, S2, shard_id(3)}

    def test_a_lease_inside_a_record_reads_that_record_again(self) -> None:
        planned = starts([lease(3, RecordCheckpoint(77, 4))], listing(OTHER))
        assert planned.inside == {shard_id(3): 77}
        assert shard_id(3) not in planned.shards
        start = planned.per_shard(TRIM_HORIZON, {shard_id(3): AfterSequenceNumber(76)})
        assert start.shards == positions({3: AfterSequenceNumber(76)})
        with pytest.raises(KeyError):
            planned.per_shard(TRIM_HORIZON, {})

    @pytest.mark.parametrize("word", [Sentinel.LATEST, Sentinel.AT_TIMESTAMP])
    def test_leases_without_a_time_need_one(self, word: Sentinel) -> None:
        leases = [lease(0, 5), lease(3, word)]
        with pytest.raises(
            LeaseTableError, match=rf"leases stand at {word} \(1, such as {shard_id(3)}"
        ):
            starts(leases, FAMILY)
        planned = starts(leases, FAMILY, time=AtTimestamp(500_000))
        assert planned.shards == positions({0: AfterSequenceNumber(5), 3: AtTimestamp(500_000)})

    def test_children_without_a_lease_wait_for_their_parent(self) -> None:
        planned = starts([lease(0, 5), lease(3, 6)], FAMILY)
        assert set(planned.shards) == {S0, shard_id(3)}
        assert not planned.unleased

    def test_parents_without_a_lease_are_finished(self) -> None:
        leases = [lease(1, 5), lease(2, 5), lease(3, 6)]
        planned = starts(leases, FAMILY)
        assert S0 not in planned.shards
        tracked = resolve_starts(planned.per_shard(TRIM_HORIZON, {}), FAMILY, [], [], TIME)
        assert set(tracked) == {S1, S2, shard_id(3)}

    def test_a_generation_without_leases_under_an_unfinished_one_is_not_skipped(self) -> None:
        left, low, high = shard(1, 0, 4, 0, closed=True), shard(4, 0, 2, 1), shard(5, 2, 4, 1)
        known = listing(PARENT, left, RIGHT, OTHER, low, high)
        leases = [lease(0, 5), lease(3, 6), *(lease(n, Sentinel.TRIM_HORIZON) for n in (2, 4, 5))]
        assert starts(leases, known).shards[S1] == TRIM_HORIZON

    def test_shards_that_no_lease_is_related_to_are_named(self) -> None:
        planned = starts([lease(0, 5)], FAMILY)
        assert planned.unleased == {shard_id(3)}
        assert shard_id(3) not in planned.shards

    def test_leases_of_unlisted_shards_are_asked_for(self) -> None:
        known = listing(LEFT, RIGHT, OTHER)
        planned = starts([lease(0, Sentinel.SHARD_END), lease(3, 6)], known)
        assert planned.to_ask == {S0}
        assert not planned.gone

    def test_a_finished_lease_of_a_shard_that_is_gone_is_forgotten(self) -> None:
        """Its children have not been read, whatever the default is for other shards."""
        known = listing(LEFT, RIGHT, OTHER)
        leases = [lease(0, Sentinel.SHARD_END), lease(3, 6)]
        planned = starts(leases, known, expired=(0,))
        assert planned.shards == positions(
            {1: TRIM_HORIZON, 2: TRIM_HORIZON, 3: AfterSequenceNumber(6)}
        )
        assert not planned.to_ask
        assert not planned.gone
        assert not planned.unleased

    def test_an_unfinished_lease_of_a_shard_that_is_gone_is_loss(self) -> None:
        lost = lease(0, 5)
        planned = starts([lost, lease(3, 6)], listing(LEFT, RIGHT, OTHER), expired=(0,))
        assert planned.gone == (lost,)
        assert planned.shards[S1] == planned.shards[S2] == TRIM_HORIZON

    def test_a_table_of_nothing_or_of_another_stream_is_an_error(self) -> None:
        with pytest.raises(LeaseTableError, match="no leases of the stream"):
            starts([], FAMILY)
        with pytest.raises(LeaseTableError, match=r"none of the 1 leased shards .*000009"):
            starts([lease(9, 5)], FAMILY, expired=(9,))

    def test_a_counter_that_moves_shows_a_live_owner(self) -> None:
        before = [lease(1, 5, counter=1, owner="a"), lease(2, 5, counter=1, owner="b")]
        after = [lease(1, 5, counter=2, owner="a"), lease(2, 5, counter=1, owner="b")]
        assert moving_leases(before, after) == after[:1]
        assert moving_leases(before, [lease(3, 5)]) == [lease(3, 5)]


class TestRowsOfAnOffset:
    def test_each_kind_of_position(self) -> None:
        tracked = places({1: after(77, 5), 2: after(8), 3: TrackedShard(AtTimestamp(9), 9)})
        rows = lease_rows(tracked, lineage(*FAMILY.values()))
        assert [(r.shard_id, r.checkpoint) for r in rows] == [
            (S1, RecordCheckpoint(77)),
            (S2, RecordCheckpoint(8)),
            (shard_id(3), Sentinel.TRIM_HORIZON),
        ]
        assert rows[0] == lease(1, 77, parent_ids=frozenset({S0}), hash_keys=span(0, 4))

    def test_a_finished_parent_comes_with_its_children(self) -> None:
        rows = lease_rows(places({0: ended(), 3: after(6)}), lineage(*FAMILY.values()))
        assert [(r.shard_id, r.checkpoint) for r in rows] == [
            (S0, Sentinel.SHARD_END),
            (S1, Sentinel.TRIM_HORIZON),
            (S2, Sentinel.TRIM_HORIZON),
            (shard_id(3), RecordCheckpoint(6)),
        ]
        assert rows[0].child_ids == {S1, S2}
        assert rows[1].parent_ids == {S0}

    def test_a_child_that_has_not_been_read_comes_with_its_finished_parent(self) -> None:
        tracked = places({1: fresh(), 2: after(8), 3: after(6)})
        rows = lease_rows(tracked, lineage(*FAMILY.values()))
        assert rows[0].shard_id == S0
        assert rows[0].finished

    def test_an_unfinished_parent_comes_alone(self) -> None:
        rows = lease_rows(places({0: after(5), 3: after(6)}), lineage(*FAMILY.values()))
        assert [r.shard_id for r in rows] == [S0, shard_id(3)]
        assert not rows[0].child_ids

    def test_the_other_parent_of_a_merge_comes_too(self) -> None:
        """1 and 2 come from 0, which is not finished; 2 and 3 are merged into 4. With a lease of 4
        but none of 2 the KCL would not wait for 2."""
        family = lineage(
            PARENT,
            LEFT,
            shard(2, 4, 8, 0, closed=True),
            shard(3, 8, 16, closed=True),
            shard(4, 4, 16, 2, 3),
        )
        rows = lease_rows(places({0: after(5), 3: ended()}), family)
        assert {r.shard_id: r.checkpoint for r in rows} == {
            S0: RecordCheckpoint(5),
            S2: Sentinel.TRIM_HORIZON,
            shard_id(3): Sentinel.SHARD_END,
            shard_id(4): Sentinel.TRIM_HORIZON,
        }

    def test_shards_that_have_left_the_offset_are_finished_in_the_table_too(self) -> None:
        family = lineage(*FAMILY.values())
        tracked = places({1: after(7), 2: after(8), 3: after(6)})
        # The KCL would have deleted its lease, too.
        assert S0 not in {r.shard_id for r in lease_rows(tracked, family)}
        rows = {r.shard_id: r for r in lease_rows(tracked, family, leased=[S0])}
        assert rows[S0].checkpoint is Sentinel.SHARD_END
        assert rows[S0].child_ids == {S1, S2}
        # Also of a shard that is no longer listed.
        rows = {r.shard_id: r for r in lease_rows(tracked, lineage(LEFT, RIGHT, OTHER), [S0])}
        assert rows[S0].checkpoint is Sentinel.SHARD_END

    def test_a_lease_of_a_shard_that_does_not_exist_any_more_is_finished(self) -> None:
        """0 and the generation after it have expired: nothing shows who descends from 0."""
        tracked = places({4: after(7), 3: after(6)})
        family = lineage(shard(4, 0, 8, 1, 2), OTHER)
        assert S0 not in {r.shard_id for r in lease_rows(tracked, family, [S0])}
        rows = {r.shard_id: r for r in lease_rows(tracked, family, [S0], expired=[S0])}
        assert rows[S0].checkpoint is Sentinel.SHARD_END

    def test_in_a_multi_stream_table(self) -> None:
        rows = lease_rows(places({3: after(6)}), lineage(OTHER), stream=MULTI)
        assert to_item(rows[0])["leaseKey"] == f"{MULTI}:{shard_id(3)}"
        assert to_item(rows[0])["streamName"] == MULTI


class TestChanges:
    def test_only_what_differs_is_written_and_the_counter_moves(self) -> None:
        rows = lease_rows(places({0: ended(), 3: after(6)}), lineage(*FAMILY.values()))
        present = {
            S0: lease(0, 5, counter=41),
            shard_id(3): lease(3, 6, counter=7, owner_switches=3),
        }
        changes = plan_lease_changes(rows, present, {})
        assert [[c.lease.shard_id for c in group] for group in changes] == [[S0], [S1], [S2]]
        assert changes[0][0].expected == present[S0]
        assert changes[0][0].lease.counter == 42
        assert changes[1][0] == LeaseChange(rows[1], None)
        assert rows[1].counter == 0

    def test_the_parents_of_a_merge_are_written_together(self) -> None:
        family = lineage(
            shard(1, 0, 8, closed=True),
            shard(2, 8, 12, closed=True),
            shard(3, 12, 16),
            shard(4, 0, 12, 1, 2),
        )
        rows = lease_rows(places({1: ended(), 2: ended(), 3: after(9), 4: fresh()}), family)
        groups = [[c.lease.shard_id for c in group] for group in plan_lease_changes(rows, {}, {})]
        assert groups == [[S1, S2], [shard_id(3)], [shard_id(4)]]

    def test_a_row_inside_the_record_that_was_read_last_stays(self) -> None:
        rows = lease_rows(places({3: after(6)}), lineage(OTHER))
        assert plan_lease_changes(rows, {shard_id(3): lease(3, RecordCheckpoint(6, 4))}, {}) == []

    def test_a_row_inside_a_record_stays_until_something_was_read_of_the_shard(self) -> None:
        """The query started at the time at which that record arrived."""
        tracked = places({3: TrackedShard(AtTimestamp(500_000))})
        rows = lease_rows(tracked, lineage(OTHER))
        inside = {shard_id(3): lease(3, RecordCheckpoint(6, 4))}
        assert plan_lease_changes(rows, inside, tracked) == []
        for before in (lease(3, 6), lease(3, Sentinel.AT_TIMESTAMP)):
            ((change,),) = plan_lease_changes(rows, {shard_id(3): before}, tracked)
            assert change.lease.checkpoint is Sentinel.TRIM_HORIZON
        ((change,),) = plan_lease_changes(rows, inside, places({3: fresh()}))
        assert change.rewinds

    def test_children_are_added_to_a_finished_lease_that_lacks_them(self) -> None:
        rows = lease_rows(places({0: ended(), 3: after(6)}), lineage(*FAMILY.values()))
        changes = plan_lease_changes(rows, {S0: lease(0, Sentinel.SHARD_END)}, {})
        assert changes[0][0].lease.child_ids == {S1, S2}


class TestHistories:
    """Random histories of splits, merges and expiry, in which the table is written now and then and
    the query starts anew from it. `Query` fails on any record that is read twice or passed over.

    A failure names its seed: `pytest -k "[17]"` runs that history again.
    """

    @pytest.mark.parametrize("seed", range(120))
    def test_a_query_goes_on_from_its_own_table_with_nothing_lost_or_read_again(
        self, seed: int
    ) -> None:
        rng, world, query = begin(seed)
        table: dict[str, Lease] = {}
        for _ in range(30):
            world.change()
            expect_all(query)
            if rng.random() < 0.2:
                expire_what_was_read(world, query, rng)
            if rng.random() < 0.7:
                query.plan(world.listing(0, 0), eager=rng.random() < 0.5)
            if rng.random() < 0.3:
                write_back(query, world, table)
            if rng.random() < 0.15:
                write_back(query, world, table)
                query.tracked = start_from(table, world)
                query.restart()
        settle(world, query)
        assert not query.lost

    @pytest.mark.parametrize("seed", range(120))
    def test_export_import_export_is_the_same(self, seed: int) -> None:
        rng, world, query = begin(seed)
        for _ in range(20):
            world.change()
            expect_all(query)
            query.plan(world.listing(0, 0), eager=rng.random() < 0.5)
            family = Lineage(world.listing(0, 0))
            first = lease_rows(query.tracked, family)
            items = [to_item(row) for row in first]
            read = [found for item in items if (found := parse_lease(item))]
            again = start_from({row.shard_id: row for row in read}, world)
            assert lease_rows(again, family, [row.shard_id for row in read]) == first
            assert plan_lease_changes(first, {row.shard_id: row for row in first}, {}) == []

    @pytest.mark.parametrize("seed", range(120))
    @pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
    def test_a_kcl_application_goes_on_with_nothing_lost_or_read_again(
        self, seed: int, kept: bool
    ) -> None:
        """From a table that was written all the time, and from one that is written once."""
        rng, world, query = begin(seed)
        table: dict[str, Lease] = {}
        for _ in range(rng.randint(2, 25)):
            world.change()
            expect_all(query)
            if rng.random() < 0.2:
                expire_what_was_read(world, query, rng)
            query.plan(world.listing(0, 0), eager=rng.random() < 0.5)
            if kept and rng.random() < 0.3:
                write_back(query, world, table)
        write_back(query, world, table)
        read = dict(query.unread)
        kcl_reads_on(table, world, read)
        assert read == {i: true.records for i, true in world.shards.items()}


def kcl_reads_on(table: dict[str, Lease], world: World, read: dict[str, int]) -> None:
    """What the library does with a table: a lease waits for its parents' if there are any, a closed
    shard is read to its end, and then its children get leases (`BlockOnParentShardTask`,
    `ShutdownTask`). `read`: for each shard, how many records have been read."""
    leases = dict(table)
    for _ in range(2 * len(world.shards)):
        for i, found in sorted(leases.items()):
            blocked = any(p in leases and not leases[p].finished for p in found.parent_ids)
            true = world.shards[i]
            if found.finished or blocked:
                continue
            number = getattr(found.checkpoint, "sequence_number", 0)
            assert read[i] == number, f"{i} is read from {number}, not from {read[i]}"
            for p in world.ancestors([i]):
                assert read[p] == world.shards[p].records, f"{i} is read before {p}"
            read[i] = true.records
            leases[i] = replace(found, checkpoint=RecordCheckpoint(true.records))
            if true.closed is not None:
                leases[i] = replace(found, checkpoint=Sentinel.SHARD_END)
                children = [c.shard for c in world.shards.values() if i in c.shard.parent_ids]
                for child in children:
                    leases.setdefault(child.shard_id, lease_of(child))
    assert all(true.shard.shard_id in leases for true in world.open())


def lease_of(child: Shard) -> Lease:
    return Lease(
        shard_id=child.shard_id,
        checkpoint=Sentinel.TRIM_HORIZON,
        parent_ids=frozenset(child.parent_ids),
    )


def write_back(query: Query, world: World, table: dict[str, Lease]) -> None:
    """One write of the view; each group alone, so that a parent's row comes before its child's."""
    rows = lease_rows(query.tracked, Lineage(world.listing(0, 0)), table, expired=gone(world))
    # The library keeps a finished lease, and logs an error, while a lease of a child is not there.
    assert all(row.child_ids <= {r.shard_id for r in rows} for row in rows)
    for group in plan_lease_changes(rows, table, query.tracked):
        for change in group:
            assert table.get(change.lease.shard_id) == change.expected
            table[change.lease.shard_id] = change.lease
        for change in group:
            unwritten = {r.shard_id for r in rows} - table.keys()
            assert not unwritten & change.lease.parent_ids


def gone(world: World) -> set[str]:
    return {i for i, true in world.shards.items() if true.gone}


def start_from(table: dict[str, Lease], world: World) -> dict[str, TrackedShard]:
    known = world.listing(0, 0)
    planned = plan_lease_starts(list(table.values()), known, gone(world), None)
    assert not planned.gone
    assert not planned.to_ask
    assert not planned.unleased
    return resolve_starts(planned.per_shard(LATEST, {}), known, [], gone(world), TIME)
