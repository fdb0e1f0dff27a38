"""Data loss: what was lost, in words that someone can act on at night.

Loss is never concluded from absence in a listing or from one odd answer; `aws.cursor`,
`planning` and `reading` say where each kind is established.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kinesis_source.core.positions import Position
from kinesis_source.errors import DataLossError

#: 9999-12-31T23:59:59.999Z.
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of one shard that the query had still to read and that are no longer there.

    `read_until_ms`: all that arrived before it had been read; None if that is not known.
    `until_ms`: nothing that arrived at or after it is lost.
    """

    stream: str
    shard_id: str
    position: Position
    reason: str
    read_until_ms: int | None
    until_ms: int | None

    def describe(self) -> str:
        span = f"{format_ms(self.read_until_ms)} to {format_ms(self.until_ms)}"
        return (
            f"data loss in {self.shard_id} of stream {self.stream}: {self.reason}. The query had "
            f"read to {self.position}; records that arrived from {span} may be lost"
        )


def loss_policy(fail_on_data_loss: bool, logger: logging.Logger) -> Callable[[Loss], None]:
    """What the option `failOnDataLoss` means: a function that raises `DataLossError` for a loss, or
    logs it as a warning and returns, so that reading goes on from the oldest record left."""

    def stop(loss: Loss) -> None:
        raise DataLossError(
            f"{loss.describe()}. failOnDataLoss=true stopped the query. To go on from the oldest "
            "record that is left, start it once with failOnDataLoss=false, and set it back to true "
            "once a batch has committed. A longer retention period gives a stopped query more time"
        )

    def go_on(loss: Loss) -> None:
        logger.warning(
            "%s. failOnDataLoss=false: going on from the oldest record that is left",
            loss.describe(),
        )

    return stop if fail_on_data_loss else go_on


def format_ms(timestamp_ms: int | None) -> str:
    """ISO 8601 in UTC to the millisecond, or `an unknown time`; past the year 9999 the number."""
    if timestamp_ms is None:
        return "an unknown time"
    if not 0 <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ms since 1970"
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(
        microsecond=timestamp_ms % 1000 * 1000
    )
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
