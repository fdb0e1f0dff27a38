"""A stream of numbered orders, put and resharded by the test itself."""

from __future__ import annotations

from itertools import count

from kinesis_source.demo.producer import KEYS, AcceptedRecord, decode, encode
from kinesis_source.testing import LocalKinesis

STREAM = "orders"


class Orders:
    """The stream `orders` with four shards."""

    def __init__(self, kinesis: LocalKinesis) -> None:
        self._kinesis = kinesis
        self._numbers = count()
        kinesis.create_stream(STREAM, shards=4)

    @property
    def options(self) -> dict[str, str]:
        return {
            **self._kinesis.spark_options(STREAM),
            "startingPosition": "TRIM_HORIZON",
            "minFetchPeriod": "200ms",
            "shardFetchInterval": "500ms",
            "shardsPerTask": "1",
        }

    def put(self, records: int = 240) -> None:
        """The keys in turn, so that every shard gets some."""
        for _ in range(records):
            number, key = divmod(next(self._numbers), len(KEYS))
            self._kinesis.put(STREAM, encode(KEYS[key], number), KEYS[key])

    def split(self) -> None:
        self._kinesis.split(STREAM, self._kinesis.open_shards(STREAM)[0])

    def merge(self) -> None:
        shards = self._kinesis.open_shards(STREAM)
        self._kinesis.merge(STREAM, shards[-2], shards[-1])

    def accepted(self) -> list[AcceptedRecord]:
        """All records, as the stream's own ledger has them."""
        return [
            AcceptedRecord(*decode(r.data), r.data, r.shard_id, str(r.sequence_number))
            for r in self._kinesis.ledger(STREAM).records
        ]
