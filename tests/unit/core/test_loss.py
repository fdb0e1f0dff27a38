from __future__ import annotations

import logging

import pytest

from kinesis_source.core.loss import Loss, format_ms, loss_policy
from kinesis_source.core.positions import AfterSequenceNumber
from kinesis_source.errors import DataLossError
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


def test_a_loss_stops_the_query_and_says_how_to_go_on(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError) as caught:
        loss_policy(True, logging.getLogger("test"))(LOSS)
    assert LOSS.describe() in str(caught.value)
    assert "start it once with failOnDataLoss=false" in str(caught.value)
    assert not caplog.records


def test_a_loss_that_may_be_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    loss_policy(False, logging.getLogger("test"))(LOSS)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert LOSS.describe() in record.getMessage()
    assert "going on from the oldest record that is left" in record.getMessage()
