"""`kinesis-source leases show | export | write`: a KCL application's lease table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import click

from kinesis_source.aws.lease_table import LeaseTable, open_lease_table
from kinesis_source.cli import leases_view
from kinesis_source.cli.flags import (
    StreamAccess,
    as_json,
    connected,
    full,
    stream_options,
    table_options,
)
from kinesis_source.cli.lease_export import export_leases
from kinesis_source.cli.lease_survey import LIVE_CHECK_S, survey_leases
from kinesis_source.cli.lease_writing import (
    OWNER_GONE_S,
    check_owners,
    plan_writing,
    release,
    write,
)
from kinesis_source.cli.printing import print_json, print_text
from kinesis_source.cli.progress import read_progress
from kinesis_source.clock import Clock
from kinesis_source.core.lease_audit import NOTICES
from kinesis_source.core.leases import Lease
from kinesis_source.errors import CheckpointError, LeaseTableError
from kinesis_source.options import Options
from kinesis_source.spark_checkpoint import open_checkpoint


@click.group()
def leases() -> None:
    """Look at the lease table of a KCL or kinesis-asl application, start from it, write one.

    TABLE is the DynamoDB table; its name is the application's.
    """


def _open(options: Options, name: str, clock: Clock) -> LeaseTable:
    return open_lease_table(options, name, "command", clock)


@contextmanager
def _opened(options: Options, name: str, clock: Clock) -> Iterator[LeaseTable]:
    table = _open(options, name, clock)
    try:
        yield table
    finally:
        table.close()


@leases.command(short_help="A table as a tree of shards, and what is wrong with it.")
@stream_options
@table_options
@click.option(
    "--live",
    is_flag=True,
    help=f"Read the table again after {LIVE_CHECK_S} s, to see which owners are running.",
)
@full
@as_json
@click.pass_obj
def show(
    clock: Clock, access: StreamAccess, table: str, live: bool, full: bool, as_json: bool
) -> None:
    """Show the table as the tree of the stream's shards, and what is wrong with it.

    The exit status is 1 if something is, other than owners and leases without a time.
    """
    options = access.options()
    with connected(options, clock) as connection, _opened(options, table, clock) as lease_table:
        survey = survey_leases(connection, lease_table, live)
    if as_json:
        print_json(survey.as_json())
    else:
        leases_view.show_survey(survey, full)
    if any(finding.kind not in NOTICES for finding in survey.findings):
        sys.exit(1)


@leases.command(short_help="A table as the value of the option startingPosition.")
@stream_options
@table_options
@click.pass_obj
def export(clock: Clock, access: StreamAccess, table: str) -> None:
    """Print where a query would start that takes over from the table, as JSON for the option
    startingPosition. With the option startFromLeaseTable the same happens by itself.

    Leases that carry no time need --option startingPosition='AT_TIMESTAMP …'.
    """
    options = access.options()
    with connected(options, clock) as connection:
        print_text(str(export_leases(options, connection, partial(_open, options, table, clock))))


@leases.command("write", short_help="A Spark checkpoint's progress, into a table.")
@stream_options
@table_options
@click.argument("path")
@click.option("--source", metavar="N", help="Which source of a query with several.")
@click.option("--yes", is_flag=True, help="Write. Without it, only show what would be written.")
@click.option("--create", is_flag=True, help="Create the table if there is none.")
@click.option(
    "--release-owners",
    is_flag=True,
    help="Take out the names that stopped workers have left, if none of their leases moves for "
    f"{OWNER_GONE_S} s.",
)
@full
@as_json
@click.pass_obj
def write_command(
    clock: Clock,
    access: StreamAccess,
    table: str,
    path: str,
    source: str | None,
    yes: bool,
    create: bool,
    release_owners: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Write what a query has committed into a lease table, so that a KCL application of the table's
    name can go on from there. PATH is the query's checkpointLocation.

    Only shows what would be written, unless --yes is given. Stop the query first: what it commits
    afterwards is not in the table. Nothing is written over a lease that has an owner.
    """
    committed = read_progress(open_checkpoint(path), source).committed
    if committed is None:
        raise CheckpointError(
            f"{path} has no committed batch; expected one, as only what is committed is written"
        )
    options = access.options(committed.offset.stream.arn)
    with connected(options, clock) as connection, _opened(options, table, clock) as lease_table:
        if create and yes:
            lease_table.create()
        leases, problem = _leases(lease_table, may_be_missing=create and not yes)
        plan = plan_writing(connection, committed.offset, lease_table, leases)
        if plan.owned and release_owners and yes:
            if not as_json:
                print_text(f"Waiting {OWNER_GONE_S} s to see whether the owners still write …")
            release(connection, lease_table, plan.owned)
            plan = plan_writing(connection, committed.offset, lease_table, lease_table.read())
        if not as_json:
            leases_view.show_plan(plan, committed.batch, full)
        if yes:
            check_owners(plan)
            write(lease_table, plan)
    if as_json:
        print_json(plan.as_json(written=yes))
    else:
        leases_view.show_outcome(plan, yes, problem)


def _leases(table: LeaseTable, may_be_missing: bool) -> tuple[list[Lease], str | None]:
    """What the table holds; nothing, and why, for one that is still to be created."""
    try:
        return table.read(), None
    except LeaseTableError as error:
        if not may_be_missing:
            raise
        return [], str(error)
