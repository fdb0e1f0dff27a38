"""The options of a query: `Options.parse` of what Spark gives.

Runs on the driver when the query starts; `Options` is pickled to the planner process and to
executors. The options themselves are declared in `declaration`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinesis_source.core.starting_position import PerShard, StartingPosition
from kinesis_source.errors import OptionError
from kinesis_source.options.declaration import OPTIONS, OptionSpec, options_table
from kinesis_source.options.values import STREAM_ARN, Secret, parse_secret

__all__ = ["OPTIONS", "OptionSpec", "Options", "Secret", "options_table"]

_BY_LOWER_NAME = {spec.name.lower(): spec for spec in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options, checked alone and against each other; made by `parse`.

    `stream_name` is always set, `stream_arn` only if the user gave it. `region` is the option's or
    the ARN's; None if neither says. Times in milliseconds, sizes in bytes, rates in bytes a second.
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
    profile: str | None
    aws_access_key_id: Secret | None
    aws_secret_key: Secret | None
    aws_session_token: Secret | None

    @staticmethod
    def parse(given: Mapping[str, str]) -> Options:
        """From Spark's map of options; names in any letter case. Raises `OptionError`."""
        texts = {_spec_of(name).name: text for name, text in given.items()}
        if "startFromLeaseTable" in texts:
            texts = {"startingPosition": "TRIM_HORIZON", **texts}
        values = {spec.field: _value_of(spec, texts.get(spec.name)) for spec in OPTIONS}
        _complete_stream(values)
        _check_lease_tables(texts, values)
        _check_data_loss(values)
        _check_credentials(texts)
        return Options(**values)


def _spec_of(name: str) -> OptionSpec:
    spec = _BY_LOWER_NAME.get(name.lower())
    if spec is not None:
        return spec
    if name.lower() == "path":
        raise OptionError("kinesis takes no path: call load() without one and set streamName")
    near = difflib.get_close_matches(name.lower(), _BY_LOWER_NAME, n=1)
    if near:
        raise OptionError(
            f"unknown option {name!r}; did you mean {_BY_LOWER_NAME[near[0]].name!r}?"
        )
    known = ", ".join(spec.name for spec in OPTIONS)
    raise OptionError(f"unknown option {name!r}; expected one of {known}")


def _value_of(spec: OptionSpec, text: str | None) -> Any:
    if text is None:
        text = spec.default
    if text is None:
        return None
    try:
        return spec.parse(text)
    except ValueError as error:
        # A URL may hold a password before the @.
        shown = "***" if spec.parse is parse_secret else re.sub("//.*@", "//***@", text)
        raise OptionError(f"option {spec.name}: found {shown!r}; {error}") from None


def _complete_stream(values: dict[str, Any]) -> None:
    """Take name and region from the ARN, or check that they agree with it."""
    arn = values["stream_arn"]
    if arn is None:
        if values["stream_name"] is None:
            raise OptionError("no stream is given; expected the option streamName or streamARN")
        return
    parts = STREAM_ARN.fullmatch(arn)
    assert parts is not None  # parsed before
    for field, name, part in (
        ("stream_name", "streamName", parts["name"]),
        ("region", "region", parts["region"]),
    ):
        if values[field] not in (None, part):
            raise OptionError(
                f"{name} is {values[field]!r}, but streamARN says {part!r}; "
                f"expected them to agree. Leave {name} out, the ARN is enough"
            )
        values[field] = part


def _check_lease_tables(texts: Mapping[str, str], values: Mapping[str, Any]) -> None:
    tables = ("startFromLeaseTable", "writeLeaseTable")
    for name in ("leaseTableRegion", "leaseTableEndpointUrl", "leaseTableRoleArn"):
        if name in texts and not any(table in texts for table in tables):
            raise OptionError(f"{name} is given without a table; expected {' or '.join(tables)}")
    if tables[0] in texts and isinstance(values["starting_position"], PerShard):
        raise OptionError(
            "startingPosition names single shards, and so does the table of startFromLeaseTable; "
            "expected one of them"
        )


def _check_data_loss(values: Mapping[str, Any]) -> None:
    if values["accept_data_loss_until_ms"] is not None and not values["fail_on_data_loss"]:
        raise OptionError(
            "failOnDataLoss is false, which accepts all losses, and acceptDataLossUntil is given; "
            "expected one of them"
        )


def _check_credentials(texts: Mapping[str, str]) -> None:
    for name, needed in (
        ("awsAccessKeyId", "awsSecretKey"),
        ("awsSecretKey", "awsAccessKeyId"),
        ("awsSessionToken", "awsAccessKeyId"),
        ("roleExternalId", "roleArn"),
        ("roleSessionName", "roleArn"),
    ):
        if name in texts and needed not in texts:
            raise OptionError(f"{name} is given without {needed}; expected {needed} too")
    if "awsAccessKeyId" in texts and "profile" in texts:
        raise OptionError("awsAccessKeyId and profile are both given; expected one of them")
