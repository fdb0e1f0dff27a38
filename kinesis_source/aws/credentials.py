"""Credentials that renew themselves: fetched seldom, by one thread, and kept while they are good.

The SDK asks for new ones at every look at credentials that have less than 10 minutes to live, and
looks twice a call: a session of 10 minutes or less costs two calls of STS for each of Kinesis,
one after the other, however many threads wait (botocore 1.44;
https://github.com/boto/botocore/issues/2189). Here they are asked for when half of their life is
over, whatever its length. A renewal that fails ends nothing before they expire.

On executors each task makes a connection, so there a process keeps its credentials from one task
to the next: Spark uses its Python workers again.

Keys that do not renew themselves (in options, the environment, a file) stay the SDK's.
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.credentials import (
    Credentials,
    ReadOnlyCredentials,
    RefreshableCredentials,
    create_credential_resolver,
)
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
)
from botocore.session import Session

from kinesis_source.aws.service_clock import parse_date_ms
from kinesis_source.aws.service_errors import CALL_FAILURES, AssumeRoleCall, Call, translate
from kinesis_source.clock import Clock
from kinesis_source.options import Options

logger = logging.getLogger(__name__)

#: After a fetch that failed, all threads are given its error for so long: a metadata service that
#: is down takes seconds to say nothing.
_PAUSE_S = 2.0
#: No session lives longer.
_LONGEST_LIFE_S = 12 * 3600
#: Of an executor's process, for as many kinds of options.
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Fetched:
    """Credentials and how long they still live."""

    keys: ReadOnlyCredentials = field(repr=False)
    life_s: float


@dataclass(frozen=True, slots=True)
class _Held:
    """Times of the monotonic clock."""

    keys: ReadOnlyCredentials = field(repr=False)
    renew_at: float
    good_until: float


class RenewedCredentials(Credentials):  # type: ignore[misc]  # the SDK ships no types
    """What clients of the SDK sign with. Thread-safe; not picklable."""

    def __init__(
        self, fetch: Callable[[], Fetched], method: str, description: str, clock: Clock
    ) -> None:
        """`fetch`: new ones, or an error that every use then raises while there are none. `method`:
        the SDK's word for where they come from. `description`: for a warning."""
        self.method = method
        self._fetch = fetch
        self._description = description
        self._clock = clock
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._failure: Exception | None = None
        self._pause_until = 0.0

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """May fetch. Raises what `fetch` raises once there are none that are good."""
        held, now = self._held, self._clock.monotonic()
        if held is not None and now < held.renew_at:
            return held.keys
        is_good = held is not None and now < held.good_until
        # While they are good, one thread renews them and the others go on.
        if self._lock.acquire(blocking=not is_good):
            try:
                held = self._renew()
            finally:
                self._lock.release()
        assert held is not None
        return held.keys

    @property
    def access_key(self) -> str | None:
        return self.get_frozen_credentials().access_key  # type: ignore[no-any-return]

    @property
    def secret_key(self) -> str | None:
        return self.get_frozen_credentials().secret_key  # type: ignore[no-any-return]

    @property
    def token(self) -> str | None:
        return self.get_frozen_credentials().token  # type: ignore[no-any-return]

    @property
    def account_id(self) -> None:
        """Not told, as the SDK would call DynamoDB at a host that begins with the account."""

    def _renew(self) -> _Held:
        """Under the lock."""
        held, now = self._held, self._clock.monotonic()
        if held is not None and now < held.renew_at:
            return held  # another thread has just done it
        if self._failure is not None and now < self._pause_until:
            raise self._failure
        try:
            fetched = self._fetch()
        except Exception as error:
            if held is not None and now < held.good_until:
                left_s = held.good_until - now
                logger.warning(
                    "%s could not be renewed, %.0f s before they expire; will try again: %s",
                    self._description,
                    left_s,
                    error,
                )
                self._held = replace(held, renew_at=now + max(_PAUSE_S, left_s / 4))
                return self._held
            self._failure = error
            self._pause_until = self._clock.monotonic() + _PAUSE_S
            raise
        self._failure = None
        self._held = _Held(fetched.keys, now + fetched.life_s / 2, now + fetched.life_s)
        return self._held


