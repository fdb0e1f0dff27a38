"""From options to a connection: credentials, region, the SDK's client, threads for calls.

Runs on the driver and, with the driver's region, on executors; each makes its own connection, since
neither clients nor credentials that renew themselves can be pickled.

Credentials are, in this order: the options' keys, the option `profile`, the SDK's default chain
(environment, ~/.aws, web identity, the container's or machine's role). With `roleArn` they only
serve to assume that role. Roles, web identities and SSO renew themselves, and so does a
`credential_process` that gives an expiry; keys in a file or the environment are read once a
process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, TypeVar

from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, NoCredentialsError
from botocore.session import Session

from kinesis_source.aws.client import KinesisClient, StreamRef
from kinesis_source.aws.decode import install_decoders
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

    def make_client() -> Any:
        try:
            return _make_client(options, role, region, threads)
        except BotoCoreError as error:
            raise credentials_error(error, role) from None

    stream = StreamRef(options.stream_name, options.stream_arn)
    client = KinesisClient(make_client(), stream, clock, role, make_client)
    return Connection(client, clock, threads, client.close)


def _make_client(options: Options, role: ProcessRole, region: str | None, threads: int) -> Any:
    boto_client = sdk_client(options, "kinesis", role, region, options.endpoint_url, threads)
    install_decoders(boto_client)
    return boto_client


def sdk_client(
    options: Options,
    service: str,
    role: ProcessRole,
    region: str | None,
    endpoint_url: str | None,
    threads: int = 1,
) -> Any:
    """A client of the SDK for `service`, with the credentials of the options, which renew
    themselves where they can. `region` and `endpoint_url`: None for the options' or this machine's
    region and the service's own address; the options' `endpointUrl` is not looked at.

    Calls nothing but what the SDK needs to find credentials. Raises `CredentialsError` and the
    SDK's own `BotoCoreError`, which `credentials_error` explains.
    """
    session = _session(options)
    region = region or _region(options, session)
    if options.role_arn is not None:
        session = _assumed_role_session(options, session, region, role)
    return session.create_client(
        service, region_name=region, endpoint_url=endpoint_url, config=_config(role, threads)
    )


def resolve_region(options: Options) -> str:
    """The option's region, else the ARN's, else this machine's own. Raises `CredentialsError`.

    For the driver, which passes the result to the executors: they may be configured otherwise.
    """
    if options.region is not None:
        return options.region
    try:
        return _region(options, _session(options))
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


def _session(options: Options) -> Session:
    """The SDK's session with the options' profile or keys."""
    session = Session(profile=options.profile)
    if options.aws_access_key_id is not None and options.aws_secret_key is not None:
        token = options.aws_session_token
        session.set_credentials(
            options.aws_access_key_id.reveal(),
            options.aws_secret_key.reveal(),
            token.reveal() if token is not None else None,
        )
    return session


class _AssumedRole(CredentialProvider):  # type: ignore[misc]  # the SDK ships no types
    """The role of the options, assumed when first needed and again before it expires."""

    METHOD = "assume-role"

    def __init__(self, fetcher: AssumeRoleCredentialFetcher) -> None:
        super().__init__()
        self._fetcher = fetcher

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(
            refresh_using=self._fetcher.fetch_credentials, method=self.METHOD
        )


def _assumed_role_session(
    options: Options, source: Session, region: str, role: ProcessRole
) -> Session:
    """A session with the role of the options, assumed with the credentials of `source`."""
    source_credentials = source.get_credentials()
    if source_credentials is None:
        raise NoCredentialsError
    extra_args = {"RoleSessionName": options.role_session_name}
    if options.role_external_id is not None:
        extra_args["ExternalId"] = options.role_external_id
    fetcher = AssumeRoleCredentialFetcher(
        partial(source.create_client, region_name=region, config=_config(role, threads=1)),
        source_credentials,
        options.role_arn,
        extra_args,
    )
    session = Session(profile=options.profile)
    session.register_component("credential_provider", CredentialResolver([_AssumedRole(fetcher)]))
    return session


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
