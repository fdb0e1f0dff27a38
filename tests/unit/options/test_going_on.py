"""A query that goes on where awslabs' connector stopped, from the last line of its offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.unit.planning.local_query import STREAM, LocalQuery


@pytest.fixture
def query() -> Iterator[LocalQuery]:
    made = LocalQuery(2)
    yield made
    made.close()


def after(number: int) -> dict[str, str]:
    return {
        "iteratorType": "AFTER_SEQUENCE_NUMBER",
        "iteratorPosition": str(number),
        "subSequenceNumber": "-1",
        "isLast": "true",
    }


def test_in_the_middle_of_a_split_whose_children_were_read_before_their_parent(
    query: LocalQuery,
) -> None:
    """awslabs' connector reads children at once, so parent and children are all in its offset."""
    parent, other = query.shard(0), query.shard(1)
    of_parent, of_other = query.put(parent, 5), query.put(other, 4)
    query.kinesis.split(STREAM, parent)
    left, right = query.kinesis.shards(STREAM)[2:4]
    of_left, of_right = query.put(left, 3), query.put(right, 3)
    offset = {
        "metadata": {"streamName": STREAM, "batchId": "7"},
        parent: after(of_parent[2]),
        other: after(of_other[3]),
        left: after(of_left[0]),
        right: {"iteratorType": "TRIM_HORIZON", "iteratorPosition": ""},
    }
    query.options["startingPosition"] = json.dumps(offset)
    query.settle()
    new = query.put(other, 1)
    query.settle()
    assert query.numbers(parent) == of_parent[3:]
    assert query.numbers(left) == of_left[1:]
    assert query.numbers(right) == of_right
    assert query.numbers(other) == new
    batch_of = {row[3]: batch for batch, rows in query.batches.items() for row in rows}
    assert batch_of[parent] < min(batch_of[left], batch_of[right])
