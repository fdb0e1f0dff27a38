"""Reports of queries that started elsewhere than told to, and of options that did nothing.

Each test is named after its row in docs/reports.md.
"""

from __future__ import annotations

import json

from tests.support.engine import Trigger
from tests.unit.planning.local_query import HOUR_MS, STREAM, LocalQuery, MakeQuery


def put_over_an_hour(query: LocalQuery) -> list[tuple[int, int]]:
    """A record a minute on each shard in turn: when it arrived, and its number."""
    put = []
    for minute in range(60):
        query.clock.advance(60_000)
        (number,) = query.put(query.shard(minute % 2))
        put.append((query.clock.now_ms(), number))
    return put


def test_row_34_an_option_reaches_the_executors_in_any_letter_case(make_query: MakeQuery) -> None:
    """A rate below the service's own slows the tasks down."""
    elapsed_ms = []
    for options in ({}, {"MAXFETCHRATE": "256K"}, {"maxfetchrate": "256k"}):
        query = make_query(**options)
        query.put(query.shard(), 25, size=1_000_000)
        before_ms = query.clock.now_ms()
        query.available_now()
        query.check_complete()
        elapsed_ms.append(query.clock.now_ms() - before_ms)
    fast, *slow = elapsed_ms
    assert fast < 20_000
    assert min(slow) > 60_000


def test_row_40_a_start_at_a_time(make_query: MakeQuery) -> None:
    """Everything from that millisecond on, and nothing before it."""
    query = make_query(2)
    put = put_over_an_hour(query)
    at_ms = put[25][0]
    query.options["startingPosition"] = f"AT_TIMESTAMP {at_ms}"
    query.settle()
    assert sorted(query.numbers()) == sorted(number for _, number in put[25:])


def test_row_40_a_start_before_the_retention_is_the_oldest_record(make_query: MakeQuery) -> None:
    query = make_query(2)
    put = put_over_an_hour(query)
    query.options["startingPosition"] = f"AT_TIMESTAMP {put[0][0] - 200 * HOUR_MS}"
    query.settle()
    assert sorted(query.numbers()) == sorted(number for _, number in put)


def test_row_41_a_start_for_each_shard(make_query: MakeQuery) -> None:
    """By sequence number, on a closed shard and on an open one; those not named take the default,
    and the children of a named shard follow it."""
    query = make_query(3)
    closed, opened, unnamed = (query.shard(n) for n in range(3))
    first, second = query.put(closed, 6), query.put(opened, 6)
    query.put(unnamed, 6)
    children = [n for c in query.kinesis.split(STREAM, closed) for n in query.put(c, 2)]
    query.clock.advance(5_000)
    query.options["startingPosition"] = json.dumps(
        {
            closed: f"AFTER_SEQUENCE_NUMBER {first[3]}",
            opened: f"AFTER_SEQUENCE_NUMBER {second[1]}",
            "default": "LATEST",
        }
    )
    query.trigger()
    later = query.put(unnamed, 2)
    query.settle()
    assert sorted(query.numbers()) == sorted(first[4:] + second[2:] + children + later)


def test_row_91_two_hundred_records_of_a_mebibyte_in_one_batch(make_query: MakeQuery) -> None:
    query = make_query(4)
    data = bytes((1 << 20) - len("key"))
    for record in range(200):
        query.kinesis.put_to_shard(STREAM, query.shard(record % 4), data, "key")
    query.start(Trigger.ONCE)
    query.engine.trigger()
    query.check_complete()
    assert [len(rows) for rows in query.batches.values()] == [200]
