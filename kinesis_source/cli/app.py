"""The commands of `kinesis-source`."""

from __future__ import annotations

from typing import Any

import click

from kinesis_source.cli import checkpoint_view, shards_view
from kinesis_source.cli.flags import StreamAccess, as_json, connected, full, stream_options
from kinesis_source.cli.lag import measure_lag
from kinesis_source.cli.lease_commands import leases
from kinesis_source.cli.printing import print_json
from kinesis_source.cli.progress import read_progress
from kinesis_source.cli.shard_listing import list_stream
from kinesis_source.clock import Clock, SystemClock
from kinesis_source.errors import (
    CredentialsError,
    KinesisSourceError,
    LeaseTableError,
    OptionError,
    TransientServiceError,
)
from kinesis_source.spark_checkpoint import open_checkpoint


class _Refusal(click.ClickException):
    """Something that the caller can mend: one message, no traceback."""

    exit_code = 2


class _App(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KinesisSourceError as error:
            raise _Refusal(str(error) + _way_out(error)) from None


def _way_out(error: KinesisSourceError) -> str:
    """What the messages, which are written for a query, call otherwise than the command line."""
    match error:
        case TransientServiceError():
            return (
                ". Check the network from here, and --region, --endpoint-url and "
                "--table-endpoint-url"
            )
        case CredentialsError():
            return ". Here: --region, --profile, or --option NAME=VALUE"
        case OptionError() | LeaseTableError():
            return ". Options of a query are given here as --option NAME=VALUE"
    return ""


@click.group(cls=_App, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def app(ctx: click.Context) -> None:
    """Look at Kinesis streams, at the Spark checkpoints of queries that read them, and at the lease
    tables of KCL applications.

    Nothing is written, except by leases write --yes. The exit status is 2 for whatever the caller
    can mend.
    """
    ctx.obj = ctx.obj or SystemClock()


app.add_command(leases)


@app.command(short_help="A stream's shards as a tree.")
@stream_options
@click.option(
    "--records",
    is_flag=True,
    help="Also read the first and the last record of each shard, for their numbers and times. "
    "Takes up to ten seconds and some of each shard's five GetRecords calls a second.",
)
@full
@as_json
@click.pass_obj
def shards(clock: Clock, access: StreamAccess, records: bool, full: bool, as_json: bool) -> None:
    """Show a stream's shards as a tree: what came from what, and what is open, closed or gone."""
    with connected(access.options(), clock) as connection:
        listing = list_stream(connection, records)
    if as_json:
        print_json(listing.as_json())
    else:
        shards_view.show(listing, full)


@app.command(short_help="How far a query has read, by its Spark checkpoint.")
@click.argument("path")
@click.option(
    "--source",
    metavar="N",
    help="Which source of a query with several: its place, from 0, or its name.",
)
@click.option(
    "--lag",
    is_flag=True,
    help="Also ask the service how far behind each shard is and what may expire. Takes one to five "
    "of each shard's five GetRecords calls a second.",
)
@stream_options
@full
@as_json
@click.pass_obj
def checkpoint(
    clock: Clock,
    path: str,
    source: str | None,
    lag: bool,
    access: StreamAccess,
    full: bool,
    as_json: bool,
) -> None:
    """Show how far a query has read: the offsets in its Spark checkpoint.

    PATH is the query's checkpointLocation: a local folder, or a URI such as s3://, hdfs://, gs://
    or abfss://, read with that store's default credentials. The options about a stream are for
    --lag, which otherwise asks the stream that the checkpoint names.
    """
    progress = read_progress(open_checkpoint(path), source)
    measured = None
    if lag:
        stream = progress.latest.offset.stream
        with connected(access.options(stream.arn), clock) as connection:
            measured = measure_lag(connection, stream, progress.places)
    if as_json:
        document = progress.as_json()
        if measured is not None:
            document["lag"] = measured.as_json()
        print_json(document)
    else:
        checkpoint_view.show(progress, measured, clock.now_ms(), full)
