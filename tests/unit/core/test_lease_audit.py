"""What is found wrong with a lease table, and that a sound one gives no finding."""

from __future__ import annotations

import pytest

from kinesis_source.core.lease_audit import Finding, FindingKind, audit_leases
from kinesis_source.core.lease_rows import lease_rows
from kinesis_source.core.leases import Lease, LeaseCheckpoint, RecordCheckpoint, Sentinel
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.shards import Shard
from tests.unit.core.building import after, ended, listing, places, shard, shard_id, span
from tests.unit.core.test_lineage_histories import begin, expect_all

PARENT = shard(0, 0, 8, closed=True)
LEFT = shard(1, 0, 4, 0)
RIGHT = shard(2, 4, 8, 0)
OTHER = shard(3, 8, 16)
FAMILY = [PARENT, LEFT, RIGHT, OTHER]
END, WAITING = Sentinel.SHARD_END, Sentinel.TRIM_HORIZON


def audit(
    places: dict[int, LeaseCheckpoint | int],
    known: list[Shard] = FAMILY,
    expired: tuple[int, ...] = (),
) -> list[Finding]:
    leases = [
        Lease(
            shard_id=shard_id(n),
            checkpoint=RecordCheckpoint(place) if isinstance(place, int) else place,
        )
        for n, place in places.items()
    ]
    return audit_leases(leases, listing(*known), [shard_id(n) for n in expired])


def found(findings: list[Finding]) -> list[tuple[FindingKind, tuple[int, ...]]]:
    return [(f.kind, tuple(int(i.removeprefix("shardId-")) for i in f.shard_ids)) for f in findings]


@pytest.mark.parametrize(
    "places",
    [
        {0: 5, 3: 6},
        {0: END, 1: 5, 2: WAITING, 3: 6},
        {0: END, 3: 6},  # the library makes the children's leases next
        {1: 5, 2: 5, 3: 6},  # and has deleted the parent's
    ],
)
def test_a_sound_table_gives_no_finding(places: dict[int, LeaseCheckpoint | int]) -> None:
    assert audit(places) == []


def test_the_wedged_table() -> None:
    (finding,) = audit({0: 5, 1: WAITING, 2: WAITING, 3: 6})
    assert found([finding]) == [(FindingKind.WEDGED_PARENT, (0, 1, 2))]
    assert finding.sentence == (
        "shardId-000000000000 is closed and stands at 5, not at SHARD_END; until a worker reads "
        "its last records its children wait: shardId-000000000001 at TRIM_HORIZON, "
        "shardId-000000000002 at TRIM_HORIZON"
    )


def test_children_whose_parents_row_was_deleted() -> None:
    findings = audit({1: WAITING, 2: WAITING, 3: 6})
    assert found(findings) == [(FindingKind.ORPHAN_CHILDREN, (1, 2))]
    assert "still there" in findings[0].sentence
    unlisted = audit({1: WAITING, 2: 5, 3: 6}, [LEFT, RIGHT, OTHER])
    assert found(unlisted) == [(FindingKind.ORPHAN_CHILDREN, (1,))]
    assert "is not listed" in unlisted[0].sentence
    assert audit({1: WAITING, 2: 5, 3: 6}, [LEFT, RIGHT, OTHER], expired=(0,)) == []


def test_a_hole() -> None:
    (finding,) = audit({1: 5, 3: 6})
    assert found([finding]) == [(FindingKind.HOLE, ())]
    low, high = span(4, 8).start, span(4, 8).end
    assert f"hash keys {low} to {high} (25.0% of all)" in finding.sentence
    assert [f.kind for f in audit({1: 5})] == [FindingKind.HOLE]


def test_a_table_of_another_stream() -> None:
    assert [f.kind for f in audit({})] == [FindingKind.OTHER_STREAM]
    (finding,) = audit({70: 5, 71: END}, expired=(70, 71))
    assert found([finding]) == [(FindingKind.OTHER_STREAM, (70, 71))]
    assert "none of its 2 shards exists" in finding.sentence


def test_overlaps() -> None:
    wide = shard(7, 0, 16)
    findings = audit({1: 5, 3: 5, 7: 5}, [LEFT, OTHER, wide])
    assert found(findings) == [(FindingKind.OVERLAP, (1, 7)), (FindingKind.OVERLAP, (3, 7))]


def test_a_shard_that_is_gone() -> None:
    known = [LEFT, RIGHT, OTHER]
    (finding,) = audit({0: 5, 3: 6}, known, expired=(0,))
    assert found([finding]) == [(FindingKind.GONE_SHARD, (0,))]
    assert "does not exist any more" in finding.sentence
    (finding,) = audit({0: 5, 3: 6}, known)
    assert "is not listed" in finding.sentence
    assert audit({0: END, 1: 4, 2: 5, 3: 6}, known) == []


def test_an_open_shard_that_is_finished() -> None:
    findings = audit({0: END, 3: END})
    assert found(findings) == [(FindingKind.HOLE, ()), (FindingKind.FINISHED_OPEN, (3,))]


def test_a_lease_without_a_time() -> None:
    findings = audit({0: 5, 3: Sentinel.LATEST})
    assert found(findings) == [(FindingKind.NO_TIME, (3,))]


def test_owners_are_counted() -> None:
    leases = [
        Lease(shard_id=shard_id(0), checkpoint=RecordCheckpoint(5), owner="a"),
        Lease(
            shard_id=shard_id(3), checkpoint=RecordCheckpoint(5), owner="a", checkpoint_owner="b"
        ),
    ]
    findings = audit_leases(leases, listing(*FAMILY))
    assert found(findings) == [(FindingKind.OWNED, (0, 3)), (FindingKind.OWNED, (3,))]
    assert "worker 'a' holds 2 leases" in findings[0].sentence


def test_what_is_written_for_an_offset_is_sound() -> None:
    family = Lineage(listing(*FAMILY))
    rows = lease_rows(places({0: ended(), 3: after(6)}), family)
    assert audit_leases(rows, family.shards) == []


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_in_random_histories_is_sound(seed: int) -> None:
    rng, world, query = begin(seed)
    for _ in range(20):
        world.change()
        expect_all(query)
        query.plan(world.listing(0, 0), eager=rng.random() < 0.5)
        known = world.listing(0, 0)
        findings = audit_leases(lease_rows(query.tracked, Lineage(known)), known)
        assert [f for f in findings if f.kind is not FindingKind.WEDGED_PARENT] == []
