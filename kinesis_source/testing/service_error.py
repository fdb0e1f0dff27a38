"""How the local stream refuses: the error codes, statuses and texts of AWS.

Texts are those of kinesalite, whose test suite was run against AWS, and of the reports named
in KINESIS.md.
"""

from __future__ import annotations


class ServiceError(Exception):
    """An error answer of the service, before a face turns it into HTTP or a ClientError."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message, status)
        self.code = code
        self.message = message
        self.status = status

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def invalid_argument(message: str) -> ServiceError:
    return ServiceError("InvalidArgumentException", message)


def validation(value: object, field: str, constraint: str) -> ServiceError:
    """`constraint` continues "Member must …"."""
    return ServiceError(
        "ValidationException",
        f"1 validation error detected: Value '{value}' at '{field[0].lower()}{field[1:]}' "
        f"failed to satisfy constraint: Member must {constraint}",
    )


def stream_not_found(name: str, account: str) -> ServiceError:
    return ServiceError(
        "ResourceNotFoundException", f"Stream {name} under account {account} not found."
    )


def shard_not_found(shard_id: str, name: str, account: str) -> ServiceError:
    return ServiceError(
        "ResourceNotFoundException",
        f"Shard {shard_id} in stream {name} under account {account} does not exist",
    )


def stream_in_use(name: str, account: str, status: str) -> ServiceError:
    return ServiceError(
        "ResourceInUseException",
        f"Stream {name} under account {account} not ACTIVE, instead in state {status}",
    )


def throughput_exceeded(shard_id: str, name: str, account: str) -> ServiceError:
    return ServiceError(
        "ProvisionedThroughputExceededException",
        f"Rate exceeded for shard {shard_id} in stream {name} under account {account}.",
    )


def limit_exceeded(name: str, account: str) -> ServiceError:
    return ServiceError(
        "LimitExceededException", f"Rate exceeded for stream {name} under account {account}."
    )


def access_denied(operation: str, resource: str, account: str) -> ServiceError:
    return ServiceError(
        "AccessDeniedException",
        f"User: arn:aws:iam::{account}:user/local is not authorized to perform: "
        f"kinesis:{operation} on resource: {resource} because no identity-based policy "
        f"allows the kinesis:{operation} action",
    )
