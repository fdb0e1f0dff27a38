"""All Python blocks in one child process with one Spark: scripts as they stand (`scripts`), and
blocks that define tests by pytest, in a project of their own as a user has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.docs.blocks import ROOT, Block, all_blocks
from tests.docs.pins import is_run_elsewhere

_TEST = re.compile(r"^def test_\w+\(", re.MULTILINE)
_SCRIPTS = Path(__file__).with_name("script_blocks.py")


def python_blocks() -> list[Block]:
    return [b for b in all_blocks() if b.language == "python" and not is_run_elsewhere(b)]


def is_test(block: Block) -> bool:
    return _TEST.search(block.text) is not None


def script_blocks() -> list[Block]:
    return [block for block in python_blocks() if not is_test(block)]


@dataclass(frozen=True)
class Ran:
    """`problems`: by block what went wrong in it, "" if nothing did; a block that did not run is
    not there. `progress`: a progress report of one of the queries."""

    problems: dict[str, str]
    progress: dict[str, Any]


def run_python_blocks(folder: Path) -> Ran:
    project, report, progress = folder / "project", folder / "report.xml", folder / "progress.json"
    project.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n")
    files = {f"test_block_{number}": block for number, block in enumerate(python_blocks())}
    for name, block in files.items():
        if is_test(block):
            # The lines of a traceback are those of the page.
            (project / f"{name}.py").write_text("\n" * block.line + block.text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tests.docs.python_session", "--import-mode=importlib"]
    command += ["-c", "pytest.ini", f"--junitxml={report}", "--basetemp", str(folder / "temporary")]
    finished = subprocess.run(
        [*command, str(_SCRIPTS), str(project)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PROGRESS_FILE": str(progress)},
        capture_output=True,
        text=True,
    )
    ended = report.exists() and progress.exists()
    assert ended, finished.stdout + finished.stderr
    results: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"]
        # A file that cannot be imported is a case of its own name.
        module = case.attrib.get("classname", "").rpartition(".")[2] or name
        block_name = str(files[module]) if module in files else name[name.find("[") + 1 : -1]
        problems = [child for child in case if child.tag in ("failure", "error", "skipped")]
        text = "".join(f"{p.get('message')}\n{p.text}\n" for p in problems)
        results[block_name] = results.get(block_name, "") + text
    return Ran(results, json.loads(progress.read_text()))
