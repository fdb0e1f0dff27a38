"""What someone should hear before it becomes an error: sentences that name the worst shard.

Each function gives None while there is nothing to say. How often a sentence is logged is decided in
`planning.warnings`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kinesis_source.core.times import format_duration

#: A throttle that lasts no longer, or a parent that takes no longer, is nothing unusual.
LONG_THROTTLE_MS = 60_000
LONG_WAIT_MS = 300_000
#: Not of KMS, of STS or of an account.
_RATE_OF_A_SHARD = "ProvisionedThroughputExceededException"


@dataclass(frozen=True, slots=True)
class Wait:
    """`shard_id` has waited for so long for `parents`, the ancestors that are still to be read."""

    shard_id: str
    parents: tuple[str, ...]
    waited_ms: int


@dataclass(frozen=True, slots=True)
class Throttle:
    """Calls for a shard have been refused for rate again and again. `reason`: of the last one."""

    lasted_ms: int
    reason: str

    @property
    def is_long(self) -> bool:
        return self.lasted_ms > LONG_THROTTLE_MS


def nearing_horizon(behind: Mapping[str, int], retention_ms: int) -> str | None:
    """Shards behind by three quarters of the retention period. `behind`: by shard, how long its
    oldest unread record has been in the stream, milliseconds."""
    risky = {i: behind_ms for i, behind_ms in behind.items() if behind_ms > retention_ms * 3 // 4}
    if not risky:
        return None
    worst = max(risky, key=lambda i: (risky[i], i))
    left_ms = max(0, retention_ms - risky[worst])
    return (
        f"{worst} is {format_duration(risky[worst])} behind, and the stream keeps records for "
        f"{format_duration(retention_ms)}: in {format_duration(left_ms)} records will be gone that "
        f"were not read{_more(risky, 'near that too')}. Give the stream a longer retention period "
        "now, and the query more cores or larger limits"
    )


def throttled_long(throttles: Mapping[str, Throttle]) -> str | None:
    long = {i: throttle for i, throttle in throttles.items() if throttle.is_long}
    if not long:
        return None
    worst = max(long, key=lambda i: (long[i].lasted_ms, i))
    advice = ""
    if _RATE_OF_A_SHARD in long[worst].reason:
        advice = (
            ". Readers share a shard's 5 calls and 2 MB a second: slow others down, lower "
            "maxFetchRate or raise minFetchPeriod here, or add shards"
        )
    return (
        f"{worst} has been throttled for {format_duration(long[worst].lasted_ms)}"
        f"{_more(long, 'throttled as well')}: {long[worst].reason.rstrip('.')}{advice}"
    )


def waiting_long(waits: Collection[Wait], behind: Mapping[str, int]) -> str | None:
    """`behind`: as for `nearing_horizon`, of the parents."""
    long = {wait.shard_id: wait for wait in waits if wait.waited_ms > LONG_WAIT_MS}
    if not long:
        return None
    worst = max(long.values(), key=lambda wait: (wait.waited_ms, wait.shard_id))
    parents = ", ".join(
        f"{i} ({format_duration(behind[i])} behind)" if behind.get(i) else i for i in worst.parents
    )
    return (
        f"{worst.shard_id} has waited {format_duration(worst.waited_ms)} for {parents} to be read "
        f"to the end{_more(long, 'waiting too')}. That keeps the order of the records; parents are "
        "read faster with more cores or larger limits"
    )


def _more(shards: Collection[str], what: str) -> str:
    others = len(shards) - 1
    if not others:
        return ""
    return f" ({others} more {'shard is' if others == 1 else 'shards are'} {what})"
