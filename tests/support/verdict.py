"""What a history fails with."""

from __future__ import annotations


class Verdict(AssertionError):
    """An invariant is broken; the message begins with its name."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"[{invariant}] {message}")
        self.invariant = invariant
