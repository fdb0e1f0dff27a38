"""Tests that a page of docs/ names, such as `tests/unit/core/test_ends.py::test_name`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NODE_ID = re.compile(r"`(tests/[^`]+::[^`]+)`")


def names_in(path: Path) -> set[str]:
    """The node ids of a file, without its path: `test_name` and `TestClass::test_name`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def exists(node_id: str) -> bool:
    path, _, name = node_id.partition("::")
    return name in names_in(ROOT / path)
