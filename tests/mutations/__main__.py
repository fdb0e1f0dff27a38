"""Plant each mutation in a copy of the project, and see which test and which seed find it.

    python -m tests.mutations [--histories 300] [NAME …]

NAME: a part of a mutation's name. Prints a Markdown table; exits 1 if a mutation is found neither
by its tests nor by the histories.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutations.planted import MUTATIONS, Mutation

_ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("kinesis_source", "pyspark_kinesis", "tests", "pyproject.toml")
#: A mutation may make something wait for ever.
_TIMEOUT_S = 600


def plant(mutation: Mutation, root: Path) -> None:
    """Edit the copy in `root`. Raises `ValueError` if the code has changed since."""
    for name, before, after in mutation.edits:
        path = root / "kinesis_source" / name
        text = path.read_text()
        if text.count(before) != 1:
            raise ValueError(
                f"{mutation.name!r}: {name} has {text.count(before)} times, not once: {before!r}"
            )
        path.write_text(text.replace(before, after))


def copy_project(root: Path) -> None:
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / name)


def first_failing_test(mutation: Mutation, root: Path) -> str | None:
    """The test that fails first, as `file::test`; None if all pass."""
    out = _output(root, "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.tests.split())
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", out, re.MULTILINE)
    return found[1].removeprefix("tests/") if found else None


def first_failing_history(root: Path, histories: int) -> str | None:
    """The seed and the broken invariant; None if all histories pass."""
    seeds = f"0:{histories}"
    out = _output(root, "tests.support.soak", "--seeds", seeds, "--processes", "1", "--stop")
    found = re.search(r"^(\w+: .*)\nagain: .*--seeds (\d+):", out, re.MULTILINE)
    if found is None:
        return None
    verdict = re.search(r"\[[\w ]+\]|\w+(?=: )", found[1].removeprefix("Verdict: "))
    return f"seed {found[2]}: {verdict[0] if verdict else found[1]}"


def _output(root: Path, module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"FAILED {module} (more than {_TIMEOUT_S} s)"
    return done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--histories", type=int, default=300)
    arguments = parser.parse_args()
    print("| mutation | first test that fails | first history that fails |\n|---|---|---|")
    missed = 0
    for mutation in MUTATIONS:
        if arguments.names and not any(name in mutation.name for name in arguments.names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            copy_project(root)
            plant(mutation, root)
            test = first_failing_test(mutation, root)
            history = first_failing_history(root, arguments.histories)
        missed += test is None and history is None
        row = (mutation.name, f"`{test}`" if test else "none", history or "none")
        print("| " + " | ".join(row) + " |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
