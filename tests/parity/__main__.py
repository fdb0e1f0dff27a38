"""`python -m tests.parity --modules NODE_MODULES`: the history on all three streams.

Status 0 only if every difference is a known one. `--write-docs` writes `docs/parity.md` instead,
for which ours is enough.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tests.parity import emulators
from tests.parity.answers import Answers
from tests.parity.differences import as_markdown, unexpected
from tests.parity.stream_history import StreamHistory

DOCS = Path(__file__).parents[2] / "docs" / "parity.md"


def answers_of(service: Any) -> Answers:
    """`service`: a context manager that gives a client."""
    with service as client:
        return StreamHistory(client).play()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--modules", type=Path, help="the folder node_modules with both packages")
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    ours = answers_of(emulators.ours())
    if arguments.write_docs:
        DOCS.write_text(as_markdown(ours))
        return 0
    if arguments.modules is None:
        parser.error("--modules is missing")
    modules = arguments.modules.resolve()
    others = {
        emulators.KINESALITE: emulators.kinesalite(modules),
        emulators.KINESIS_LOCAL: emulators.kinesis_local(modules),
    }
    wrong = 0
    for name, service in others.items():
        theirs = answers_of(service)
        lines = list(unexpected(name, ours, theirs))
        same = sum(theirs.get(question) == answer for question, answer in ours.items())
        print(f"{name}: {same} of {len(ours)} answers are the same as ours, {len(lines)} unknown")
        print(*lines, sep="\n", end="\n" if lines else "")
        wrong += len(lines)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
