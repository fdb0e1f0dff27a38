"""What survives a crash: Spark's checkpoint (two logs of text) and the sink's rows by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

#: One row as the sink gets it, in the order of the schema; timestamps as integer microseconds.
Row = tuple[object, ...]


@dataclass
class Checkpoint:
    """The offset log and the commit log, by batch id, from 0 without gaps."""

    offsets: dict[int, str] = field(default_factory=dict)
    commits: dict[int, str] = field(default_factory=dict)

    def last_offset(self) -> int | None:
        """The newest batch id in the offset log."""
        return max(self.offsets, default=None)

    def is_committed(self, batch_id: int) -> bool:
        return batch_id in self.commits


class ReplayDiffers(AssertionError):
    """A batch gave other rows than an earlier finished attempt of the same batch."""


@dataclass
class Sink:
    """Idempotent by batch id: writing a batch again replaces it, and must not change it.

    `may_lack` says which rows a replay may lack: those that the stream itself has trimmed since. A
    row that was not there before is never admitted.
    """

    may_lack: Callable[[Row], bool] = lambda row: False
    batches: dict[int, list[Row]] = field(default_factory=dict)
    replays: int = 0

    def write(self, batch_id: int, rows: list[Row]) -> None:
        """Store all rows of a batch; raises `ReplayDiffers`.

        Compared without regard to order: which input partition a row comes in may change.
        """
        earlier = self.batches.get(batch_id)
        if earlier is not None:
            self.replays += 1
            check_same_rows(f"batch {batch_id}", earlier, rows, self.may_lack)
        self.batches[batch_id] = rows


def check_same_rows(
    what: str,
    earlier: list[Row],
    later: list[Row],
    may_lack: Callable[[Row], bool] = lambda row: False,
) -> None:
    """Raise `ReplayDiffers` naming the first rows that only one of the two attempts has."""
    before, after = Counter(earlier), Counter(later)
    added = after - before
    missing = [row for row in before - after if not may_lack(row)]
    if added or missing:
        raise ReplayDiffers(
            f"{what}: the first attempt gave {len(earlier)} rows and the next {len(later)}; "
            f"missing {missing[:3]!r}, added {list(added)[:3]!r}"
        )
