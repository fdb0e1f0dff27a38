"""`kinesis-source checkpoint` for people."""

from __future__ import annotations

from kinesis_source.cli.lag import ShardLag, StreamLag
from kinesis_source.cli.printing import Cell, print_facts, print_lines, print_table
from kinesis_source.cli.progress import PlannedEnd, Progress
from kinesis_source.cli.shards_view import STATES
from kinesis_source.cli.words import position
from kinesis_source.core.lineage import is_finished
from kinesis_source.core.offset import TrackedShard
from kinesis_source.core.times import format_duration, format_ms


def show(progress: Progress, lag: StreamLag | None, now_ms: int, full: bool) -> None:
    """`now_ms`: this machine's clock, for ages where the service was not asked."""
    stream = progress.latest.offset.stream
    query = f", query {progress.query_id}" if progress.query_id else ""
    facts = {
        "Checkpoint": f"{progress.location} (source {progress.source}{query})",
        "Stream": f"{stream.arn}, created {format_ms(stream.created_ms)}",
        "Committed": _batch(progress.committed) if progress.committed else "nothing yet",
        "Planned": (
            f"{_batch(progress.planned)}, not committed: a restart reads it to the same end"
            if progress.planned
            else "nothing beyond that"
        ),
    }
    if lag is not None:
        facts["Retention"] = format_duration(lag.retention_ms)
        now_ms = lag.now_ms
    print_facts(facts)
    places = progress.places
    ends = progress.planned.offset.shards if progress.planned else {}
    columns = ["shard", "read to" if progress.committed else "starts at", "all read until"]
    columns += [f"end of batch {progress.planned.batch}"] if progress.planned else []
    columns += ["state", "behind", "expires in", ""] if lag is not None else []
    shard_ids = sorted({*places, *ends, *(lag.shards if lag is not None else ())})
    rows = []
    for shard_id in shard_ids:
        row = [shard_id, *_place(places.get(shard_id), now_ms, full)]
        if progress.planned:
            row.append(_end(places.get(shard_id), ends.get(shard_id), full))
        if lag is not None:
            row += _lag(lag.shards.get(shard_id))
        rows.append(row)
    print_table(columns, rows)
    print_lines(_remarks(lag))


def _batch(end: PlannedEnd) -> str:
    when = f", planned {format_ms(end.timestamp_ms)}" if end.timestamp_ms is not None else ""
    return f"batch {end.batch}{when}"


def _place(place: TrackedShard | None, now_ms: int, full: bool) -> list[str]:
    if place is None:
        return [Cell("not yet", "aside"), ""]
    until = ""
    if place.read_until_ms is not None:
        until = format_ms(place.read_until_ms)
        if not is_finished(place):
            until += f" ({format_duration(max(0, now_ms - place.read_until_ms))} ago)"
    return [position(place.position, full), until]


def _end(place: TrackedShard | None, end: TrackedShard | None, full: bool) -> str:
    if end is None:
        return Cell("leaves, finished" if place is not None else "", "aside")
    if place is not None and place.position == end.position:
        return Cell("the same", "aside")
    return position(end.position, full)


def _lag(lag: ShardLag | None) -> list[str]:
    if lag is None:
        return ["", "", "", ""]
    state = Cell(lag.state, "bad" if lag.state == "gone" else STATES[lag.state])
    if lag.behind_ms is None:
        behind = Cell("" if lag.state == "gone" else "unknown", "notice")
    else:
        behind = (
            Cell(format_duration(lag.behind_ms)) if lag.behind_ms else Cell("caught up", "good")
        )
    expires = ""
    if lag.expires_in_ms is not None:
        meaning = "bad" if lag.at_risk else ""
        expires = Cell(format_duration(max(0, lag.expires_in_ms)), meaning)
    remark = "at risk" if lag.at_risk else ""
    if lag.lost is not None:
        remark = "data loss"
    if lag.waits_for:
        waits = f"waits for {', '.join(lag.waits_for)}"
        remark = f"{remark}; {waits}" if remark else waits
    return [state, behind, expires, Cell(remark, "bad" if lag.at_risk or lag.lost else "")]


def _remarks(lag: StreamLag | None) -> list[str]:
    if lag is None:
        return ["How far behind that is, and what may expire: --lag asks the service."]
    remarks: list[str] = [
        Cell(f"{shard_id}: {shard.lost}", "bad")
        for shard_id, shard in sorted(lag.shards.items())
        if shard.lost is not None
    ]
    if remarks:
        remarks.append("A query that goes on from here stops with DataLossError, which says more.")
    if any(shard.at_risk for shard in lag.shards.values()):
        remarks.append(
            Cell(
                "at risk: unread records expire within a quarter of the retention period. Start "
                "the query, give it more cores, or lengthen the retention period.",
                "bad",
            )
        )
    return remarks
