"""A KCL lease table in DynamoDB: one scan to read it, conditional updates to write it.

Runs on the driver and in the command line. pynamodb's connection is used below its models, since
rows of every version of the library must keep the attributes that are not known here.

A row is only written if nobody else has written it: a new one if there is none, an old one if its
counter is as it was read and no worker owns it or is being given it. So a running KCL
application is never overwritten. A stopped one leaves its workers' names behind; `release` takes
one away, for a caller that has seen that it does not write any more.

Permissions: dynamodb:Scan to read; dynamodb:UpdateItem and dynamodb:GetItem to write;
dynamodb:DescribeTable and dynamodb:CreateTable for `create`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection
from pynamodb.connection.base import MetaTable
from pynamodb.exceptions import PynamoDBException, TableDoesNotExist, VerboseClientError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path
from pynamodb.expressions.update import Action

from kinesis_source.aws.service_errors import (
    CALL_FAILURES,
    Call,
    credentials_error,
    incomplete_answer,
    translate,
)
from kinesis_source.aws.session import ProcessRole, sdk_client
from kinesis_source.clock import Clock, SystemClock
from kinesis_source.core.lease_rows import LeaseChange
from kinesis_source.core.leases import Lease, parse_lease, to_item
from kinesis_source.errors import (
    CredentialsError,
    LeaseTableError,
    TransientServiceError,
)
from kinesis_source.options import Options

_KEY = "leaseKey"
_SCHEMA = {
    "KeySchema": [{"AttributeName": _KEY, "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": _KEY, "AttributeType": "S"}],
}
#: What the library removes whenever it checkpoints.
_PENDING = ("pendingCheckpoint", "pendingCheckpointSubSequenceNumber", "pendingCheckpointState")
#: The action to allow, where it is not called as the operation is.
_ACTIONS = {"TransactWriteItems": "UpdateItem"}
_SECONDS_TO_CREATE = 60

Result = TypeVar("Result")


def open_lease_table(
    options: Options, name: str, role: ProcessRole = "driver", clock: Clock | None = None
) -> LeaseTable:
    """The table `name`, where the options `leaseTable…` say that it is, with the credentials of
    `options`. Without them: the stream's region and role, and DynamoDB's own address, as the
    stream's is Kinesis' alone.

    Calls nothing yet. Raises `CredentialsError`.
    """
    region, endpoint_url = options.lease_table_region, options.lease_table_endpoint_url
    table_clock: Clock = clock if clock is not None else SystemClock()
    if options.lease_table_role_arn is not None:
        options = replace(options, role_arn=options.lease_table_role_arn)

    def connect() -> Any:
        try:
            return sdk_client(options, "dynamodb", role, region, endpoint_url, table_clock)
        except BotoCoreError as error:
            raise credentials_error(error, role) from None

    return LeaseTable(name, connect, table_clock, role)


@dataclass(frozen=True, slots=True)
class _TableCall(Call):
    def __str__(self) -> str:
        return f"{self.operation} (lease table {self.stream})"

    @property
    def action(self) -> str:
        return f"dynamodb:{_ACTIONS.get(self.operation, self.operation)}"


class _Connection(Connection):
    """pynamodb's connection with a client made elsewhere: by itself it knows of no role or
    profile."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        self._made = client

    @property
    def client(self) -> Any:
        return self._made


class _RefusedError(Exception):
    """A condition was not met."""


