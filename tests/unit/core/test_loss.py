from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import pytest

from kinesis_source.core.loss import Loss, loss_policy
from kinesis_source.core.positions import AfterSequenceNumber
from kinesis_source.core.times import format_ms
from kinesis_source.errors import DataLossError
from kinesis_source.options import Options
from tests.unit.core.building import shard_id


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "an unknown time"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1767323045678, "2026-01-02T03:04:05.678Z"),
        (1767323045999, "2026-01-02T03:04:05.999Z"),
    ],
)
def test_times_are_utc_to_the_millisecond(ms: int | None, text: str) -> None:
    assert format_ms(ms) == text


LOSS = Loss(
    stream="orders",
    shard_id=shard_id(7),
    position=AfterSequenceNumber(10**55),
    reason="the position has been trimmed",
    read_until_ms=1767323045678,
    until_ms=1767409445678,
)


def test_a_loss_names_shard_stream_reason_position_and_time_span() -> None:
    text = LOSS.describe()
    for part in (
        "orders",
        shard_id(7),
        "the position has been trimmed",
        f"AFTER_SEQUENCE_NUMBER {10**55}",
        "2026-01-02T03:04:05.678Z to 2026-01-03T03:04:05.678Z",
    ):
        assert part in text


NOON_MS = 1767355200000  # 2026-01-02T12:00:00Z


@dataclass(frozen=True)
class Choice:
    fail_on_data_loss: bool = True
    accept_data_loss_until_ms: int | None = None


def lose(choice: Choice, now_ms: int | None = NOON_MS) -> None:
    loss_policy(choice, lambda: now_ms, logging.getLogger("test"))(LOSS)


def test_a_loss_stops_the_query_and_says_how_to_go_on(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError) as caught:
        lose(Choice(), NOON_MS + 59_999)
    assert LOSS.describe() in str(caught.value)
    assert "start the query again with acceptDataLossUntil=2026-01-02T13:01:00.000Z (" in str(
        caught.value
    )
    assert not caplog.records


def test_the_time_that_is_suggested_is_accepted() -> None:
    """And an hour later the guard is on again, whether or not anybody took the option out."""
    with pytest.raises(DataLossError) as caught:
        lose(Choice())
    suggested = re.search(r"acceptDataLossUntil=(\S+) \(", str(caught.value))
    assert suggested is not None
    options = Options.parse({"streamName": "orders", "acceptDataLossUntil": suggested[1]})
    policy = loss_policy(options, lambda: now_ms, logging.getLogger("test"))
    now_ms = NOON_MS + 3_600_000
    policy(LOSS)
    now_ms += 60_000
    with pytest.raises(DataLossError, match=r"as acceptDataLossUntil=.*13:01.*has passed"):
        policy(LOSS)


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        (Choice(fail_on_data_loss=False), "failOnDataLoss=false"),
        (
            Choice(accept_data_loss_until_ms=NOON_MS + 1),
            "acceptDataLossUntil=2026-01-02T12:00:00.001Z",
        ),
    ],
)
def test_a_loss_that_may_be_is_logged_and_named(
    choice: Choice, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    lose(choice)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert LOSS.describe() in record.getMessage()
    assert f"{named}: going on from the oldest record that is left" in record.getMessage()
