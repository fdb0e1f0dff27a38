"""The fenced code blocks of README.md and docs/*.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    """`page`: its path from the project's folder. `line`: of the opening fence, from 1. `text`:
    without the fence's own indentation."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    found = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("**/*.md"))
    return ["README.md", *found]


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    return tuple(parse_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def parse_blocks(page: str, markdown: str) -> list[Block]:
    """Raises ValueError for a block that is never closed."""
    blocks: list[Block] = []
    opening: re.Match[str] | None = None
    begin, lines = 0, [""]
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opening is None:
            if fence is not None:
                opening, begin, lines = fence, number, []
        elif fence is not None and not fence["info"].strip() and opening["marks"] in fence["marks"]:
            text = "".join(f"{line}\n" for line in lines)
            blocks.append(Block(page, begin, opening["info"].strip(), text))
            opening = None
        else:
            indent = len(opening["indent"])
            lines.append(line[indent:] if not line[:indent].strip() else line)
    if opening is not None:
        raise ValueError(f"{page}:{begin}: the block is never closed")
    return blocks


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page)]


def block_with(page: str, part: str) -> Block:
    """The one block of the page that contains `part`. For tests that run a block themselves."""
    found = [block for block in blocks_of(page) if part in block.text]
    assert len(found) == 1, f"{len(found)} blocks of {page} contain {part!r}; expected one"
    return found[0]