class LeaseTable:
    """All methods raise `LeaseTableError`, `AccessDeniedError`, `CredentialsError` or
    `TransientServiceError` (throttled, unreachable: try again), nothing of the SDK's or pynamodb's.
    One caller at a time; not picklable."""

    def __init__(
        self, name: str, connect: Callable[[], Any], clock: Clock, role: ProcessRole
    ) -> None:
        """`connect`: makes a client of the SDK for DynamoDB, anew when its keys are refused."""
        self.name = name
        self._connect = connect
        self._clock = clock
        self._role = role
        self._connection = self._open()

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._connection.client.close()

    def read(self) -> list[Lease]:
        """All leases, in no order: one scan, in which each row is as it was last written. Rows
        that are no leases are left out."""
        parsed = (parse_lease(row) for row in self._rows())
        return [lease for lease in parsed if lease is not None]

    def write(self, lease: Lease, expected: Lease | None) -> None:
        """Make the row say what `lease` says, if the table still holds `expected` of it: no row for
        None, else one with its counter and without an owner. Other attributes stay.

        Raises `LeaseTableError` if it does not.
        """
        self.write_together([LeaseChange(lease, expected)])

    def write_together(self, changes: Sequence[LeaseChange]) -> None:
        """The same for several rows (at most 100): all of them or none."""
        try:
            if len(changes) == 1:
                self._update(changes[0].lease.lease_key, **_update_of(changes[0]))
            else:
                self._transact(changes)
        except _RefusedError:
            raise LeaseTableError(self._describe_refusal(changes)) from None

    def release(self, lease: Lease) -> None:
        """Take the owner out of the row, if nothing else has changed since it was read, as the
        library does with a lease that it takes from a worker. Raises `LeaseTableError`."""
        condition = Path("leaseCounter") == {"N": str(lease.counter)}
        actions = [
            Path("leaseOwner").remove(),
            Path("checkpointOwner").remove(),
            Path("leaseCounter").set({"N": str(lease.counter + 1)}),
        ]
        try:
            self._update(lease.lease_key, actions=actions, condition=condition)
        except _RefusedError:
            change = LeaseChange(lease, lease)
            raise LeaseTableError(self._describe_refusal([change])) from None

    def create(self) -> None:
        """Create the table if there is none, billed by request, and wait until it can be used.

        Its index on owners is left to the library, which adds it when it starts."""
        asked = False
        for _ in range(_SECONDS_TO_CREATE):
            status = self._status()
            if status in ("ACTIVE", "UPDATING"):
                return
            if status is None and not asked:
                self._answer("CreateTable", self._create)
                asked = True
            self._clock.sleep(1)
        raise TransientServiceError(
            f"lease table {self.name} is not ready {_SECONDS_TO_CREATE} s after it was created",
            operation="CreateTable",
        )

    # Calls

    def _rows(self) -> Iterator[dict[str, object]]:
        start: Any = None
        while True:
            answer = self._answer("Scan", partial(self._scan, start))
            if "Items" not in answer:
                raise incomplete_answer(_TableCall("Scan", self.name, role=self._role), "Items")
            yield from (_from_attributes(item) for item in answer["Items"])
            start = answer.get("LastEvaluatedKey")
            if not start:
                return

    def _scan(self, start: Any, connection: Connection) -> Any:
        return connection.scan(self.name, exclusive_start_key=start, consistent_read=True)

    def _get(self, lease_key: str, connection: Connection) -> Any:
        return connection.get_item(self.name, lease_key, consistent_read=True)

    def _create(self, connection: Connection) -> Any:
        return connection.create_table(
            self.name,
            key_schema=_SCHEMA["KeySchema"],
            attribute_definitions=_SCHEMA["AttributeDefinitions"],
            billing_mode="PAY_PER_REQUEST",
        )

    def _update(self, lease_key: str, *, actions: Sequence[Action], condition: Condition) -> None:
        self._answer(
            "UpdateItem",
            lambda c: c.update_item(self.name, lease_key, actions=actions, condition=condition),
        )

    def _transact(self, changes: Sequence[LeaseChange]) -> None:
        def call(connection: Connection) -> Any:
            items = [
                connection.get_operation_kwargs(self.name, c.lease.lease_key, **_update_of(c))
                for c in changes
            ]
            return connection.transact_write_items([], [], [], items)

        self._answer("TransactWriteItems", call)

    def _status(self) -> str | None:
        """None for no such table."""
        try:
            table = self._answer("DescribeTable", lambda c: c.describe_table(self.name))
        except TableDoesNotExist:
            return None
        return str(table["TableStatus"])

    def _describe_refusal(self, changes: Sequence[LeaseChange]) -> str:
        for change in changes:
            key = change.lease.lease_key
            answer = self._answer("GetItem", partial(self._get, key))
            item = answer.get("Item")
            found = parse_lease(_from_attributes(item)) if item else None
            if found is not None and found.owners:
                return (
                    f"lease table {self.name}, {key}: found owner {found.owners[0]!r}; expected "
                    "none. Nothing was written. Stop the KCL application that uses the table; if "
                    "it has stopped, its leases must be released first"
                )
            if _counter(found) != _counter(change.expected):
                return (
                    f"lease table {self.name}, {key}: found {_state(found)}; expected "
                    f"{_state(change.expected)}. Nothing was written: somebody else writes to the "
                    "table. See that no KCL application uses it, then read it again"
                )
        keys = ", ".join(change.lease.lease_key for change in changes)
        return (
            f"lease table {self.name}: {keys} changed while it was written; nothing was written. "
            "Read the table again"
        )

    def _open(self) -> _Connection:
        connection = _Connection(self._connect())
        connection.add_meta_table(MetaTable({"TableName": self.name, **_SCHEMA}))
        return connection

    def _answer(self, operation: str, call: Callable[[Connection], Result]) -> Result:
        """One call, again with new credentials if those that it has are refused."""
        try:
            return self._answer_once(operation, call)
        except CredentialsError:
            self._connection.client.close()
            self._connection = self._open()
        return self._answer_once(operation, call)

    def _answer_once(self, operation: str, call: Callable[[Connection], Result]) -> Result:
        try:
            return call(self._connection)
        except TableDoesNotExist:
            raise
        except (PynamoDBException, *CALL_FAILURES) as error:
            # `from None`: the SDK's errors hold the request, headers included.
            raise self._error(_cause(error), operation) from None

    def _error(self, error: Exception, operation: str) -> Exception:
        meta = self._connection.client.meta
        call = _TableCall(
            operation,
            self.name,
            role=self._role,
            resource=f"arn:{meta.partition}:dynamodb:{meta.region_name}:<account>:table/{self.name}",
        )
        if isinstance(error, ClientError) and error.operation_name == operation:
            translated = self._error_of_table(error, call)
            if translated is not None:
                return translated
        return translate(error, call, self._clock.now_ms())

    def _error_of_table(self, error: ClientError, call: Call) -> Exception | None:
        """What DynamoDB says otherwise than Kinesis."""
        answer = error.response.get("Error", {})
        code, message = str(answer.get("Code", "")), str(answer.get("Message", ""))
        reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", [])}
        if code == "ConditionalCheckFailedException" or "ConditionalCheckFailed" in reasons:
            return _RefusedError()
        if code in ("TransactionCanceledException", "TransactionConflictException"):
            return TransientServiceError(f"{call}: {message}", operation=call.operation)
        if code == "ResourceNotFoundException":
            region = self._connection.client.meta.region_name
            return LeaseTableError(
                f"{call}: found no table of this name in {region}; expected the KCL "
                "application's (its name is the application's). Check name, region and account"
            )
        if code == "ValidationException":
            return LeaseTableError(
                f"{call}: {message}. Expected a lease table, whose only key is {_KEY}"
            )
        return None


