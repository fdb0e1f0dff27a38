"""Make a failing history small: leave out steps as long as it still fails in the same way."""

from __future__ import annotations

import dataclasses

from tests.support.histories import History, HistoryFailed, run
from tests.support.steps import Step
from tests.support.verdict import Verdict


def shrink(failure: HistoryFailed, most_runs: int = 300) -> HistoryFailed:
    """The smallest failure found. Steps are values that mean something alone, so any subset of a
    history is a history; blocks of half the steps are tried first, then smaller ones."""
    best = failure
    runs = 0
    size = len(_all_steps(failure.history)) // 2
    while size >= 1:
        at = 0
        while at < len(_all_steps(best.history)) and runs < most_runs:
            runs += 1
            smaller = _failure_of(_without(best.history, at, size))
            if smaller is not None and _kind(smaller) == _kind(failure):
                best = smaller
            else:
                at += size
        size //= 2
    return best


def _failure_of(history: History) -> HistoryFailed | None:
    try:
        run(history)
    except HistoryFailed as failure:
        return failure
    return None


def _kind(failure: HistoryFailed) -> object:
    error = failure.error
    if isinstance(error, Verdict):
        return error.invariant
    return type(error)


def _all_steps(history: History) -> tuple[Step, ...]:
    return history.prelude + history.steps


def _without(history: History, at: int, size: int) -> History:
    """Without `size` steps from index `at`, counted over prelude and steps."""
    split = len(history.prelude)
    kept = [
        (index < split, step)
        for index, step in enumerate(_all_steps(history))
        if not at <= index < at + size
    ]
    return dataclasses.replace(
        history,
        prelude=tuple(step for early, step in kept if early),
        steps=tuple(step for early, step in kept if not early),
    )
