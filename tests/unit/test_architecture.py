"""The rules of the code base, as failing tests: imports, time, what must be light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("kinesis_source", "pyspark_kinesis")
CLOCK = ROOT / "kinesis_source" / "clock.py"

#: Reading the machine's time, or waiting for it to pass.
BANNED = {
    "time": {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "sleep",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "asyncio": {"sleep"},
}


def python(code: str) -> str:
    """What `code` prints in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def time_uses(source: str) -> list[str]:
    """`line: call` of each banned use."""
    tree = ast.parse(source)
    uses = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if node.attr in BANNED.get(owner, ()):
                uses.append(f"{node.lineno}: {owner}.{node.attr}")
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            names = [a.name for a in node.names if a.name in BANNED[node.module]]
            uses += [f"{node.lineno}: from {node.module} import {name}" for name in names]
    return uses


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)",
        "import time\nf = time.monotonic",
        "from time import sleep",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now(UTC)",
        "from datetime import date\ndate.today()",
    ],
)
def test_the_search_for_uses_of_time_finds_them(source: str) -> None:
    assert time_uses(source)
    assert not time_uses("from kinesis_source.clock import Clock\nclock.sleep(1)\nclock.now_ms()")


def test_only_the_clock_module_reads_the_time_or_sleeps() -> None:
    found = {}
    for folder in (*PACKAGES, "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != CLOCK and (uses := time_uses(path.read_text(encoding="utf-8"))):
                found[str(path.relative_to(ROOT))] = uses
    assert found == {}
    assert time_uses(CLOCK.read_text(encoding="utf-8"))


def test_imports_go_down_only() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_package_that_spark_imports_unasked_is_light() -> None:
    """One `pyspark_*` package that cannot be imported hides all of them; and it must be quick."""
    loaded = python(
        "import sys, pyspark.sql.datasource; before = set(sys.modules)\n"
        "import pyspark_kinesis\n"
        "print('\\n'.join(sorted(set(sys.modules) - before)))"
    ).split()
    assert loaded == ["pyspark_kinesis"]


def test_building_a_source_loads_the_sdk_but_calls_nothing() -> None:
    """No socket is opened, no credential looked for, and the local stream is not needed."""
    printed = python(
        "import socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "socket.create_connection = refuse\n"
        "from pyspark_kinesis import DefaultSource\n"
        "source = DefaultSource({'streamName': 'orders'})\n"
        "reader = source.streamReader(source.schema())\n"
        "reader.initialOffset()\n"
        "print('kinesis_source.testing' in sys.modules, 'kinesis_source.demo' in sys.modules)"
    )
    assert printed.split() == ["False", "False"]


def test_the_local_stream_needs_no_pyspark() -> None:
    assert python(
        "import sys, kinesis_source.testing; print('pyspark' in sys.modules)"
    ).split() == ["False"]


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for folder in PACKAGES
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.read_text(encoding="utf-8").strip()
        and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


@pytest.mark.parametrize("forbidden", ["utils", "helpers", "manager", "handler", "common"])
def test_no_module_has_a_name_that_says_nothing(forbidden: str) -> None:
    named = [p for folder in PACKAGES for p in (ROOT / folder).rglob(f"*{forbidden}*.py")]
    assert named == []
