"""docs/failures.md has every situation that the project promises to have thought of, each with
tests that exist and show it."""

from __future__ import annotations

import re

import pytest

from tests.support.named_tests import NODE_ID, ROOT, exists

PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")

SITUATIONS = [
    "The sink is down for minutes",
    "The stream is deleted under the query",
    "A noisy neighbour",
    "Credentials expired for a minute",
    "A machine's clock is wrong by an hour",
    "The checkpoint of another query or stream",
    "A checkpoint from a newer version",
    "A downgrade",
    "The network is gone on one worker",
]
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", PAGE, re.MULTILINE))


def test_the_situations_are_there_in_order() -> None:
    assert list(SECTIONS) == SITUATIONS


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_says_what_happens_is_seen_and_is_to_be_done_and_names_tests(
    situation: str,
) -> None:
    section = SECTIONS[situation]
    assert re.findall(r"^\| \*\*(.+?)\*\* \|", section, re.MULTILINE) == [
        "The query",
        "You see",
        "To do",
        "Shown by",
    ]
    assert NODE_ID.search(section.partition("**Shown by**")[2])


@pytest.mark.parametrize("node_id", sorted(set(NODE_ID.findall(PAGE))))
def test_a_test_that_is_named_exists(node_id: str) -> None:
    assert exists(node_id)
