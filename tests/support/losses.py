"""What the stream has lost of what the query was promised, and whether the query said so.

A record is *promised* once its shard, or an ancestor of it, has been tracked with a read-until
time: from then on nothing may be missed. A shard that was never read and whose entry has no
read-until time promises what is left when it is read, no more (the start TRIM_HORIZON).

* Every promised record that the stream trimmed before it was read must lie in the time span of an
  alarm that names its shard or kin of it (a lost ancestor hides its descendants).
* An alarm is right if a promised record of the named shard or of its kin is lost; if the end that
  was planned for the shard is gone before the batch was read; if the shard
  itself is gone and was not finished; or if its read-until time lies before the horizon, as then
  records *may* have come and gone. For a position without a read-until time its own trimming
  counts.
* What was trimmed under a retention period that has been raised since cannot be known to the
  query: a trimmed position within retention looks like a quiet shard's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kinesis_source.testing import Record
from tests.support.offsets import AFTER_SEQUENCE_NUMBER, Entries, Entry
from tests.support.truth import TrueShard, Truth

#: Dates are whole seconds, so the connector's idea of the service's time is up to that much late.
CLOCK_ERROR_MS = 1_001

_ALARM = re.compile(
    r"data loss in (?P<shard>shardId-\d+) of stream .*records that arrived from (?P<from>.+?) to "
    r"(?P<until>.+?) may be lost"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a `DataLossError` or the warning in its place says; None for a time that is unknown."""

    shard_id: str
    from_ms: int | None
    until_ms: int | None

    def spans(self, arrival_ms: int) -> bool:
        since = self.from_ms is None or self.from_ms <= arrival_ms
        return since and (self.until_ms is None or arrival_ms < self.until_ms + CLOCK_ERROR_MS)


def parse_alarm(text: str) -> Alarm | None:
    """The first alarm in a message; None if there is none."""
    found = _ALARM.search(text)
    if found is None:
        return None
    return Alarm(found["shard"], _parse_time(found["from"]), _parse_time(found["until"]))


def _parse_time(text: str) -> int | None:
    if text == "an unknown time":
        return None
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


class AlarmLog(logging.Handler):
    """While entered, keeps the alarms that the connector logs instead of raising."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[Alarm] = []
        self._logger = logging.getLogger("kinesis_source")

    def emit(self, record: logging.LogRecord) -> None:
        alarm = parse_alarm(record.getMessage())
        if alarm is not None:
            self.heard.append(alarm)

    def __enter__(self) -> AlarmLog:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._logger.removeHandler(self)


class Losses:
    """The rules above, for one query. `retention_ms` is the stream's, kept up to date."""

    def __init__(self, truth: Truth, retention_ms: int) -> None:
        self.retention_ms = retention_ms
        #: Alarms that let the query go on.
        self.told: list[Alarm] = []
        self._truth = truth
        self._anchored: set[str] = set()
        self._gone_before: dict[str, int] = {}
        self._unknowable: set[int] = set()

    def anchor(self, offset: Entries) -> None:
        """A batch that ends at `offset` was committed."""
        for shard_id, entry in offset.items():
            if entry.read_until_ms is not None:
                if not self.promises(shard_id):
                    self._gone_before[shard_id] = self._truth.shard(shard_id).trimmed
                self._anchored.add(shard_id)

    def gone_before(self, shard_id: str) -> int:
        """How many of the shard's records were trimmed before anything was promised."""
        return self._gone_before.get(shard_id, 0)

    def promises(self, shard_id: str) -> bool:
        return not self._anchored.isdisjoint({shard_id, *self._truth.ancestors(shard_id)})

    def retention_changes(self, retention_ms: int, now_ms: int) -> None:
        """Call when it was changed. What is gone and would not be under it is unknowable."""
        self.retention_ms = retention_ms
        horizon_ms = now_ms - retention_ms
        for shard in self._truth.shards():
            gone = shard.records[: shard.trimmed]
            self._unknowable.update(r.sequence_number for r in gone if r.arrival_ms >= horizon_ms)

    def untold(self, shard_id: str, first: int, end: int) -> str | None:
        """Why records `first` to before `end` of a shard may not be missing; None if they may."""
        shard = self._truth.shard(shard_id)
        if end > shard.trimmed:
            return f"record {max(first, shard.trimmed)} is still there"
        for index in range(first, end):
            record = shard.records[index]
            if not self._is_known(shard_id, record):
                return f"record {index} ({record.arrival_ms} ms) was trimmed, and no alarm said so"
        return None

    def _is_known(self, shard_id: str, record: Record) -> bool:
        """An alarm told of it, or could not."""
        if record.sequence_number in self._unknowable:
            return True
        kin = self._truth.kin(shard_id)
        return any(a.shard_id in kin and a.spans(record.arrival_ms) for a in self.told)

    def check_alarm(
        self,
        alarm: Alarm,
        offset: Entries,
        planned: Entries,
        read_up_to: Mapping[str, int],
        now_ms: int,
    ) -> str | None:
        """Why the alarm is false or names the wrong span; None if it is right.

        `offset`: where the batch begins; `planned`: where it ends, if that has been logged.
        `read_up_to`: how many records of each shard were read or are not promised.
        """
        truth = self._truth
        shard = truth.shard(alarm.shard_id)
        done = read_up_to.get(alarm.shard_id, shard.trimmed)
        lost = [
            record
            for record in shard.records[done : shard.trimmed]
            if self.promises(alarm.shard_id) and not self._is_known(alarm.shard_id, record)
        ]
        outside = [r for r in lost if not alarm.spans(r.arrival_ms)]
        if outside:
            return f"a lost record that arrived at {outside[0].arrival_ms} is outside the span"
        entry = offset.get(alarm.shard_id)
        finished = entry is not None and entry.finished
        if lost or (shard.expired and not finished):
            return None
        if any(
            read_up_to[kin] < truth.shard(kin).trimmed and self.promises(kin)
            for kin in truth.kin(alarm.shard_id)
            if kin in read_up_to
        ):
            return None
        line = [alarm.shard_id] if entry else truth.ancestors(alarm.shard_id)
        times = [offset[i].read_until_ms for i in line if i in offset]
        known = [time for time in times if time is not None]
        # A running query knows more than it has written down.
        if alarm.from_ms is not None and alarm.from_ms >= max(known, default=0):
            known.append(alarm.from_ms)
        if known and max(known) < now_ms - self.retention_ms + CLOCK_ERROR_MS:
            return None
        if self._is_position_trimmed(planned.get(alarm.shard_id), shard):
            return None
        unknown = entry is not None and entry.read_until_ms is None
        if unknown and self._is_position_trimmed(entry, shard):
            return None
        return f"nothing was lost: read until {times}, horizon {now_ms - self.retention_ms}"

    @staticmethod
    def _is_position_trimmed(entry: Entry | None, shard: TrueShard) -> bool:
        if entry is None or entry.place[0] != AFTER_SEQUENCE_NUMBER:
            return False
        return shard.index_after(entry.place[1]) <= shard.trimmed
