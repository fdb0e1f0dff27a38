"""The tests of `make test`, in two lanes: real Spark waits more than it works.

The first lane prints as it goes, the second when both are done. On two cores they take about as
long as each other.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from typing import IO

QUICK = "not (slow or cluster or matrix)"
#: Where the tests are that take most of real Spark's time besides tests/spark.
APART = ("tests/docs", "tests/project")
LANES = (
    [["-m", f"spark and {QUICK}", *(f"--ignore={folder}" for folder in APART)]],
    [["-m", f"not spark and {QUICK}"], ["-m", f"spark and {QUICK}", *APART]],
)


def run_lane(lane: list[list[str]], output: IO[bytes] | None, statuses: list[int]) -> None:
    for arguments in lane:
        command = [sys.executable, "-m", "pytest", "-q", *arguments]
        statuses.append(subprocess.run(command, stdout=output, stderr=output).returncode)


def main() -> int:
    statuses: list[int] = []
    first, second = LANES
    with tempfile.TemporaryFile() as log:
        beside = threading.Thread(target=run_lane, args=(second, log, statuses))
        beside.start()
        run_lane(first, None, statuses)
        beside.join()
        log.seek(0)
        sys.stdout.write(log.read().decode(errors="replace"))
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
