"""The situations of a streaming query, each as a script that any engine can play.

`SPARK.md`'s table of calls, row by row, and what else a query may meet. A script does one thing
at a time and waits for it, so that the calls do not depend on how fast the engine is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from kinesis_source.testing import LocalKinesis

STREAM = "orders"
SHARDS = 2


class Trigger(Enum):
    PROCESSING_TIME = "processing time"
    ONCE = "once"
    AVAILABLE_NOW = "available now"


class Query(Protocol):
    """One query with its checkpoint and its sink, on some engine."""

    def start(self, trigger: Trigger = Trigger.PROCESSING_TIME) -> None:
        """Begin a run."""

    def until_batch(self, batch: int) -> None:
        """Let it run until this batch is committed. For `PROCESSING_TIME` only."""

    def be_idle(self) -> None:
        """Let it run for some triggers although nothing is new. For `PROCESSING_TIME` only."""

    def until_end(self) -> None:
        """Let it run until it ends by itself."""

    def until_failure(self) -> None:
        """Let it run until the reader's own error ends it."""

    def stop(self) -> None:
        """A normal stop."""

    def fail_next_batch(self) -> None:
        """The sink of the next batch reads all rows and then fails."""


Script = Callable[[LocalKinesis, Query], None]


def put(kinesis: LocalKinesis, count: int = 1) -> None:
    """The same number of records into each open shard."""
    for shard_id in kinesis.open_shards(STREAM):
        for number in range(count):
            kinesis.put_to_shard(STREAM, shard_id, b"record %d" % number, "key")


def fresh(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start()
    query.until_batch(0)
    put_one(kinesis)
    query.until_batch(1)
    put_one(kinesis)
    query.until_batch(2)
    query.stop()


def put_one(kinesis: LocalKinesis) -> None:
    """A single record: a running query cannot see half of it."""
    kinesis.put_to_shard(STREAM, kinesis.open_shards(STREAM)[0], b"one more", "key")


def fresh_and_empty(kinesis: LocalKinesis, query: Query) -> None:
    query.start()
    query.until_batch(0)
    query.be_idle()
    query.stop()


def fresh_available_now(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()


def fresh_once(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start(Trigger.ONCE)
    query.until_end()


def clean_restart(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start()
    query.until_batch(0)
    query.stop()
    put(kinesis)
    query.start()
    query.until_batch(1)
    query.stop()


def idle_restart(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start()
    query.until_batch(0)
    query.stop()
    query.start()
    query.be_idle()
    put_one(kinesis)
    query.until_batch(1)
    query.stop()


def restart_available_now(kinesis: LocalKinesis, query: Query) -> None:
    for _ in range(2):
        put(kinesis, 3)
        query.start(Trigger.AVAILABLE_NOW)
        query.until_end()
    query.start(Trigger.AVAILABLE_NOW)  # with nothing new
    query.until_end()


def restart_once(kinesis: LocalKinesis, query: Query) -> None:
    for _ in range(2):
        put(kinesis, 3)
        query.start(Trigger.ONCE)
        query.until_end()


def reshard_between_runs(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()
    put(kinesis)
    kinesis.split(STREAM, kinesis.open_shards(STREAM)[0])
    put(kinesis)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()


def replay_of_batch_0(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.fail_next_batch()
    query.start()
    query.until_failure()
    put(kinesis)
    query.start()
    query.until_batch(1)
    query.stop()


def replay_of_batch_0_available_now(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.fail_next_batch()
    query.start(Trigger.AVAILABLE_NOW)
    query.until_failure()
    put(kinesis)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()


def replay_of_a_later_batch(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()
    put(kinesis, 2)
    query.fail_next_batch()
    query.start()
    query.until_failure()
    put(kinesis)
    query.start()
    query.until_batch(2)
    query.stop()


def replay_of_a_later_batch_available_now(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()
    put(kinesis, 2)
    query.fail_next_batch()
    query.start(Trigger.AVAILABLE_NOW)
    query.until_failure()
    put(kinesis)
    query.start(Trigger.AVAILABLE_NOW)
    query.until_end()


def error_while_planning(kinesis: LocalKinesis, query: Query) -> None:
    put(kinesis, 3)
    kinesis.deny("ListShards")
    query.start()
    query.until_failure()


def error_while_reading(kinesis: LocalKinesis, query: Query) -> None:
    """The stream is gone when its batch is read again."""
    put(kinesis, 3)
    query.fail_next_batch()
    query.start()
    query.until_failure()
    kinesis.deny("GetRecords")
    query.start()
    query.until_failure()


SITUATIONS: dict[str, Script] = {
    script.__name__: script
    for script in (
        fresh,
        fresh_and_empty,
        fresh_available_now,
        fresh_once,
        clean_restart,
        idle_restart,
        restart_available_now,
        restart_once,
        reshard_between_runs,
        replay_of_batch_0,
        replay_of_batch_0_available_now,
        replay_of_a_later_batch,
        replay_of_a_later_batch_available_now,
        error_while_planning,
        error_while_reading,
    )
}