class _WithoutTraceback(logging.Filter):
    """The SDK logs a renewal that fails with its error, which may quote the request, keys and all;
    here the same is told in words of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return True


_WITHOUT_TRACEBACK = _WithoutTraceback()


def load_credentials(
    options: Options, session: Session, region: str, process: str, clock: Clock
) -> Credentials | None:
    """What the SDK's chain finds; None if nothing. It may ask a metadata service or run a process.
    `region`: whose STS the chain asks, where its configuration does not say. `process`: for
    messages.

    Raises the SDK's errors; what it gives raises ours."""
    logging.getLogger("botocore.credentials").addFilter(_WITHOUT_TRACEBACK)
    with _as_sdk_error("the default chain"):
        found = create_credential_resolver(session, region_name=region).load_credentials()
    if not isinstance(found, RefreshableCredentials):
        return found

    call = Call(f"credentials from {found.method}", options.stream_name, role=process)

    def fetch() -> Fetched:
        try:
            with _as_sdk_error(found.method):
                keys = found.get_frozen_credentials()
                if not all(isinstance(key, str) and key for key in (keys[0], keys[1])):
                    raise TypeError
        except CALL_FAILURES as error:
            raise translate(error, call, clock.now_ms()) from None
        # Whole seconds left: the first number of seconds in which they would expire.
        life_s = bisect_left(range(_LONGEST_LIFE_S), True, key=found.refresh_needed)
        return Fetched(keys, life_s)

    return RenewedCredentials(fetch, found.method, f"the credentials from {found.method}", clock)


def assume_role(
    options: Options,
    source: Credentials | None,
    sts_client: Callable[..., Any],
    process: str,
    clock: Clock,
) -> RenewedCredentials:
    """The role of the options, assumed with `source` when first needed. `sts_client`: makes a
    client for STS with the keys that it is given. `process`: for messages.

    Raises `NoCredentialsError` without a `source`.
    """
    if source is None:
        raise NoCredentialsError
    request = {"RoleArn": options.role_arn, "RoleSessionName": options.role_session_name}
    if options.role_external_id is not None:
        request["ExternalId"] = options.role_external_id
    call = AssumeRoleCall(
        "AssumeRole",
        options.stream_name,
        role=process,
        resource=str(options.role_arn),
        has_external_id=options.role_external_id is not None,
    )

    def fetch() -> Fetched:
        try:
            own = source.get_frozen_credentials()
            client = sts_client(
                aws_access_key_id=own.access_key,
                aws_secret_access_key=own.secret_key,
                aws_session_token=own.token,
            )
            with closing(client), _as_sdk_error("assume-role"):
                return _fetched(client.assume_role(**request), clock)
        except CALL_FAILURES as error:
            # `from None`: the SDK's errors hold the request, headers included.
            raise translate(error, call, clock.now_ms()) from None

    description = f"the credentials of the role {options.role_arn}"
    return RenewedCredentials(fetch, "assume-role", description, clock)


def _fetched(answer: Mapping[str, Any], clock: Clock) -> Fetched:
    """From STS's answer to AssumeRole."""
    given = answer["Credentials"]
    expires_ms = given["Expiration"].timestamp() * 1000
    # By the service's clock, since the machine's may be minutes off.
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    now_ms = parse_date_ms(date) or clock.now_ms()
    keys = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    return Fetched(keys.get_frozen_credentials(), max(0.0, (expires_ms - now_ms) / 1000))


@contextmanager
def _as_sdk_error(provider: str) -> Iterator[None]:
    """Makes one of the SDK's errors of what it lets through: a token file that is missing or empty
    while it is replaced, a process that cannot be run, new credentials that have expired, an answer
    that lacks something or is nothing of the kind (a proxy's page)."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        # Among them some that are an OSError or a ValueError, too.
        if not isinstance(error, ParamValidationError):
            raise
        raise CredentialRetrievalError(provider=provider, error_msg=str(error)) from None
    except (OSError, RuntimeError) as error:
        raise CredentialRetrievalError(
            provider=provider, error_msg=f"{type(error).__name__}: {error}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Its text may quote what was answered.
        raise CredentialRetrievalError(
            provider=provider,
            error_msg=f"{type(error).__name__}: what came is not credentials with an expiry",
        ) from None


class KeptCredentials:
    """The credentials of a process by what they were made from; the latest few. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Hashable, RenewedCredentials] = {}

    def find(self, options: Options, region: str) -> RenewedCredentials | None:
        with self._lock:
            return self._kept.get(_made_from(options, region))

    def keep(self, options: Options, region: str, credentials: Credentials | None) -> None:
        """In place of earlier ones. Keys that do not renew themselves are not kept: a file that
        somebody rotates is read again by each task."""
        key = _made_from(options, region)
        with self._lock:
            self._kept.pop(key, None)
            if isinstance(credentials, RenewedCredentials):
                self._kept[key] = credentials
                while len(self._kept) > _KEPT:
                    del self._kept[next(iter(self._kept))]


def _made_from(options: Options, region: str) -> Hashable:
    return (
        region,
        options.profile,
        options.aws_access_key_id,
        options.aws_secret_key,
        options.aws_session_token,
        options.role_arn,
        options.role_external_id,
        options.role_session_name,
        options.sts_endpoint_url,
        frozenset(item for item in os.environ.items() if item[0].startswith("AWS_")),
        _edition(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")),
        _edition(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")),
    )


def _edition(path: str) -> tuple[int, int] | None:
    """Another one after the file was changed; None if there is none."""
    try:
        found = os.stat(os.path.expanduser(path))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
