"""How long a running query waits for credentials that do not work any more.

A file that is rotated late, a metadata service that restarts: for a while credentials are refused,
expired or not to be had, and a query that worked a moment ago would work again a minute later. So
a process that has had an answer from Kinesis takes such an error as an outage, which its callers
wait out with a warning once a minute, for five minutes.

What has never worked is a mistake and is raised at once: on the driver, and with keys given in the
options, which cannot renew themselves. A process of an executor is given 90 seconds before its
first answer: the driver has planned the batch with credentials of its own a moment before, and on a
cluster Spark tries a task four times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kinesis_source.aws.service_errors import Call
from kinesis_source.clock import Clock
from kinesis_source.errors import CredentialsError, TransientServiceError

PATIENCE_S = 300.0
FIRST_PATIENCE_S = 90.0


class CredentialsPatience:
    """Of one connection. Thread-safe."""

    def __init__(
        self,
        clock: Clock,
        at_first_s: float = 0.0,
        on_first_answer: Callable[[], object] = lambda: None,
    ) -> None:
        """`at_first_s`: how long to wait while there has been no answer at all."""
        self._clock = clock
        self._lock = threading.Lock()
        self._patience_s = at_first_s
        self._on_first_answer = on_first_answer
        self._since: float | None = None

    def answered(self) -> None:
        """The service has taken the credentials."""
        if self._since is not None or self._patience_s < PATIENCE_S:
            with self._lock:
                if self._patience_s < PATIENCE_S:
                    self._on_first_answer()
                self._patience_s = PATIENCE_S
                self._since = None

    def judge(
        self, error: CredentialsError, call: Call
    ) -> CredentialsError | TransientServiceError:
        """What to raise in place of `error`."""
        now = self._clock.monotonic()
        with self._lock:
            if self._since is None:
                self._since = now
            waited_s = now - self._since
            if waited_s < self._patience_s:
                return TransientServiceError(
                    f"{error}. Waiting for credentials that work, for up to "
                    f"{self._patience_s - waited_s:.0f} s more",
                    operation=call.operation,
                    shard_id=call.shard_id,
                )
        if waited_s:
            return CredentialsError(f"{error}. Waited {waited_s:.0f} s for credentials that work")
        return error
