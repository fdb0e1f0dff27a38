"""docs/reports.md names every row of the list of public reports once, and only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.named_tests import NODE_ID, ROOT, exists, names_in

TABLE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")

#: The numbers of the list; those that are missing were never given or are told by another row.
ROWS = sorted(
    {*range(1, 92)} - {10, 11, 21, 24, 45, 50, 54, 60, 61, 62, 72, 80},
)
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ENTRIES = {int(number): answer for number, _, answer in _ROW.findall(TABLE)}
NODE_IDS = sorted({node_id for answer in ENTRIES.values() for node_id in NODE_ID.findall(answer)})


def test_every_row_of_the_list_is_there_once_and_in_order() -> None:
    assert [int(number) for number, _, _ in _ROW.findall(TABLE)] == ROWS
    assert len(re.findall(r"^\| \d", TABLE, re.MULTILINE)) == len(ROWS), "a row that is malformed"


@pytest.mark.parametrize("number", ROWS)
def test_a_row_names_a_test_or_says_why_it_is_left_out(number: int) -> None:
    answer = ENTRIES[number]
    if not answer.startswith("left out: "):
        assert NODE_ID.search(answer)
    elif not NODE_ID.search(answer):
        assert len(answer) > len("left out: ") + 20, "a reason"


@pytest.mark.parametrize("node_id", NODE_IDS)
def test_a_test_that_is_named_exists(node_id: str) -> None:
    assert exists(node_id)


def test_every_test_of_this_folder_is_named_by_its_row() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        for name in names_in(path):
            row = re.match(r"test_row_(\d+)_", name)
            if row is not None:
                node_id = f"tests/reports/{path.name}::{name}"
                assert node_id in ENTRIES[int(row[1])], node_id
