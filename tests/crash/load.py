"""What goes on in the stream all the time: numbered records for a few keys, and reshards."""

from __future__ import annotations

import random
import threading

from kinesis_source.clock import Clock
from kinesis_source.demo.producer import AcceptedRecord, decode, encode
from kinesis_source.testing import LocalKinesis

STREAM = "orders"
KEYS = tuple(f"customer-{number:02}" for number in range(24))
SECONDS_BETWEEN_PUTS = 0.1
#: On average. Half of them are followed by another at once: a shard may be closed before it is
#: ever listed as open.
SECONDS_BETWEEN_RESHARDS = 10.0
FEWEST_SHARDS, MOST_SHARDS = 2, 6


class Load:
    """A thread that puts and reshards until the block is left; the stream is made by it.

    A key's numbers count from 0, each put after the one before was accepted.
    """

    def __init__(self, kinesis: LocalKinesis, clock: Clock, rng: random.Random) -> None:
        self._kinesis = kinesis
        self._clock = clock
        self._rng = rng
        self._next_number = dict.fromkeys(KEYS, 0)
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.splits = self.merges = 0
        kinesis.create_stream(STREAM, shards=3)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self._thread.join()

    def stop(self) -> None:
        """Returns after the last put; raises what ended the thread before, if anything."""
        self.__exit__()
        if self._failure is not None:
            raise self._failure

    @property
    def count(self) -> int:
        """Records put so far."""
        return sum(self._next_number.values())

    def accepted(self) -> list[AcceptedRecord]:
        """All records, as the stream's own ledger has them."""
        return [
            AcceptedRecord(*decode(r.data), r.data, r.shard_id, str(r.sequence_number))
            for r in self._kinesis.ledger(STREAM).records
        ]

    def reshard(self) -> None:
        """Split or merge somewhere, so that the number of open shards stays in bounds."""
        shards = self._kinesis.open_shards(STREAM)
        place = self._rng.randrange(len(shards))
        split = self._rng.random() < 0.5
        if len(shards) <= FEWEST_SHARDS or (split and len(shards) < MOST_SHARDS):
            self._kinesis.split(STREAM, shards[place])
            self.splits += 1
        else:
            place = min(place, len(shards) - 2)
            self._kinesis.merge(STREAM, shards[place], shards[place + 1])
            self.merges += 1

    def _put(self) -> None:
        # One key of three is hot: most bursts have several records of it.
        for key in self._rng.choices(KEYS, k=self._rng.choice((1, 5, 40))):
            self._kinesis.put(STREAM, encode(key, self._next_number[key]), key)
            self._next_number[key] += 1

    def _run(self) -> None:
        chance = SECONDS_BETWEEN_PUTS / SECONDS_BETWEEN_RESHARDS
        try:
            while not self._stopping.is_set():
                self._put()
                while self._rng.random() < chance:
                    self.reshard()
                    chance = 0.5
                chance = SECONDS_BETWEEN_PUTS / SECONDS_BETWEEN_RESHARDS
                self._clock.sleep(SECONDS_BETWEEN_PUTS)
        except Exception as error:  # shown by stop()
            self._failure = error
