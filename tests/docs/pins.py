"""Which blocks and commands are run by a test of their own, and whether that test is there."""

from __future__ import annotations

import ast
from functools import cache

from tests.docs.blocks import ROOT, Block, blocks_of
from tests.docs.elsewhere import BLOCKS, Elsewhere


def blocks_named(pin: Elsewhere) -> list[Block]:
    return [b for b in blocks_of(pin.page) if pin.part in b.text]


@cache
def _pinned() -> frozenset[Block]:
    return frozenset(
        block for pin in BLOCKS if (ROOT / pin.page).exists() for block in blocks_named(pin)
    )


def is_run_elsewhere(block: Block) -> bool:
    return block in _pinned()


def source_of_test(node_id: str) -> str:
    """The text of the test's file. Raises AssertionError if it has no such test."""
    path, *names = node_id.split("::")
    assert (ROOT / path).is_file(), f"{node_id}: there is no such file"
    source = (ROOT / path).read_text(encoding="utf-8")
    body = ast.parse(source).body
    for name in names:
        found = [
            n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name
        ]
        assert found, f"{node_id}: there is no such test"
        body = found[0].body
    return source
