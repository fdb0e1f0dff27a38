"""What survives a crash: Spark's checkpoint (two logs of text) and the sink's rows by batch."""

from __future__ import annotations

from collections import Counter
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

    `allow_loss` admits replays that lack rows, for histories in which the stream itself drops
    records between two attempts; a row that was not there before is never admitted.
    """

    allow_loss: bool = False
    batches: dict[int, list[Row]] = field(default_factory=dict)
    replays: int = 0

    def write(self, batch_id: int, rows: list[Row]) -> None:
        """Store all rows of a batch; raises `ReplayDiffers`.

        Compared without regard to order: which input partition a row comes in may change.
        """
        earlier = self.batches.get(batch_id)
        if earlier is not None:
            self.replays += 1
            check_same_rows(f"batch {batch_id}", earlier, rows, allow_loss=self.allow_loss)
        self.batches[batch_id] = rows


def check_same_rows(
    what: str, earlier: list[Row], later: list[Row], *, allow_loss: bool = False
) -> None:
    """Raise `ReplayDiffers` naming the first rows that only one of the two attempts has."""
    before, after = Counter(earlier), Counter(later)
    added, missing = after - before, before - after
    if added or (missing and not allow_loss):
        raise ReplayDiffers(
            f"{what}: the first attempt gave {len(earlier)} rows and the next {len(later)}; "
            f"missing {list(missing)[:3]!r}, added {list(added)[:3]!r}"
        )
