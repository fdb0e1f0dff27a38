"""From options to a connection: credentials, region, the SDK's client, threads for calls.

Runs on the driver and, with the driver's region, on executors; each makes its own connection, since
neither clients nor credentials that renew themselves can be pickled.

Credentials are, in this order: the options' keys, the option `profile`, the SDK's default chain
(environment, ~/.aws, web identity, the container's or machine's role). With `roleArn` they only
serve to assume that role. Roles, web identities and SSO renew themselves, and so does a
`credential_process` that gives an expiry (`credentials`); keys in a file or the environment are
read by each connection, and again when they are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeVar

from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, Credentials
from botocore.exceptions import BotoCoreError
from botocore.loaders import Loader, create_loader
from botocore.session import Session

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.credentials import KeptCredentials, assume_role, load_credentials
from kinesis_source.aws.decode import install_decoders
from kinesis_source.aws.patience import FIRST_PATIENCE_S, PATIENCE_S, CredentialsPatience
from kinesis_source.aws.service_errors import credentials_error
from kinesis_source.clock import Clock, SystemClock
from kinesis_source.errors import CredentialsError
from kinesis_source.options import Options

#: `command`: the command line.
ProcessRole = Literal["driver", "executor", "command"]

#: Requests in one call and seconds without a byte before the SDK gives up on one. Few and short:
#: the callers wait and try again themselves, and on the driver other shards wait meanwhile.
_ATTEMPTS = {"driver": 2, "executor": 3, "command": 3}
_READ_TIMEOUT_S = {"driver": 15, "executor": 30, "command": 30}
_CONNECT_TIMEOUT_S = 5

#: Of this process, from one task to the next.
_KEPT = KeptCredentials()
#: What this process, of an executor, has had answers for.
_ANSWERED: set[Hashable] = set()

Item = TypeVar("Item")
Result = TypeVar("Result")


class Connection:
    """A client, the clock it lives by, and threads to make several calls at once."""

    def __init__(
        self,
        client: KinesisClient,
        clock: Clock,
        threads: int = 1,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.threads = threads
        self._on_close = on_close
        self._pool = (
            ThreadPoolExecutor(threads, thread_name_prefix="kinesis") if threads > 1 else None
        )

    def map(self, fn: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`fn` of each item, in the items' order; at most `threads` at once. With one thread they
        run in the caller's, one after the other. Raises what the first failing item raised."""
        if self._pool is None:
            return [fn(item) for item in items]
        return list(self._pool.map(fn, items))

    def close(self) -> None:
        """Idempotent; does not wait for calls that are under way."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._on_close is not None:
            self._on_close()


def connect(
    options: Options,
    role: ProcessRole,
    region: str | None = None,
    threads: int = 1,
    clock: Clock | None = None,
) -> Connection:
    """A connection for `threads` calls at once. `region`: what `resolve_region` gave on the driver;
    None resolves it here. `clock` is the machine's if not given.

    Reads configuration files; with the default chain it may ask the machine's or container's
    metadata service for credentials. Calls neither Kinesis nor STS.
    Raises `CredentialsError`.
    """
    clock = clock if clock is not None else SystemClock()
    made = 0

    def make_client() -> Any:
        nonlocal made
        made += 1
        try:
            boto_client = sdk_client(
                options, "kinesis", role, region, options.endpoint_url, clock, threads, made > 1
            )
        except BotoCoreError as error:
            raise credentials_error(error, role) from None
        install_decoders(boto_client)
        return boto_client

    stream = StreamRef(options.stream_name, options.stream_arn)
    patience = None
    if role != "command" and options.aws_access_key_id is None:
        patience = _patience(options, role, clock)
    # An executor makes its client when it reads, where it may wait for credentials.
    first = None if role == "executor" else make_client()
    client = KinesisClient(first, stream, clock, role, make_client, patience)
    return Connection(client, clock, threads, client.close)


def _patience(options: Options, role: ProcessRole, clock: Clock) -> CredentialsPatience:
    if role == "driver":
        return CredentialsPatience(clock)
    # Each task makes a connection; what counts is whether the process has had an answer.
    key = (options.stream_name, options.profile, options.role_arn)
    at_first_s = PATIENCE_S if key in _ANSWERED else FIRST_PATIENCE_S
    return CredentialsPatience(clock, at_first_s, lambda: _ANSWERED.add(key))


def sdk_client(
    options: Options,
    service: str,
    role: ProcessRole,
    region: str | None,
    endpoint_url: str | None,
    clock: Clock,
    threads: int = 1,
    fresh: bool = True,
) -> Any:
    """A client of the SDK for `service`, with the credentials of the options, which renew
    themselves where they can. `region` and `endpoint_url`: None for the options' or this machine's
    region and the service's own address; the options' `endpointUrl` is not looked at. `fresh`:
    not with credentials that an executor has kept.

    Calls nothing but what the SDK needs to find credentials. Raises `CredentialsError` and the
    SDK's own `BotoCoreError`, which `credentials_error` explains.
    """
    session = Session(profile=options.profile)
    session.register_component("data_loader", _model_loader())
    region = region or _region(options, session)
    credentials = _credentials(options, session, region, role, fresh, clock)
    provider = CredentialResolver([_Given(credentials)])
    session.register_component("credential_provider", provider)
    return session.create_client(
        service, region_name=region, endpoint_url=endpoint_url, config=_config(role, threads)
    )


@cache
def _model_loader() -> Loader:
    """The SDK's descriptions of services, read once a process: 55 ms of the 63 that a client takes
    to make, for each task."""
    return create_loader(Session().get_config_variable("data_path"))


def resolve_region(options: Options) -> str:
    """The option's region, else the ARN's, else this machine's own. Raises `CredentialsError`.

    For the driver, which passes the result to the executors: they may be configured otherwise.
    """
    if options.region is not None:
        return options.region
    try:
        return _region(options, Session(profile=options.profile))
    except BotoCoreError as error:
        raise credentials_error(error, "driver") from None


def _region(options: Options, session: Session) -> str:
    region: str | None = (
        options.region
        or session.get_config_variable("region")
        # Set in place of AWS_DEFAULT_REGION by Lambda, EMR and EKS; the SDK does not read it.
        or os.environ.get("AWS_REGION")
    )
    if region is None:
        raise CredentialsError(
            "no AWS region: neither the options nor this machine's AWS configuration name one. "
            "Set the option region, or AWS_REGION where the driver runs"
        )
    return region


class _Given(CredentialProvider):  # type: ignore[misc]  # the SDK ships no types
    """Has a session use credentials that are there already."""

    METHOD = "given"

    def __init__(self, credentials: Credentials | None) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> Credentials | None:
        return self._credentials


def _credentials(
    options: Options, session: Session, region: str, role: ProcessRole, fresh: bool, clock: Clock
) -> Credentials | None:
    """Those of the options. None if there are none, which the first call will say."""
    if role == "executor" and not fresh:
        kept = _KEPT.find(options, region)
        if kept is not None:
            return kept
    credentials = _keys(options) or load_credentials(options, session, region, role, clock)
    if options.role_arn is not None:
        sts_client = partial(
            session.create_client,
            "sts",
            region_name=region,
            endpoint_url=options.sts_endpoint_url,
            config=_config(role, threads=1),
        )
        credentials = assume_role(options, credentials, sts_client, role, clock)
    if role == "executor":
        _KEPT.keep(options, region, credentials)
    return credentials


def _keys(options: Options) -> Credentials | None:
    """The fixed ones of the options, if they have any."""
    if options.aws_access_key_id is None or options.aws_secret_key is None:
        return None
    token = options.aws_session_token
    return Credentials(
        options.aws_access_key_id.reveal(),
        options.aws_secret_key.reveal(),
        token.reveal() if token is not None else None,
    )


def _config(role: ProcessRole, threads: int) -> Config:
    return Config(
        user_agent_extra=f"pyspark-kinesis/{_version()}",
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS[role]},
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S[role],
        max_pool_connections=threads,
        tcp_keepalive=True,
    )


def _version() -> str:
    try:
        return version("pyspark-kinesis")
    except PackageNotFoundError:
        return "source"  # run from a checkout
