"""What the commands print: tables and lines for people, or one JSON document.

The only module that prints. On a terminal tables fit its width and states have colours (not with
`NO_COLOR`); elsewhere lines are as long as they need to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wider than any row, where nobody looks at the screen.
_UNBOUNDED = 10_000

#: What a cell means to the reader, and how that looks.
_STYLES = {
    "good": "green",
    "notice": "yellow",
    "bad": "bold red",
    "aside": "dim",
}


class Cell(str):
    """Text of a table, with a meaning out of `good`, `notice`, `bad`, `aside`, or none."""

    __slots__ = ("meaning",)
    meaning: str

    def __new__(cls, text: str, meaning: str = "") -> Cell:
        cell = super().__new__(cls, text)
        cell.meaning = meaning
        return cell


def print_json(document: Any) -> None:
    _console().out(json.dumps(document, indent=2, ensure_ascii=False), highlight=False)


def print_text(text: str) -> None:
    """As it is, on one line."""
    _console().out(text, highlight=False)


def print_facts(facts: Mapping[str, str]) -> None:
    """One line a fact, the names in a column."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, text in facts.items():
        table.add_row(name, _text(text))
    _print(table)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """After an empty line. The first column is never cut."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=place == 0, overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    _print(Text(""), table)


def print_lines(lines: Iterable[str]) -> None:
    """After an empty line, if there are any."""
    lines = list(lines)
    if lines:
        _print(Text(""), *(_text(line) for line in lines))


def _text(text: str) -> Text:
    meaning = text.meaning if isinstance(text, Cell) else ""
    return Text(text, style=_STYLES.get(meaning, ""))


def _print(*parts: Any) -> None:
    console = _console()
    for part in parts:
        if console.is_terminal:
            console.print(part)
            continue
        with console.capture() as capture:
            console.print(part)
        for line in capture.get().splitlines():
            console.out(line.rstrip(), highlight=False)


def _console() -> Console:
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    return console
