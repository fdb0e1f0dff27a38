"""What Spark itself has written down of a run: its event log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

#: In the configuration of a driver whose log is read. `spark.eventLog.dir` comes besides.
SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
#: Of an attempt whose end was not written down before the application's.
NO_END = "no end seen"


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task. `outcome`: Spark's word, "Success" if it went well, or
    `NO_END`."""

    stage: int
    partition: int
    attempt: int
    speculative: bool
    host: str
    outcome: str


def attempts(folder: Path) -> list[Attempt]:
    """Of all applications that wrote into the folder, in the order of their start."""
    found = {}
    for path in sorted(folder.iterdir()):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] in ("SparkListenerTaskStart", "SparkListenerTaskEnd"):
                info = event["Task Info"]
                found[path.name, info["Task ID"]] = Attempt(
                    event["Stage ID"],
                    info["Index"],
                    info["Attempt"],
                    info["Speculative"],
                    info["Host"],
                    event.get("Task End Reason", {}).get("Reason", NO_END),
                )
    return list(found.values())
