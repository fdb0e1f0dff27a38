"""Links between README.md and docs/*.md lead somewhere, headings included."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT, blocks_of, pages

_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


def anchors_of(page: str) -> set[str]:
    """As GitHub makes them of headings."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in blocks_of(page):
        text = text.replace(block.text, "")
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", pages())
def test_the_links_of_a_page(page: str) -> None:
    for link in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(target.resolve().relative_to(ROOT).as_posix()), link
