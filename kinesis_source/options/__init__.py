"""The options of a query: `Options.parse` of what Spark gives.

Runs on the driver when the query starts; `Options` is pickled to the planner process and to
executors. The options themselves are declared in `declaration`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinesis_source.core.starting_position import PerShard, StartingPosition
from kinesis_source.errors import OptionError
from kinesis_source.options.declaration import OPTIONS, OptionSpec, options_table
from kinesis_source.options.naming import Given, resolve_names
from kinesis_source.options.values import (
    STREAM_ARN,
    Secret,
    parse_endpoint_url,
    parse_secret,
    region_of_endpoint,
)

__all__ = ["OPTIONS", "OptionSpec", "Options", "Secret", "options_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options, checked alone and against each other; made by `parse`.

    `stream_name` is always set, `stream_arn` only if the user gave it. `region` is the option's,
    the ARN's or that of an AWS endpoint; None if none says. Times in
    milliseconds, sizes in bytes, rates in bytes a second.
    """

    stream_name: str
    stream_arn: str | None
    region: str | None
    endpoint_url: str | None
    starting_position: StartingPosition
    start_from_lease_table: str | None
    write_lease_table: str | None
    lease_table_region: str | None
    lease_table_endpoint_url: str | None
    lease_table_role_arn: str | None
    fail_on_data_loss: bool
    accept_data_loss_until_ms: int | None
    max_records_per_trigger: int | None
    max_bytes_per_trigger: int | None
    max_bytes_per_shard_per_trigger: int
    shards_per_task: int
    min_fetch_period_ms: int
    shard_fetch_interval_ms: int
    max_fetch_rate: int
    role_arn: str | None
    role_external_id: str | None
    role_session_name: str
    sts_endpoint_url: str | None
    profile: str | None
    aws_access_key_id: Secret | None
    aws_secret_key: Secret | None
    aws_session_token: Secret | None

    @staticmethod
    def parse(given: Mapping[str, str]) -> Options:
        """From Spark's map of options: our names or other connectors' (see `peers`), in any letter
        case. Raises `OptionError`."""
        options = resolve_names(given)
        if "startFromLeaseTable" in options and "startingPosition" not in options:
            options["startingPosition"] = Given("startingPosition", "TRIM_HORIZON")
        values = {spec.field: _value_of(spec, options.get(spec.name)) for spec in OPTIONS}
        _complete_stream(values, options)
        _check_start(options, values)
        _check_lease_tables(options, values)
        _check_data_loss(values)
        _check_credentials(options)
        return Options(**values)


def _value_of(spec: OptionSpec, given: Given | None) -> Any:
    if given is None:
        return None if spec.default is None else spec.parse(spec.default)
    try:
        return spec.parse(given.text)
    except ValueError as error:
        shown = given.found
        if spec.parse is parse_secret:
            shown = "***"
        elif spec.parse is parse_endpoint_url:
            # It may hold a password before the @.
            shown = re.sub("^.*@", "***@", shown, flags=re.DOTALL)
        raise OptionError(f"option {given.said}: found {shown!r}; {error}") from None


def _complete_stream(values: dict[str, Any], options: Mapping[str, Given]) -> None:
    """Take name and region from the ARN, else the region from an AWS endpoint; or check that they
    agree with it."""
    arn, endpoint_url = values["stream_arn"], values["endpoint_url"]
    if arn is None and values["stream_name"] is None:
        raise OptionError("no stream is given; expected the option streamName or streamARN")
    if arn is not None:
        parts = STREAM_ARN.fullmatch(arn)
        assert parts is not None  # parsed before
        said = options["streamARN"].said
        for field, name, part in (
            ("stream_name", "streamName", parts["name"]),
            ("region", "region", parts["region"]),
        ):
            if values[field] not in (None, part):
                raise OptionError(
                    f"{options[name].said} is {values[field]!r}, but {said} says {part!r}; "
                    f"expected them to agree. Leave {options[name].said} out, the ARN is enough"
                )
            values[field] = part
    region = None if endpoint_url is None else region_of_endpoint(endpoint_url)
    if region is not None and values["region"] not in (None, region):
        said = options["endpointUrl"].said
        raise OptionError(
            f"the region is {values['region']!r}, but {said} is an address of {region!r}; "
            f"expected them to agree. Leave {said} out, or give that of the stream's region"
        )
    values["region"] = values["region"] or region


def _check_start(options: Mapping[str, Given], values: Mapping[str, Any]) -> None:
    start = values["starting_position"]
    if isinstance(start, PerShard) and start.stream_name not in (None, values["stream_name"]):
        raise OptionError(
            f"{options['startingPosition'].said} is an offset of the stream {start.stream_name!r}; "
            f"expected one of {values['stream_name']!r}"
        )


def _check_lease_tables(options: Mapping[str, Given], values: Mapping[str, Any]) -> None:
    tables = ("startFromLeaseTable", "writeLeaseTable")
    for name in ("leaseTableRegion", "leaseTableEndpointUrl", "leaseTableRoleArn"):
        if name in options and not any(table in options for table in tables):
            raise OptionError(f"{name} is given without a table; expected {' or '.join(tables)}")
    if tables[0] in options and isinstance(values["starting_position"], PerShard):
        raise OptionError(
            f"{options['startingPosition'].said} names single shards, and so does the table of "
            "startFromLeaseTable; expected one of them"
        )


def _check_data_loss(values: Mapping[str, Any]) -> None:
    if values["accept_data_loss_until_ms"] is not None and not values["fail_on_data_loss"]:
        raise OptionError(
            "failOnDataLoss is false, which accepts all losses, and acceptDataLossUntil is given; "
            "expected one of them"
        )


def _check_credentials(options: Mapping[str, Given]) -> None:
    for name, needed in (
        ("awsAccessKeyId", "awsSecretKey"),
        ("awsSecretKey", "awsAccessKeyId"),
        ("awsSessionToken", "awsAccessKeyId"),
    ):
        if name in options and needed not in options:
            raise OptionError(
                f"{options[name].said} is given without {needed}; expected {needed} too"
            )
    for name in ("roleExternalId", "roleSessionName", "stsEndpointUrl"):
        if name in options and not {"roleArn", "leaseTableRoleArn"} & options.keys():
            raise OptionError(
                f"{options[name].said} is given without roleArn; expected roleArn too, or "
                "leaseTableRoleArn"
            )
    if "awsAccessKeyId" in options and "profile" in options:
        raise OptionError(
            f"{options['awsAccessKeyId'].said} and profile are both given; expected one of them"
        )
