"""Threads that are none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future


class InlineExecutor:
    """Runs what it is given at once, as the tests' clock does not wait for threads."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, fn: Callable[..., object], *arguments: object) -> Future[object]:
        done: Future[object] = Future()
        done.set_result(fn(*arguments))
        return done
