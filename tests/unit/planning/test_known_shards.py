"""What the merged listing remembers, what it forgets, and what it asks the service for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.errors import StreamRecreatedError, TransientServiceError
from kinesis_source.options import Options
from kinesis_source.planning.known_shards import KnownShards
from kinesis_source.testing import Fault, LocalKinesis, ManualClock
from tests.support.connection import connect_in_process, register, unregister

STREAM = "orders"
INTERVAL_MS = 10_000
HOUR_MS = 3_600_000


class Listing:
    """The known shards of a local stream, listed by hand."""

    def __init__(self, url: str, kinesis: LocalKinesis, clock: ManualClock) -> None:
        self.kinesis = kinesis
        self.clock = clock
        options = Options.parse({"streamName": STREAM, "region": "us-east-1", "endpointUrl": url})
        connection = connect_in_process(options, "driver")
        guard = StreamGuard(connection.client)
        guard.check()
        self.known = KnownShards(connection, guard, INTERVAL_MS)

    def refresh(self, *tracked: str) -> set[str]:
        """List again, an interval later; the shards that are known then."""
        self.clock.advance(INTERVAL_MS)
        self.known.refresh(tracked)
        return set(self.known.lineage.shards)

    def calls(self, operation: str) -> int:
        return sum(n for (name, _), n in self.kinesis.calls.items() if name == operation)


@pytest.fixture
def make_listing() -> Iterator[Callable[[int], Listing]]:
    urls: list[str] = []

    def make(shards: int = 1) -> Listing:
        clock = ManualClock()
        kinesis = LocalKinesis(clock)
        kinesis.create_stream(STREAM, shards)
        urls.append(register(kinesis, clock))
        return Listing(urls[-1], kinesis, clock)

    yield make
    for url in urls:
        unregister(url)


MakeListing = Callable[..., Listing]


# What is remembered


def test_a_shard_once_seen_closed_stays_closed(make_listing: MakeListing) -> None:
    """Without its children: they would tell as well."""
    listing = make_listing()
    (parent,) = listing.kinesis.shards(STREAM)
    children = listing.kinesis.split(STREAM, parent)
    for child in children:
        listing.kinesis.hide(STREAM, child, listings=2)
    listing.refresh(parent)
    assert listing.known.is_closed(parent)
    listing.kinesis.look_open(STREAM, parent)
    assert listing.refresh(parent) == {parent}
    assert listing.known.is_closed(parent)


def test_a_shard_with_a_child_is_closed_however_it_is_listed(make_listing: MakeListing) -> None:
    listing = make_listing()
    (parent,) = listing.kinesis.shards(STREAM)
    assert listing.refresh(parent) == {parent}
    assert not listing.known.is_closed(parent)
    listing.kinesis.split(STREAM, parent)
    listing.kinesis.look_open(STREAM, parent)
    listing.refresh(parent)
    assert not listing.known.lineage.shards[parent].closed
    assert listing.known.is_closed(parent)


def test_a_tracked_shard_that_a_listing_lacks_is_remembered(make_listing: MakeListing) -> None:
    listing = make_listing(2)
    tracked, other = listing.kinesis.shards(STREAM)
    listing.refresh(tracked, other)
    listing.kinesis.hide(STREAM, tracked, listings=3)
    for _ in range(3):
        assert listing.refresh(tracked, other) == {tracked, other}


def test_a_parent_that_a_listing_lacks_is_remembered(make_listing: MakeListing) -> None:
    """Its range and its own parents: they tell which shards may enter beside its children."""
    listing = make_listing()
    (parent,) = listing.kinesis.shards(STREAM)
    children = listing.kinesis.split(STREAM, parent)
    listing.refresh()
    listing.kinesis.hide(STREAM, parent, listings=2)
    for _ in range(2):
        assert listing.refresh() == {parent, *children}
    assert listing.known.lineage.ancestors(children) == {parent}


def test_what_is_neither_tracked_nor_a_parent_is_forgotten(make_listing: MakeListing) -> None:
    """So that what is known does not grow with the history of the stream."""
    listing = make_listing()
    (child,) = listing.kinesis.open_shards(STREAM)
    for _ in range(4):
        child = listing.kinesis.merge(STREAM, *listing.kinesis.split(STREAM, child))
        listing.clock.advance(HOUR_MS)
        listing.refresh(child)
    assert len(listing.known.lineage.shards) == 13
    listing.clock.advance(25 * HOUR_MS)
    parents = set(listing.kinesis.ledger(STREAM).shards[child].parents)
    assert listing.refresh(child) == {child, *parents}
    assert listing.refresh(child) == {child, *parents}


# What is asked for


def test_each_shard_is_asked_for_once_a_listing(make_listing: MakeListing) -> None:
    listing = make_listing(2)
    shard_ids = listing.kinesis.shards(STREAM)
    listing.refresh(*shard_ids)
    for _ in range(3):
        assert not listing.known.ask(shard_ids)
    assert listing.calls("GetShardIterator") == 2
    listing.refresh(*shard_ids)
    listing.known.ask(shard_ids)
    assert listing.calls("GetShardIterator") == 4


def test_an_answer_that_does_not_come_is_no_answer(make_listing: MakeListing) -> None:
    """Asked again at once; neither expired nor taken for asked."""
    listing = make_listing()
    (shard_id,) = listing.kinesis.shards(STREAM)
    listing.refresh(shard_id)
    listing.kinesis.split(STREAM, shard_id)
    listing.clock.advance(25 * HOUR_MS)
    listing.kinesis.inject(Fault("throttle", "GetShardIterator"))
    assert not listing.known.ask([shard_id])
    assert listing.known.expired == set()
    assert listing.known.ask([shard_id])
    assert listing.known.expired == {shard_id}


def test_an_expired_shard_is_remembered_while_it_is_needed(make_listing: MakeListing) -> None:
    listing = make_listing()
    (parent,) = listing.kinesis.shards(STREAM)
    listing.kinesis.split(STREAM, parent)
    listing.clock.advance(25 * HOUR_MS)
    listing.refresh(parent)
    listing.known.ask([parent])
    calls = listing.calls("GetShardIterator")
    listing.refresh(parent)
    assert not listing.known.ask([parent]), "nothing new"
    assert listing.calls("GetShardIterator") == calls
    assert listing.known.expired == {parent}
    for expired in ({parent}, set()):
        for shard_id in listing.kinesis.open_shards(STREAM):
            listing.kinesis.split(STREAM, shard_id)
        listing.clock.advance(25 * HOUR_MS)
        listing.refresh()
        assert listing.known.expired == expired, "once no shard that is known names it any more"


def test_an_expired_shard_that_a_listing_still_shows_is_remembered(
    make_listing: MakeListing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a shard that exists it would enter, and then be called lost."""
    listing = make_listing()
    (parent,) = listing.kinesis.shards(STREAM)
    listing.kinesis.split(STREAM, parent)
    listing.refresh()
    shown = {parent: listing.known.lineage.shards[parent]}
    listing.clock.advance(25 * HOUR_MS)
    assert listing.known.ask([parent])
    monkeypatch.setattr(listing.known._client, "list_shards", lambda: shown)
    assert listing.refresh() == {parent}
    assert listing.known.expired == {parent}


