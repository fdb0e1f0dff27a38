"""The published quotas, per shard, stream and account (KINESIS.md, "Quotas")."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Limits per second. `list_shards` is the older, stricter figure of the two published."""

    get_records_calls: int = 5
    get_records_bytes: int = 2 * MIB
    get_shard_iterator_calls: int = 5
    list_shards_calls: int = 100
    describe_stream_summary_calls: int = 20
    put_bytes: int = MIB
    put_records: int = 1000


@dataclass(slots=True)
class _Window:
    """Use since `start_ms`. It lasts a second, or as long as the limit needs to pay for it: so
    a page of 10 MiB blocks a shard that may give 2 MiB a second for five seconds."""

    start_ms: int
    used: int = 0


class Quotas:
    """Counts use and says what still fits. Not thread-safe."""

    def __init__(self, limits: QuotaLimits) -> None:
        self.limits = limits
        self._windows: dict[tuple[object, ...], _Window] = {}

    def fits(self, key: tuple[object, ...], limit: int, amount: int, now_ms: int) -> bool:
        """True if `amount` more fits; what comes alone in its window always does."""
        window = self._window(key, limit, now_ms)
        return window.used == 0 or window.used + amount <= limit

    def spend(self, key: tuple[object, ...], limit: int, amount: int, now_ms: int) -> None:
        self._window(key, limit, now_ms).used += amount

    def take(self, key: tuple[object, ...], limit: int, now_ms: int) -> bool:
        """Spend one if it fits."""
        if not self.fits(key, limit, 1, now_ms):
            return False
        self.spend(key, limit, 1, now_ms)
        return True

    def _window(self, key: tuple[object, ...], limit: int, now_ms: int) -> _Window:
        window = self._windows.get(key)
        if window is None or now_ms - window.start_ms >= max(1000, window.used * 1000 / limit):
            window = self._windows[key] = _Window(now_ms)
        return window
