"""One task: its shard ranges side by side, ahead of Spark, within a fixed number of bytes."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa

from kinesis_source.aws.session import Connection
from kinesis_source.aws.stream_guard import StreamGuard
from kinesis_source.core.loss import loss_policy
from kinesis_source.core.ranges import ShardRange
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.options import Options
from kinesis_source.reading.arrow import to_record_batches
from kinesis_source.reading.shard_reader import ReadCancelledError, ShardReader

logger = logging.getLogger(__name__)

#: Shards that a task reads at once; with 80 ms a call eight hide the latency.
THREADS = 8
#: Bytes read and not yet taken by Spark, over all shards of the task; each thread may hold one more
#: page (10 MiB at most).
BUFFER_BYTES = 32 << 20


def read_ranges(
    options: Options,
    connection: Connection,
    identity: StreamIdentity,
    retention_ms: int | None,
    ranges: Sequence[ShardRange],
    cut_off_s: float | None = None,
) -> Iterator[pa.RecordBatch]:
    """The record batches of all ranges; those of one shard in order, the shards in any.

    `identity`, `retention_ms`: of the stream when the batch was planned. `cut_off_s`: as for
    `ShardReader`. Closes `connection`.
    """
    guard = StreamGuard(connection.client, identity, retention_ms)
    on_loss = loss_policy(options, connection.client.service_clock.now_ms, logger)
    over = threading.Event()
    readers = [
        ShardReader(
            connection, guard, shard_range, options.max_fetch_rate, on_loss, over.is_set, cut_off_s
        )
        for shard_range in ranges
    ]
    try:
        if connection.threads == 1:
            for reader in readers:
                yield from _batches(reader, options.stream_name)
        else:
            prefetch = _Prefetch(readers, options.stream_name, connection.threads, over)
            yield from prefetch.batches()
    finally:
        over.set()
        connection.close()


def _batches(reader: ShardReader, stream: str) -> Iterator[pa.RecordBatch]:
    for records in reader.read():
        yield from to_record_batches(records, stream, reader.shard_range.shard_id)


class _Prefetch:
    """Threads that read shards into one queue; a thread takes the next shard when one is done."""

    def __init__(
        self, readers: Sequence[ShardReader], stream: str, threads: int, over: threading.Event
    ) -> None:
        """`over`: set here or by the caller when nobody takes batches any more."""
        self._stream = stream
        self._over = over
        self._readers: queue.SimpleQueue[ShardReader] = queue.SimpleQueue()
        for reader in readers:
            self._readers.put(reader)
        self._threads = min(threads, len(readers))
        self._ready: queue.SimpleQueue[pa.RecordBatch | BaseException | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._buffered = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._threads):
            # Daemons: an executor that is killed or a task that is cancelled waits for nobody.
            threading.Thread(target=self._work, name=f"shard-reader-{number}", daemon=True).start()
        running = self._threads
        try:
            while running:
                item = self._ready.get()
                if item is None:
                    running -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
                    self._release(item.nbytes)
        finally:
            self._over.set()
            with self._room:
                self._room.notify_all()

    def _work(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    reader = self._readers.get_nowait()
                except queue.Empty:
                    break
                for batch in _batches(reader, self._stream):
                    if not self._reserve(batch.nbytes):
                        return
                    self._ready.put(batch)
            self._ready.put(None)
        except ReadCancelledError:
            return
        except BaseException as error:
            self._ready.put(error)

    def _reserve(self, size: int) -> bool:
        """Wait for room, which a batch larger than the whole buffer gets when that is empty. False
        once the task is over."""
        with self._room:
            self._room.wait_for(
                lambda: (
                    self._over.is_set()
                    or not self._buffered
                    or self._buffered + size <= BUFFER_BYTES
                )
            )
            self._buffered += size
            return not self._over.is_set()

    def _release(self, size: int) -> None:
        with self._room:
            self._buffered -= size
            self._room.notify_all()
