"""Numbers and times as a person reads them; trees; tables on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kinesis_source.cli import printing
from kinesis_source.cli.words import percent, position, sequence_number
from kinesis_source.core.lineage_tree import tree_rows
from kinesis_source.core.positions import SHARD_END, AfterSequenceNumber, AtTimestamp
from kinesis_source.core.times import format_duration

NUMBER = 49670424472731169861061894383153765757641772386972860418


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_999, "1 min 1 s"),
        (60_000, "1 min"),
        (3_660_000, "1 h 1 min"),
        (86_400_000 + 3_599_000, "1 d"),
        (365 * 86_400_000 + 7_200_000, "365 d 2 h"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(1.0, "100 %"), (0.125, "12.5 %"), (1 / 3, "33.33 %"), (2**-128, "<0.01 %"), (0.5, "50 %")],
)
def test_shares(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_positions_are_shortened_unless_in_full() -> None:
    assert position(AfterSequenceNumber(NUMBER), full=False) == "AFTER …386972860418"
    assert position(AfterSequenceNumber(NUMBER), full=True) == f"AFTER_SEQUENCE_NUMBER {NUMBER}"
    assert position(AtTimestamp(1_767_225_600_123), full=False) == "AT 2026-01-01T00:00:00.123Z"
    assert position(SHARD_END, full=False) == "SHARD_END"
    assert sequence_number(123, full=False) == "123"


def test_a_tree_that_is_deeper_than_python_recurses() -> None:
    parents = {f"{depth:05}": [f"{depth - 1:05}"] for depth in range(5_000)}
    rows = tree_rows(parents)
    assert len(rows) == 5_000
    assert rows[4_999].branch == "   " * 4_998 + "└─ "


def test_a_merge_stands_under_both_parents_and_is_drawn_once() -> None:
    rows = tree_rows({"0": [], "1": [], "2": ["1", "0"], "3": ["2"], "4": ["9"]})
    assert [(row.branch + row.shard_id, row.repeated) for row in rows] == [
        ("0", False),
        ("└─ 2", False),
        ("   └─ 3", False),
        ("1", False),
        ("└─ 2", True),
        ("4", False),
    ]


def test_a_terminal_gets_colours_and_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=40, color_system="standard")
    monkeypatch.setattr(printing, "Console", lambda **settings: terminal)
    cell = printing.Cell("closed", "aside")
    printing.print_table(("shard", "state", "number"), [("shardId-000000000000", cell, "9" * 60)])
    lines = out.getvalue().splitlines()
    assert "\x1b[2mclosed" in out.getvalue()
    assert sum(line.count("9") for line in lines) == 60
    assert any("shardId-000000000000" in line for line in lines)
