"""The processes of a Spark driver, and killing some of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from contextlib import suppress
from enum import Enum


class Victim(Enum):
    """Who gets the SIGKILL. The driver's process group is Python and the JVM; its Python workers
    are left to find out, as on a real machine."""

    DRIVER = "driver"
    PLANNER = "planner"
    WORKERS = "all workers"
    WORKER = "one worker"


def find(driver: int, victim: Victim, rng: random.Random) -> list[int]:
    """Process ids below the driver's process; empty if there is none of that kind just now.

    A planner process belongs to one query: one of them is chosen.
    """
    assert driver > 1, "only what one driver has started is ever killed"
    if victim is Victim.DRIVER:
        return [driver]
    processes = descendants(driver)
    if victim is Victim.PLANNER:
        planners = [pid for pid, (_, command) in processes.items() if "source_runner" in command]
        return [rng.choice(planners)] if planners else []
    daemons = {pid for pid, (_, command) in processes.items() if "pyspark.daemon" in command}
    workers = [pid for pid in daemons if processes[pid][0] in daemons]
    if victim is Victim.WORKER:
        return [rng.choice(workers)] if workers else []
    return sorted(daemons) if workers else []


def kill(pids: list[int], victim: Victim) -> bool:
    """SIGKILL; false if all of them had ended already."""
    killed = False
    for pid in pids:
        with suppress(ProcessLookupError):
            (os.killpg if victim is Victim.DRIVER else os.kill)(pid, signal.SIGKILL)
            killed = True
    return killed


def descendants(ancestor: int) -> dict[int, tuple[int, str]]:
    """Process id → (parent's, command line)."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    processes: dict[int, tuple[int, str]] = {}
    for line in listing.splitlines():
        pid, parent, command = line.split(maxsplit=2)
        processes[int(pid)] = (int(parent), command)
    below: dict[int, tuple[int, str]] = {}
    generation = {ancestor}
    while generation:
        children = {pid for pid, (parent, _) in processes.items() if parent in generation}
        below |= {pid: processes[pid] for pid in children}
        generation = children
    return below
