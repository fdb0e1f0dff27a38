from __future__ import annotations

from kinesis_source.core.concerns import (
    Throttle,
    Wait,
    nearing_horizon,
    throttled_long,
    waiting_long,
)

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


def test_a_shard_near_the_end_of_retention_is_named_with_the_time_left() -> None:
    retention_ms = 24 * HOUR_MS
    assert nearing_horizon({}, retention_ms) is None
    assert nearing_horizon({"a": 18 * HOUR_MS}, retention_ms) is None
    text = nearing_horizon({"a": 19 * HOUR_MS, "b": 0}, retention_ms)
    assert text is not None
    assert text.startswith(
        "a is 19 h behind, and the stream keeps records for 1 d: in 5 h records will be gone that "
        "were not read. "
    )
    text = nearing_horizon({"a": 19 * HOUR_MS, "b": 23 * HOUR_MS, "c": 25 * HOUR_MS}, retention_ms)
    assert text is not None
    assert text.startswith("c is 1 d 1 h behind")
    assert "in 0 ms records will be gone that were not read (2 more shards are near that" in text


RATE = "GetRecords: ProvisionedThroughputExceededException: Rate exceeded"


def test_a_throttle_is_told_once_it_is_long() -> None:
    assert throttled_long({"a": Throttle(MINUTE_MS, RATE)}) is None
    text = throttled_long(
        {
            "a": Throttle(3 * MINUTE_MS, RATE),
            "b": Throttle(2 * MINUTE_MS, RATE),
            "c": Throttle(0, RATE),
        }
    )
    assert text is not None
    assert text.startswith(
        f"a has been throttled for 3 min (1 more shard is throttled as well): {RATE}. Readers share"
    )


def test_only_a_throttle_of_the_shard_is_a_matter_of_other_readers() -> None:
    text = throttled_long({"a": Throttle(3 * MINUTE_MS, "GetRecords: KMSThrottlingException: x")})
    assert text == "a has been throttled for 3 min: GetRecords: KMSThrottlingException: x"


def test_a_shard_that_waits_for_long_is_named_with_its_parents() -> None:
    short = Wait("child", ("parent",), 5 * MINUTE_MS)
    assert waiting_long([short], {"parent": HOUR_MS}) is None
    merged = Wait("merged", ("left", "right"), 12 * MINUTE_MS)
    text = waiting_long([short, merged], {"left": HOUR_MS, "right": 0})
    assert text is not None
    assert text.startswith(
        "merged has waited 12 min for left (1 h behind), right to be read to the"
    )
