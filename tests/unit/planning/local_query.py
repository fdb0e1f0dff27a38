"""One query on one local stream, driven trigger by trigger by the simulated engine."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterator

import pytest

from kinesis_source.core.offset import Offset, parse_offset
from kinesis_source.testing import Fault, FaultKind, LocalKinesis, ManualClock, QuotaLimits
from tests.support.checkpoint import Checkpoint, Row, Sink
from tests.support.connection import InProcessDataSource, register, unregister
from tests.support.engine import Progress, SimulatedEngine, Trigger

STREAM = "orders"
HOUR_MS = 3_600_000


class LocalQuery:
    """`kinesis` and `clock` are the service's; `options` those of the next run."""

    def __init__(
        self,
        shards: int = 1,
        *,
        kinesis: LocalKinesis | None = None,
        clock: ManualClock | None = None,
        quotas: bool | QuotaLimits = False,
        **options: str,
    ) -> None:
        self.clock = clock or ManualClock()
        self.kinesis = kinesis or LocalKinesis(clock=self.clock, quotas=quotas)
        if kinesis is None:
            self.kinesis.create_stream(STREAM, shards=shards)
        self.options = options
        self.engine = SimulatedEngine(Checkpoint(), Sink(), random.Random(0))
        self._url = register(self.kinesis, self.clock)
        self._puts = 0

    def close(self) -> None:
        unregister(self._url)

    @property
    def url(self) -> str:
        """For `tests.support.connection.connect_in_process`."""
        return self._url

    # The stream

    def shard(self, number: int = 0) -> str:
        return self.kinesis.shards(STREAM)[number]

    def put(
        self, shard_id: str, count: int = 1, *, size: int = 0, arrival_ms: int | None = None
    ) -> list[int]:
        """Put records of `size` bytes, or of a few that tell them apart; their numbers."""
        numbers = []
        for _ in range(count):
            self._puts += 1
            data = b"%d" % self._puts
            put = self.kinesis.put_to_shard(
                STREAM, shard_id, data.ljust(size, b"."), "key", arrival_ms=arrival_ms
            )
            numbers.append(put.sequence_number)
        return numbers

    def fault(self, kind: FaultKind, operation: str | None = None, **rest: object) -> None:
        self.kinesis.inject(Fault(kind, operation, **rest))  # type: ignore[arg-type]

    # The query

    def source(self, **options: str) -> InProcessDataSource:
        return InProcessDataSource(
            {
                "streamName": STREAM,
                "region": "us-east-1",
                "endpointUrl": self._url,
                "startingPosition": "TRIM_HORIZON",
                **self.options,
                **options,
            }
        )

    def start(self, trigger: Trigger = Trigger.PROCESSING_TIME) -> None:
        self.engine.start(functools.partial(self.source), trigger)

    def stop(self) -> None:
        if self.engine.running:
            self.engine.stop()

    def trigger(self, count: int = 1, gap_ms: int = 1_000) -> list[Progress]:
        """So many triggers, starting the query if it does not run; what each did."""
        if not self.engine.running:
            self.start()
        progress = []
        for _ in range(count):
            progress.append(self.engine.trigger())
            self.clock.advance(gap_ms)
        return progress

    def settle(self, gap_ms: int = 2_000, most: int = 60) -> int:
        """Trigger until five in a row found nothing; how many batches there were."""
        batches = idle = 0
        for _ in range(most):
            if self.trigger(1, gap_ms) == [Progress.BATCH]:
                batches, idle = batches + 1, 0
            else:
                idle += 1
            if idle == 5:
                return batches
        raise AssertionError(f"still busy after {most} triggers, {batches} of them batches")

    def available_now(self, most_triggers: int = 60) -> int:
        """A whole run of Trigger.AvailableNow; the number of its batches."""
        self.stop()
        return self.engine.run_available_now(functools.partial(self.source), most_triggers)

    # What came of it

    @property
    def batches(self) -> dict[int, list[Row]]:
        return self.engine.sink.batches

    @property
    def offsets(self) -> dict[int, str]:
        """The offset log, text by batch id."""
        return self.engine.checkpoint.offsets

    def offset(self, batch_id: int | None = None) -> Offset:
        """The end of a batch, by default of the last."""
        last = max(self.offsets) if batch_id is None else batch_id
        parsed = parse_offset(json.loads(self.offsets[last]))
        assert isinstance(parsed, Offset)
        return parsed

    def numbers(self, shard_id: str | None = None) -> list[int]:
        """Sequence numbers in the sink, in the order of batches and rows."""
        return [
            int(str(row[4]))
            for batch in sorted(self.batches)
            for row in self.batches[batch]
            if shard_id in (None, row[3])
        ]

    def truth(self) -> list[int]:
        """All sequence numbers ever put, shard after shard."""
        return [r.sequence_number for r in self.kinesis.ledger(STREAM).records]

    def check_complete(self) -> None:
        """Every record of every shard once, and in the shard's order."""
        for shard_id, shard in self.kinesis.ledger(STREAM).shards.items():
            assert self.numbers(shard_id) == [r.sequence_number for r in shard.records], shard_id

    def calls(self, operation: str) -> int:
        """Calls of an operation so far, all shards together."""
        return sum(n for (name, _), n in self.kinesis.calls.items() if name == operation)


MakeQuery = Callable[..., LocalQuery]


@pytest.fixture
def make_query() -> Iterator[MakeQuery]:
    made: list[LocalQuery] = []

    def make(*args: object, **kwargs: object) -> LocalQuery:
        made.append(LocalQuery(*args, **kwargs))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for query in made:
        query.close()
