"""Runs the command lines of `sh` blocks: the project's own programs on a local stream.

`WORDS` are what a page puts for the reader's own names. Everything else of a line is run as it
stands, in this process where that is possible, so that a command that waits does so on a clock that
tests move.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from kinesis_source.cli.app import app
from kinesis_source.testing import ManualClock
from tests.docs.blocks import ROOT, Block
from tests.docs.elsewhere import COMMANDS

#: A page's words for the reader's own things; the values are what the fixture `services` made.
WORDS = ("TABLE", "STREAM", "CHECKPOINT", "s3://bucket/checkpoint")


class CannotRun(AssertionError):
    """There is no way to run this line."""


def command_lines(block: Block) -> list[str]:
    """Without comments; lines continued by a backslash are one."""
    lines = block.text.replace("\\\n", " ").splitlines()
    without_comments = (re.sub(r"(^|\s+)#.*$", "", line).strip() for line in lines)
    return [re.sub(r"\s+", " ", line) for line in without_comments if line]


def run_line(line: str, words: dict[str, str], clock: ManualClock) -> None:
    """Fails unless the command ends with status 0, or is declared to be run by another test."""
    if line in COMMANDS:
        return
    if unsupported := re.findall(r"[|<>;&`$]", line):
        raise CannotRun(f"{line}: the runner knows no {unsupported[0]!r}")
    arguments = [words.get(word, word) for word in shlex.split(line)]
    match arguments:
        case ["make", target]:
            _is_made_by_ci(target)
        case ["kinesis-source", *rest]:
            _run_command(rest, clock)
        case ["python", "-m", "kinesis_source.testing", *rest]:
            _run_server(rest)
        case _:
            raise CannotRun(f"{line}: not a program that this runner knows")


def _is_made_by_ci(target: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert target in targets, f"make {target}: no such target"
    steps = (ROOT / ".ci" / "run").read_text()
    if target != "ci" and not re.search(rf"^for step in .*\b{target}\b", steps, re.MULTILINE):
        raise CannotRun(f"make {target}: no step of .ci/run")


def _run_command(arguments: list[str], clock: ManualClock) -> None:
    ran = CliRunner().invoke(app, arguments, obj=clock, prog_name="kinesis-source")
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    assert ran.stdout


def _run_server(arguments: list[str]) -> None:
    """Start it on a free port, wait for its address, end it."""
    free = [re.sub(r"^4567$", "0", argument) for argument in arguments]
    command = [sys.executable, "-m", "kinesis_source.testing", *free]
    with subprocess.Popen(command, cwd=Path(ROOT), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert re.match(r"http://127\.0\.0\.1:\d+$", server.stdout.readline())
        finally:
            server.terminate()
