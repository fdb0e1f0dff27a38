"""Playing a situation on an engine, and what is compared of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kinesis_source.testing import Ledger, LocalKinesis
from tests.parity.situations import SHARDS, SITUATIONS, STREAM, Query, fresh_and_empty

Call = dict[str, Any]

#: The situation whose script waits for idle triggers and does nothing after them.
IDLE = fresh_and_empty.__name__

#: Makes the query of a situation: the connector's options, and a folder for its state.
MakeQuery = Callable[[dict[str, str], Path], Query]


def play_all(make_query: MakeQuery, folder: Path) -> dict[str, list[Call]]:
    """The calls of every situation, by its name."""
    return {name: play(name, make_query, folder / name) for name in SITUATIONS}


def play(name: str, make_query: MakeQuery, folder: Path) -> list[Call]:
    """The calls of one situation; `folder` must not exist."""
    folder.mkdir()
    calls = folder / "calls.jsonl"
    with LocalKinesis(seed=1) as kinesis:
        kinesis.create_stream(STREAM, SHARDS)
        options = {
            **kinesis.spark_options(STREAM),
            "startingPosition": "TRIM_HORIZON",
            "minFetchPeriod": "200ms",
            "shardFetchInterval": "200ms",
            "callsFile": str(calls),
        }
        SITUATIONS[name](kinesis, make_query(options, folder))
        lines = calls.read_text().splitlines()
        parsed = [json.loads(line) for line in lines]
        return list(_comparable(parsed, kinesis.ledger(STREAM), idle=name == IDLE))


def _comparable(calls: list[Call], ledger: Ledger, idle: bool) -> Iterator[Call]:
    """Without what depends on the instant: records by their place in the shard, no times.

    A trigger that found nothing is two calls, `latestOffset` with its start as result and
    `reportLatestOffset`, and becomes one entry `nothing new`. How many of these come in a row
    depends on how fast the engine is, so only the first is kept, and none where it is chance
    whether there is any: between the batches of a run that goes on, unless `idle` says that the
    script waits for some. The reads of a batch, which come in any order, are sorted.
    """
    places = {
        str(record.sequence_number): f"{shard.shard_id} record {index}"
        for shard in ledger.shards.values()
        for index, record in enumerate(shard.records)
    }

    def position(text: str) -> str:
        kind, _, number = text.partition(" ")
        return f"{kind} {places[number]}" if number else kind

    def offset(value: dict[str, Any]) -> Any:
        if "shards" not in value:
            return value
        return {shard_id: position(entry[0]) for shard_id, entry in value["shards"].items()}

    def plain(call: Call) -> Call:
        result = dict(call)
        for name in {"start", "end", "result"} & result.keys():
            result[name] = offset(result[name])
        if "ranges" in result:
            result["ranges"] = [[s, position(start), position(e)] for s, start, e in call["ranges"]]
        return result

    previous = ""
    nothing_new = False
    ends_by_itself = False
    reads: list[Call] = []
    rest = iter(calls)
    for call in rest:
        if call["method"] == "getDefaultReadLimit":
            ends_by_itself = previous == "prepareForTriggerAvailableNow"
        previous = call["method"]
        if call["method"] == "read":
            reads.append(plain(call))
            continue
        yield from sorted(reads, key=lambda read: str(read["ranges"]))
        reads = []
        if call["method"] == "latestOffset" and call["start"] == call.get("result"):
            report = next(rest, None)
            assert report == {"method": "reportLatestOffset"}, f"{report} after nothing new"
            if not nothing_new and (ends_by_itself or idle):
                yield {"method": "nothing new", "start": offset(call["start"])}
            nothing_new = True
            continue
        nothing_new = False
        yield plain(call)
    yield from sorted(reads, key=lambda read: str(read["ranges"]))
