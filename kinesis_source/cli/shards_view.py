"""`kinesis-source shards` for people."""

from __future__ import annotations

from kinesis_source.cli.printing import Cell, print_facts, print_lines, print_table
from kinesis_source.cli.shard_listing import ShardSummary, StreamListing
from kinesis_source.cli.words import percent, sequence_number, share
from kinesis_source.core.lineage_tree import TreeRow, tree_rows
from kinesis_source.core.probes import SeenRecord
from kinesis_source.core.times import format_duration, format_ms

#: Meanings of the states, for their colours.
STATES = {"open": "good", "closed": "aside", "gone": "aside", "unlisted": "notice"}


def show(listing: StreamListing, full: bool) -> None:
    stream = listing.stream
    counts = [(state, listing.count(state)) for state in STATES]
    print_facts(
        {
            "Stream": f"{stream.name}  {stream.identity.arn}",
            "Created": format_ms(stream.identity.created_ms),
            "Status": stream.status,
            "Retention": format_duration(stream.retention_ms),
            "Shards": ", ".join(f"{count} {state}" for state, count in counts if count),
        }
    )
    columns = ["shard", "state", "share of keys"]
    columns += ["first hash key", "last hash key"] if full else []
    columns += ["oldest record", "number", "newest record", "number"] * listing.with_records
    rows = tree_rows(listing.parents)
    print_table(columns, (_row(row, listing, full) for row in rows))
    print_lines(_remarks(listing))


def name_and_state(row: TreeRow, shard: ShardSummary) -> list[str]:
    """The first two cells of a shard's row in a tree."""
    name = row.branch + row.shard_id
    if row.repeated:
        return [name, Cell("above", "aside")]
    if len(shard.parent_ids) == 2:
        name += " (merged)"
    return [name, Cell(shard.state, STATES[shard.state])]


def _row(row: TreeRow, listing: StreamListing, full: bool) -> list[str]:
    shard = listing.shards[row.shard_id]
    cells = name_and_state(row, shard)
    if row.repeated:
        return cells
    keys = shard.hash_keys
    cells.append(percent(share(keys)) if keys else "")
    if full:
        cells += [str(keys.start), str(keys.end)] if keys else ["", ""]
    if listing.with_records and keys:
        cells += [*_record(shard, shard.oldest, full), *_record(shard, shard.newest, full)]
    return cells


def _record(shard: ShardSummary, record: SeenRecord | None, full: bool) -> list[str]:
    if record is None:
        return [Cell("none", "aside"), ""]
    return [format_ms(record.arrival_ms), sequence_number(record.sequence_number, full)]


def _remarks(listing: StreamListing) -> list[str]:
    remarks = []
    if listing.count("gone"):
        remarks.append("gone: named as a parent; the service no longer has it, nor its records.")
    if listing.count("unlisted"):
        remarks.append(
            Cell("unlisted: named as a parent and not listed, but not known to be gone.", "notice")
        )
    if not listing.is_whole:
        remarks.append(
            Cell(
                "The shards without children do not cover every hash key once: the listing lags "
                "behind a reshard. Ask again.",
                "notice",
            )
        )
    return remarks