def test_of_a_stream_made_again_no_shard_is_called_expired(make_listing: MakeListing) -> None:
    listing = make_listing(2)
    shard_ids = listing.kinesis.shards(STREAM)
    listing.refresh(*shard_ids)
    listing.kinesis.delete_stream(STREAM)
    listing.kinesis.create_stream(STREAM)
    with pytest.raises(StreamRecreatedError):
        listing.known.ask(shard_ids)
    assert listing.known.expired == set()


# When it is listed


def test_a_failed_listing_leaves_what_is_known(make_listing: MakeListing) -> None:
    listing = make_listing()
    (shard_id,) = listing.kinesis.shards(STREAM)
    listing.kinesis.inject(Fault("limit_exceeded", "ListShards"))
    with pytest.raises(TransientServiceError):
        listing.refresh(shard_id)
    assert listing.refresh(shard_id) == {shard_id}
    listing.kinesis.split(STREAM, shard_id)
    listing.kinesis.inject(Fault("limit_exceeded", "ListShards"))
    assert listing.refresh(shard_id) == {shard_id}
    listing.known.refresh([shard_id])
    assert len(listing.known.lineage.shards) == 3, "asked again at once"


def test_while_news_are_expected_it_is_listed_each_second(make_listing: MakeListing) -> None:
    listing = make_listing()
    listing.refresh()

    def listings_in_20_s() -> int:
        before = listing.calls("ListShards")
        for _ in range(200):
            listing.clock.advance(100)
            listing.known.refresh([])
        return listing.calls("ListShards") - before

    assert listings_in_20_s() == 2
    overdue = []
    for _ in range(2):
        listing.known.expect_news(True)
        assert listings_in_20_s() == 20
        overdue.append(listing.known.is_overdue)
    assert overdue == [False, True], "after 30 s"
    listing.known.expect_news(False)
    assert listings_in_20_s() == 2
