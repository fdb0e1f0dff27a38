"""The flags that commands share. A stream and a lease table are reached by the connector's own
options, the usual ones of which have a flag.

Credentials have no flag, since a command line is kept in the shell's history: the SDK's default
chain or `--profile` finds them. Who insists gives them as `--option awsSecretKey=…`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from kinesis_source.aws.session import Connection, connect
from kinesis_source.clock import Clock
from kinesis_source.options import Options
from kinesis_source.options.values import STREAM_ARN

#: Flag, the option that it stands for, and its help.
FLAGS = (
    ("--stream", "streamName", "The stream, by name or ARN."),
    ("--region", "region", "Its region. Without it: the ARN's, else this machine's own."),
    ("--endpoint-url", "endpointUrl", "Another address for Kinesis, such as a VPC endpoint."),
    ("--profile", "profile", "A profile of the AWS configuration files."),
    ("--role-arn", "roleArn", "A role to assume."),
)
TABLE_FLAGS = (
    ("--table-region", "leaseTableRegion", "The table's region. Without it: the stream's."),
    ("--table-endpoint-url", "leaseTableEndpointUrl", "Another address for DynamoDB."),
    ("--table-role-arn", "leaseTableRoleArn", "A role to assume for the table."),
)
#: Shards asked about at once.
_THREADS = 16

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
full = click.option("--full", is_flag=True, help="Whole numbers, where they are shortened.")


@dataclass(frozen=True, slots=True)
class StreamAccess:
    """What the command line says of the stream. `given`: texts by the names of the options."""

    given: Mapping[str, str]

    def options(self, arn: str | None = None) -> Options:
        """Checked; with name and region of the stream `arn` where the command line gives none.
        Raises `OptionError`, and `UsageError` where neither names a stream."""
        given = dict(self.given)
        names = {name.lower() for name in given}
        if arn is None and not names & {"streamname", "streamarn"}:
            raise click.UsageError("no stream is given; expected --stream NAME")
        parts = STREAM_ARN.fullmatch(arn) if arn is not None else None
        if parts is not None and "streamarn" not in names:
            # By name and region, as to give the ARN itself would change the host that is called.
            if "streamname" not in names:
                given["streamName"] = parts["name"]
            if "region" not in names:
                given["region"] = parts["region"]
        return Options.parse(given)


@contextmanager
def connected(options: Options, clock: Clock) -> Iterator[Connection]:
    """A connection, closed in the end. Raises `CredentialsError`."""
    connection = connect(options, "command", threads=_THREADS, clock=clock)
    try:
        yield connection
    finally:
        connection.close()


def stream_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags to a command, which takes them together as `access: StreamAccess`."""

    @functools.wraps(command)
    def collected(*args: Any, options: tuple[str, ...], **parameters: Any) -> None:
        given = _of_options(options)
        _add_flags(given, FLAGS, parameters)
        command(*args, access=StreamAccess(given), **parameters)

    decorated = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other option of format('kinesis'); may be repeated.",
    )(collected)
    return _with_flags(decorated, FLAGS)


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the argument TABLE and its flags to a command with `stream_options`, which must stand
    above; its `access` then has the table too, as the option `startFromLeaseTable`."""

    @functools.wraps(command)
    def collected(*args: Any, access: StreamAccess, table: str, **parameters: Any) -> None:
        given = {**access.given, "startFromLeaseTable": table}
        _add_flags(given, TABLE_FLAGS, parameters)
        command(*args, access=StreamAccess(given), table=table, **parameters)

    return click.argument("table")(_with_flags(collected, TABLE_FLAGS))


def _with_flags(
    command: Callable[..., None], flags: tuple[tuple[str, str, str], ...]
) -> Callable[..., None]:
    for flag, _, text in reversed(flags):
        command = click.option(flag, help=text)(command)
    return command


def _of_options(options: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals:
            # Not the text itself: it may be a secret.
            raise click.UsageError("--option: expected NAME=VALUE, found no '='")
        if name.lower() in {other.lower() for other in given}:
            raise click.UsageError(f"--option {name} is given twice")
        given[name] = value
    return given


def _add_flags(
    given: dict[str, str], flags: tuple[tuple[str, str, str], ...], parameters: dict[str, Any]
) -> None:
    """Move what the flags were given out of `parameters` into `given`."""
    for flag, name, _ in flags:
        value = parameters.pop(flag.lstrip("-").replace("-", "_"))
        if value is None:
            continue
        option = "streamARN" if flag == "--stream" and value.startswith("arn:") else name
        if option.lower() in {other.lower() for other in given}:
            raise click.UsageError(f"{flag} and --option {option} are both given; leave one out")
        given[option] = value
