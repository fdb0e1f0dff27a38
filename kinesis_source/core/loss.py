"""Data loss: what was lost, in words that someone can act on at night.

Loss is never concluded from absence in a listing or from one odd answer; `aws.cursor`,
`planning` and `reading` say where each kind is established.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kinesis_source.core.positions import Position
from kinesis_source.core.times import format_ms
from kinesis_source.errors import DataLossError

_MINUTE_MS = 60_000
#: Long enough for a restart at night.
_SUGGESTED_MS = 60 * _MINUTE_MS
#: `acceptDataLossUntil` may lie no further ahead: it is for one restart.
MOST_ACCEPTED_AHEAD_MS = 24 * 60 * _MINUTE_MS


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


class LossOptions(Protocol):
    """`accept_data_loss_until_ms`: by the service's clock; None for never."""

    @property
    def fail_on_data_loss(self) -> bool: ...

    @property
    def accept_data_loss_until_ms(self) -> int | None: ...


def loss_policy(
    options: LossOptions, now_ms: Callable[[], int | None], logger: logging.Logger
) -> Callable[[Loss], None]:
    """What the options `failOnDataLoss` and `acceptDataLossUntil` mean: a function that raises
    `DataLossError` for a loss, or logs it as a warning and returns, so that reading goes on from
    the oldest record left. `now_ms`: the service's clock, which has answered when a loss is found.
    """
    accept_until_ms = options.accept_data_loss_until_ms

    def on_loss(loss: Loss) -> None:
        found_ms = now_ms()
        if not options.fail_on_data_loss:
            accepted = "failOnDataLoss=false"
        elif accept_until_ms is not None and found_ms is not None and found_ms < accept_until_ms:
            accepted = f"acceptDataLossUntil={format_ms(accept_until_ms)}"
        else:
            raise DataLossError(f"{loss.describe()}. {_way_out(found_ms, accept_until_ms)}")
        logger.warning(
            "%s. %s: going on from the oldest record that is left", loss.describe(), accepted
        )

    return on_loss


def _way_out(found_ms: int | None, accept_until_ms: int | None) -> str:
    stopped_by = "failOnDataLoss=true stopped the query"
    if accept_until_ms is not None:
        stopped_by += f", as acceptDataLossUntil={format_ms(accept_until_ms)} has passed"
    until = "<a time within the next day>"
    if found_ms is not None:
        until = format_ms((found_ms // _MINUTE_MS + 1) * _MINUTE_MS + _SUGGESTED_MS)
    return (
        f"{stopped_by}. Other shards may have lost records too: kinesis-source checkpoint --lag "
        "lists them. To go on from the oldest record that is left, start the query again with "
        f"acceptDataLossUntil={until} (what is found lost by then is logged, later losses stop it "
        "again). A longer retention period gives a stopped query more time"
    )
