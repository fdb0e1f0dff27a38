"""What happened to a stream, as a list of acts that can be done again with the same result.

Each act happens at an instant of a clock that stands still meanwhile, and everything random
in the local stream comes from its seed, so doing them again gives the same shards and the same
sequence numbers. `restore` insists on that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kinesis_source.clock import SystemClock
from kinesis_source.testing import LocalKinesis, ManualClock

STREAM = "orders"


@dataclass(frozen=True)
class Act:
    """One act at `at_ms`.

    `create` (`shards`, `sequence_digits`), `put` (`shard_id`, `key`, `data`; `result` is its
    number; `due` if a correct query has to read it), `split` (`shard_id`), `merge` (`shard_id`,
    `neighbour`).
    """

    at_ms: int
    what: Literal["create", "put", "split", "merge"]
    arguments: dict[str, Any]
    result: str = ""
    due: bool = False


@dataclass
class History:
    """`options`: of the query, without how to reach the stream."""

    options: dict[str, str] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"options": self.options, "acts": [asdict(act) for act in self.acts]}

    @classmethod
    def parse(cls, value: dict[str, Any]) -> History:
        return cls(value["options"], [Act(**act) for act in value["acts"]])

    @property
    def due(self) -> set[str]:
        """Sequence numbers of all records that the query has to read in its life."""
        return {act.result for act in self.acts if act.due}


class HistoryClock(ManualClock):
    """Stands still, except while a real Spark runs on it: then it goes with the machine's."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._machine = SystemClock()
        self._running_since: float | None = None

    def now_ms(self) -> int:
        return super().now_ms() + self._passed_ms()

    @contextmanager
    def running(self) -> Iterator[None]:
        self._running_since = self._machine.monotonic()
        try:
            yield
        finally:
            passed_ms, self._running_since = self._passed_ms(), None
            self.advance(passed_ms)

    def _passed_ms(self) -> int:
        if self._running_since is None:
            return 0
        return int((self._machine.monotonic() - self._running_since) * 1000)


def perform(kinesis: LocalKinesis, act: Act) -> str:
    """Do it now; the result as text."""
    arguments = act.arguments
    match act.what:
        case "create":
            kinesis.create_stream(STREAM, **arguments)
            return ""
        case "put":
            shard_id, data, key = arguments["shard_id"], arguments["data"], arguments["key"]
            put = kinesis.put_to_shard(STREAM, shard_id, data.encode(), key)
            return str(put.sequence_number)
        case "split":
            return " ".join(kinesis.split(STREAM, arguments["shard_id"]))
        case "merge":
            return kinesis.merge(STREAM, arguments["shard_id"], arguments["neighbour"])


def restore(history: History, clock: ManualClock) -> LocalKinesis:
    """The stream as it was, on this clock, which must not be past the first act; it is moved
    to the last one. Raises `AssertionError` if an act has another result than it had then."""
    kinesis = LocalKinesis(clock=clock)
    for act in history.acts:
        clock.advance(act.at_ms - clock.now_ms())
        result = perform(kinesis, act)
        assert result == act.result, (
            f"the local stream no longer gives the sequence numbers and shards of this history: "
            f"{act} gave {result!r} now"
        )
    return kinesis
