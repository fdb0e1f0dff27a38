"""`python -m tests.crash --kills N [--seed S] [--folder F]`; status 0 only if all is well."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.crash.run import CLOCK, CrashRun, plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--folder", type=Path, help="a new one, for what Spark writes; kept")
    arguments = parser.parse_args()
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    if arguments.folder is None:
        folder = Path(tempfile.mkdtemp(prefix="kinesis-crash-"))
    else:
        folder = arguments.folder
        # Never one of an earlier run, whose Spark may still be writing there.
        folder.mkdir(parents=True)
    begun = CLOCK.monotonic()

    def say(line: str) -> None:
        print(f"{CLOCK.monotonic() - begun:7.1f} s  {line}", flush=True)

    say(f"seed {seed}, {arguments.kills} kills, in {folder}")
    try:
        results = CrashRun(folder, seed, say).run(plan(arguments.kills, random.Random(seed)))
    except AssertionError as error:
        say(f"FAILED (seed {seed}): {error}")
        return 1
    for name, result in results.items():
        say(f"{name}: {result}")
    if not all(result.passed for result in results.values()):
        say(f"FAILED (seed {seed}): see the counts above and {folder}")
        return 1
    say("Every record once, in order, in both sinks.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
