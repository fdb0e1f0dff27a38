"""The drawing of one reshard in docs/guarantees.md, and its offset: `python -m
tests.docs.reshard_drawing` prints both.

A query on a local stream of three shards makes three batches, driven as Spark drives it. After the
first, shard 0 is split and shards 1 and 2 are merged. What is drawn is what the sink got and what
the checkpoint's offsets say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kinesis_source.core.positions import AfterSequenceNumber
from tests.support.engine import Progress
from tests.unit.planning.local_query import STREAM, LocalQuery

#: The lineage as it is drawn: a shard's place in the tree, and its number.
_TREE = (
    ("shard 0 ─┬─ split", 0),
    ("         ├─ shard 3", 3),
    ("         └─ shard 4", 4),
    ("shard 1 ─┐", 1),
    ("shard 2 ─┼─ merge", 2),
    ("         └─ shard 5", 5),
)
_BATCHES = 3
_FIRST_WIDTH, _WIDTH = 19, 22


def reshard() -> LocalQuery:
    """The query after its third batch."""
    query = LocalQuery(shards=3)

    def put(counts: Mapping[int, int]) -> None:
        for number, count in counts.items():
            query.clock.advance(1_000)
            query.put(query.shard(number), count)

    def read() -> None:
        assert query.trigger() == [Progress.BATCH]

    put({0: 3, 1: 2, 2: 1})
    read()
    put({0: 2, 1: 1, 2: 1})
    query.kinesis.split(STREAM, query.shard(0))
    query.kinesis.merge(STREAM, query.shard(1), query.shard(2))
    put({3: 2, 4: 1, 5: 2})
    query.clock.advance(10_000)  # the listing is looked at again
    read()
    read()
    query.stop()
    query.close()
    return query


def draw(query: LocalQuery) -> str:
    ledger = query.kinesis.ledger(STREAM).shards
    places = {
        shard_id: [record.sequence_number for record in shard.records]
        for shard_id, shard in ledger.items()
    }

    def cell(shard_id: str, batch: int) -> str:
        rows = [int(str(row[4])) for row in query.batches[batch] if row[3] == shard_id]
        numbers = [places[shard_id].index(row) + 1 for row in rows]
        read = f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else "".join(map(str, numbers))
        return f"{read:<6} {entry(shard_id, batch)}"

    def entry(shard_id: str, batch: int) -> str:
        place = query.offset(batch).shards.get(shard_id)
        if place is None:
            was_there = batch > 0 and shard_id in query.offset(batch - 1).shards
            return "(has left)" if was_there else ""
        match place.position:
            case AfterSequenceNumber(number):
                return f"after record {places[shard_id].index(number) + 1}"
            case position:
                return str(position)

    def line(*cells: str) -> str:
        first, *rest = cells
        return " │ ".join([f"{first:<{_FIRST_WIDTH}}", *(f"{c:<{_WIDTH}}" for c in rest)]).rstrip()

    lines = [
        line("TIME →", *(f"batch {batch}" for batch in range(_BATCHES))),
        line("", *(["reads  offset then"] * _BATCHES)),
        "─┼─".join(["─" * _FIRST_WIDTH, *(["─" * _WIDTH] * _BATCHES)]),
    ]
    for name, number in _TREE:
        shard_id = query.shard(number)
        lines.append(line(name, *(cell(shard_id, batch) for batch in range(_BATCHES))))
    return "\n".join(lines) + "\n"


def offset_text(query: LocalQuery) -> str:
    """The offset after the second batch, indented for the page."""
    offset = json.loads(query.offsets[1])
    shards = ",\n".join(
        f"    {json.dumps(shard_id)}: {json.dumps(place)}"
        for shard_id, place in offset["shards"].items()
    )
    stream = json.dumps(offset["stream"])
    return f'{{\n  "shards": {{\n{shards}\n  }},\n  "stream": {stream},\n  "v": {offset["v"]}\n}}\n'


if __name__ == "__main__":
    made = reshard()
    print(draw(made))
    print(offset_text(made))
