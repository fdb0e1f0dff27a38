"""Puts numbered records for a few dozen keys and remembers exactly what the stream accepted.

A key's next record is sent only after the one before was accepted, so a key's numbers arrive
in order and the ledger is what a correct reader must find: no more, no less.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from kinesis_source.clock import Clock

KEYS = tuple(f"customer-{number:02}" for number in range(48))
RECORDS_PER_CALL = 24
SECONDS_BETWEEN_CALLS = 0.04


@dataclass(frozen=True, slots=True)
class AcceptedRecord:
    """One record as the stream acknowledged it. `number` counts from 0 within `key`."""

    key: str
    number: int
    data: bytes
    shard_id: str
    sequence_number: str


def encode(key: str, number: int) -> bytes:
    """The payload: it names its own key and number, so a row can be checked by itself."""
    return json.dumps({"key": key, "number": number, "item": f"order {number} of {key}"}).encode()


def decode(data: bytes) -> tuple[str, int]:
    """The inverse of `encode`: (key, number). Raises ValueError for anything else."""
    fields = json.loads(data)
    return fields["key"], fields["number"]


class Producer:
    """A thread that puts records until it is stopped. Use as a context manager.

    `client` is a boto3 Kinesis client, or anything with its `put_records`.
    """

    def __init__(self, client: Any, stream: str, clock: Clock, seed: int = 0) -> None:
        self._client = client
        self._stream = stream
        self._clock = clock
        self._random = random.Random(seed)
        self._next_number = dict.fromkeys(KEYS, 0)
        self._accepted: list[AcceptedRecord] = []
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def stop(self) -> None:
        """Returns once the last put was answered; raises what ended the thread, if anything."""
        self.__exit__()
        if self._failure is not None:
            raise self._failure

    @property
    def count(self) -> int:
        return len(self._accepted)

    def accepted(self) -> list[AcceptedRecord]:
        """Everything accepted so far; of one key in the order of its numbers."""
        return list(self._accepted)

    def accepted_by_shard(self) -> Counter[str]:
        return Counter(record.shard_id for record in self.accepted())

    def put_once(self) -> None:
        """One PutRecords call, at most one record a key; a refused record is sent again later."""
        keys = self._random.sample(KEYS, RECORDS_PER_CALL)
        numbers = [self._next_number[key] for key in keys]
        payloads = [encode(key, number) for key, number in zip(keys, numbers, strict=True)]
        answer = self._client.put_records(
            StreamName=self._stream,
            Records=[
                {"PartitionKey": key, "Data": data}
                for key, data in zip(keys, payloads, strict=True)
            ],
        )
        for key, number, data, result in zip(
            keys, numbers, payloads, answer["Records"], strict=True
        ):
            if not result.get("ErrorCode"):
                self._next_number[key] = number + 1
                self._accepted.append(
                    AcceptedRecord(key, number, data, result["ShardId"], result["SequenceNumber"])
                )

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.put_once()
            except Exception as error:  # shown by stop(); the ledger is then no longer exact
                self._failure = error
                return
            self._clock.sleep(SECONDS_BETWEEN_CALLS)