def _update_of(change: LeaseChange) -> dict[str, Any]:
    """Actions and condition of one row."""
    attributes = _to_attributes(to_item(change.lease))
    del attributes[_KEY]
    actions: list[Action] = [Path(name).set(value) for name, value in attributes.items()]
    if change.expected is None:
        return {"actions": actions, "condition": Path(_KEY).does_not_exist()}
    actions += [Path(name).remove() for name in _PENDING]
    condition = (
        (Path("leaseCounter") == {"N": str(change.expected.counter)})
        & Path("leaseOwner").does_not_exist()
        & Path("checkpointOwner").does_not_exist()
    )
    return {"actions": actions, "condition": condition}


def _cause(error: Exception) -> Exception:
    """The SDK's own error: pynamodb's copies lack the status and name another operation than the
    one that failed, where that was one to get credentials."""
    if isinstance(error, PynamoDBException) and error.cause is not None:
        error = error.cause
    if isinstance(error, VerboseClientError) and isinstance(error.__cause__, ClientError):
        error = error.__cause__
    return error


def _counter(lease: Lease | None) -> int | None:
    return None if lease is None else lease.counter


def _state(lease: Lease | None) -> str:
    if lease is None:
        return "no lease"
    return f"counter {lease.counter} at {lease.checkpoint}"


def _to_attributes(item: Mapping[str, str | int | frozenset[str]]) -> dict[str, dict[str, Any]]:
    return {name: _to_attribute(value) for name, value in item.items()}


def _to_attribute(value: str | int | frozenset[str]) -> dict[str, Any]:
    match value:
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case _:
            return {"SS": sorted(value)}


def _from_attributes(item: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    return {name: _from_attribute(value) for name, value in item.items()}


def _from_attribute(value: Mapping[str, Any]) -> object:
    match dict(value):
        case {"N": str(number)}:
            return int(number) if number.lstrip("-").isdecimal() else float(number)
        case {"SS": texts}:
            return set(texts)
        case {"S": plain} | {"B": plain}:
            return plain
    return dict(value)  # of other kinds only rows have any that are no leases
