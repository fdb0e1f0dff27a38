"""Many random histories in parallel processes.

    python -m tests.support.soak --seeds 0:1000 [--processes 2] [--shrink] [--stop]

Prints what happened in all and each failure with its seed and steps; exits 1 if there was one, or
if the connector alone exceeded a quota in more than 1 call of 100.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.support.generation import generate
from tests.support.histories import HistoryFailed, run
from tests.support.shrink import shrink

#: Seeds of one piece of work; small enough that processes end together.
_CHUNK = 20

#: Calls from which on the share of throttles means something.
_ENOUGH_CALLS = 2_000

#: Histories between two lines of progress.
_REPORT_EVERY = 1_000


def run_seeds(seeds: range, shrinking: bool = False) -> tuple[Counter[str], list[str]]:
    """The tally of all histories that passed, and the report of each that did not.

    The connector's lines are not shown meanwhile, or they would be the larger part of the time.
    """
    logger = logging.getLogger("kinesis_source")
    before = logger.level, logger.propagate
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        return _run_seeds(seeds, shrinking)
    finally:
        logger.level, logger.propagate = before


def _run_seeds(seeds: range, shrinking: bool) -> tuple[Counter[str], list[str]]:
    tally: Counter[str] = Counter()
    failures: list[str] = []
    for seed in seeds:
        try:
            tally += run(generate(seed))
        except HistoryFailed as failure:
            failures.append(str(shrink(failure) if shrinking else failure))
    return tally, failures


def exceeds_budget(tally: Counter[str]) -> bool:
    """Whether the connector, alone on its streams, exceeded a quota in more than 1 call of 100;
    too few calls say nothing."""
    calls = tally["calls with quotas"]
    return calls >= _ENOUGH_CALLS and tally["throttled with quotas"] * 100 > calls


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.soak", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="A:B, B exclusive")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--shrink", action="store_true", help="make failing histories small")
    parser.add_argument("--stop", action="store_true", help="end after the first failure")
    parser.add_argument("--show", type=int, default=10, help="failures to print in full")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    chunks = [range(at, min(at + _CHUNK, last)) for at in range(first, last, _CHUNK)]
    tally: Counter[str] = Counter()
    failed = 0
    with ProcessPoolExecutor(arguments.processes) as pool:
        results = pool.map(run_seeds, chunks, [arguments.shrink] * len(chunks))
        for chunk, (counts, failures) in zip(chunks, results, strict=True):
            tally += counts
            for failure in failures:
                failed += 1
                if failed <= arguments.show:
                    print(failure, end="\n\n", flush=True)
            if chunk.stop % _REPORT_EVERY == 0:
                print(f"{chunk.stop - first} histories, {failed} failed", flush=True)
            if failed and arguments.stop:
                pool.shutdown(cancel_futures=True)
                return 1
    print(", ".join(f"{name}: {count}" for name, count in sorted(tally.items())))
    print(f"{last - first} histories, {failed} failed")
    over = exceeds_budget(tally)
    if over:
        print("too many throttles")
    return 1 if failed or over else 0


if __name__ == "__main__":
    sys.exit(main())
