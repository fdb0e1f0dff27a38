"""What this process has learned of the stream's shards, over all its listings.

A shard that was listed once is a fact: its parents and range never change, and a closed shard stays
closed. So one odd listing takes nothing away. That a shard is gone is only known from the service
itself, when it answers ResourceNotFound for it while the stream is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from kinesis_source.aws.client import IteratorStart
from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.lineage import Lineage
from kinesis_source.core.shards import Shard
from kinesis_source.errors import ResourceNotFoundError, TransientServiceError

logger = logging.getLogger(__name__)

#: While children are expected that the listing does not show yet, it is asked this often.
_HURRIED_INTERVAL_S = 1.0
_USUAL_LAG_S = 30.0


class KnownShards:
    """The merged listing (`lineage`) and the shards known to be `expired`."""

    def __init__(self, connection: Connection, guard: StreamGuard, interval_ms: int) -> None:
        self._connection = connection
        self._client = connection.client
        self._clock = connection.clock
        self._guard = guard
        self._interval_s = interval_ms / 1000
        self._listed_at: float | None = None
        self._asked: set[str] = set()
        self.lineage = Lineage({})
        #: Shards for which the service answered that they do not exist.
        self.expired: set[str] = set()
        self._news_since: float | None = None

    def refresh(self, tracked: Collection[str]) -> None:
        """List again if it is time. Raises what `KinesisClient.list_shards` raises, if nothing is
        known so far; later a failed listing leaves what is known."""
        now = self._clock.monotonic()
        interval_s = self._interval_s
        if self._news_since is not None:
            interval_s = min(interval_s, _HURRIED_INTERVAL_S)
        if self._listed_at is not None and now - self._listed_at < interval_s:
            return
        try:
            listing = self._client.list_shards()
        except TransientServiceError as error:
            if self._listed_at is None:
                raise
            logger.debug("the listing failed, going on with the last: %s", error)
            return
        self._listed_at = now
        self._asked.clear()
        if not self.expired.issuperset(i for i in tracked if i not in listing):
            self._doubt_stream()
        self._merge(listing, tracked)

    def _doubt_stream(self) -> None:
        """Shards that the offset tracks are not listed: that proves nothing, but another stream
        under the name would look so."""
        try:
            self._guard.check()
        except TransientServiceError as error:
            logger.debug("whether the stream is the same is asked with the next listing: %s", error)

    def _merge(self, listing: dict[str, Shard], tracked: Collection[str]) -> None:
        before = self.lineage.shards
        needed = {*tracked, *(p for s in listing.values() for p in s.parent_ids)}
        shards = {i: s for i, s in before.items() if i in needed and i not in listing}
        for shard_id, shard in listing.items():
            known = before.get(shard_id)
            closed = shard.closed or (known is not None and known.closed)
            shards[shard_id] = replace(shard, closed=closed)
        if shards != before:
            self.lineage = Lineage(shards)
        named = {p for shard in shards.values() for p in shard.parent_ids}
        self.expired &= {*tracked, *named, *shards}

    def ask(self, shard_ids: Iterable[str]) -> bool:
        """Ask the service whether shards still exist, each once a listing. True if it called one
        of them expired."""
        to_ask = sorted(set(shard_ids) - self.expired - self._asked)
        exists = dict(zip(to_ask, self._connection.map(self._exists, to_ask), strict=True))
        self._asked.update(i for i, answer in exists.items() if answer is not None)
        gone = {i for i, answer in exists.items() if answer is False}
        if gone:
            self._guard.check()  # the shards, not the stream
            self.expired |= gone
        return bool(gone)

    def _exists(self, shard_id: str) -> bool | None:
        """None if the service gave no answer."""
        try:
            self._client.get_shard_iterator(shard_id, IteratorStart.trim_horizon())
        except ResourceNotFoundError:
            return False
        except TransientServiceError as error:
            logger.debug("could not ask for %s: %s", shard_id, error)
            return None
        return True

    def expect_news(self, expected: bool) -> None:
        """Whether the listing is known to lag behind; while it does it is asked for more often."""
        if not expected:
            self._news_since = None
        elif self._news_since is None:
            self._news_since = self._clock.monotonic()

    @property
    def is_overdue(self) -> bool:
        """News have been expected for longer than a listing usually lags."""
        return (
            self._news_since is not None
            and self._clock.monotonic() - self._news_since > _USUAL_LAG_S
        )

    def is_closed(self, shard_id: str) -> bool:
        """True if the service says so, or has listed a child."""
        shard = self.lineage.shards.get(shard_id)
        return (shard is not None and shard.closed) or bool(self.lineage.children(shard_id))
