"""Whose calls the local stream takes: known by the access key id, as it verifies no signature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kinesis_source.testing.service_error import ServiceError


class Access:
    """Any key at first. Not thread-safe."""

    def __init__(self) -> None:
        #: Calls by (access key id, operation).
        self.callers: Counter[tuple[str, str]] = Counter()
        self._accepted: frozenset[str] | None = None
        self._expired: set[str] = set()

    def accept_only(self, key_ids: Iterable[str]) -> None:
        self._accepted = frozenset(key_ids)
        self._expired -= self._accepted

    def expire(self, key_ids: Iterable[str]) -> None:
        self._expired.update(key_ids)

    def accept_any(self) -> None:
        self._accepted = None
        self._expired.clear()

    def check(self, key_id: str, operation: str) -> None:
        """Count a call. Raises ServiceError for keys that are not taken, as AWS answers."""
        self.callers[key_id, operation] += 1
        if key_id in self._expired:
            raise ServiceError(
                "ExpiredTokenException", "The security token included in the request is expired"
            )
        if self._accepted is not None and key_id not in self._accepted:
            raise ServiceError(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
            )
