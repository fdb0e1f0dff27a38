"""Every error of the connector, as a tree by what its reader does next.

`KinesisSourceError`
    `ConfigurationError`     mend the options, the role or the stream, then start again
        `OptionError`, `StreamNotFoundError`, `StreamNotReadyError`, `AccessDeniedError`,
        `CredentialsError`, `LeaseTableError`
    `CheckpointError`        the Spark checkpoint and the stream do not belong together
        `OffsetFormatError`, `StreamRecreatedError`
    `DataLossError`          records are gone; decide with `failOnDataLoss`
    `ServiceError`           one call failed; callers inside the connector wait and try again
        `TransientServiceError`, `ExpiredIteratorError`, `ResourceNotFoundError`,
        `InvalidArgumentError`

Messages say what was found, what was expected and the way out, and never hold a credential.
All of them survive pickling: Spark carries them from a Python worker to the driver.
"""

from __future__ import annotations


class KinesisSourceError(Exception):
    """Base of all errors raised on purpose by this package."""


class ConfigurationError(KinesisSourceError):
    """The query cannot start as it is configured."""


class OptionError(ConfigurationError):
    """An option is unknown, missing, malformed or contradicts another."""


class StreamNotFoundError(ConfigurationError):
    """The stream does not exist in this account and region."""


class StreamNotReadyError(ConfigurationError):
    """The stream is being created or deleted."""


class AccessDeniedError(ConfigurationError):
    """The credentials are valid but may not make a call that the connector needs."""


class CredentialsError(ConfigurationError):
    """No usable credentials or region: none found, refused, expired, or a profile that is not
    there."""


class LeaseTableError(ConfigurationError):
    """A KCL lease table is not there, not the stream's, malformed, in use, or cannot say where to
    start."""


class CheckpointError(KinesisSourceError):
    """The Spark checkpoint cannot be continued on this stream by this version."""


class OffsetFormatError(CheckpointError):
    """An offset is malformed or of a version that this release does not know."""


class StreamRecreatedError(CheckpointError):
    """The stream is not the one of the offset: another one, or made again under its name."""


class DataLossError(KinesisSourceError):
    """Records that the query had still to read are no longer in the stream."""


class ServiceError(KinesisSourceError):
    """One call to Kinesis failed. `operation` and `shard_id` say which."""

    def __init__(self, message: str, *, operation: str = "", shard_id: str | None = None) -> None:
        super().__init__(message)
        self.operation = operation
        self.shard_id = shard_id

    def __reduce__(self) -> tuple[object, ...]:
        return (_service_error, (type(self), str(self), self.__dict__.copy()))


class TransientServiceError(ServiceError):
    """The same call may succeed later: a throttle, a 5xx, a reset, an incomplete answer.

    `throttled`: refused for rate. `unreachable`: nothing answered at all."""

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        shard_id: str | None = None,
        throttled: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message, operation=operation, shard_id=shard_id)
        self.throttled = throttled
        self.unreachable = unreachable


class ExpiredIteratorError(ServiceError):
    """The shard iterator is older than five minutes; a new one is needed."""


class ResourceNotFoundError(ServiceError):
    """The service knows no such stream or shard."""


class InvalidArgumentError(ServiceError):
    """The service refused an argument, for instance a sequence number it does not know."""


def _service_error(cls: type[ServiceError], message: str, state: dict[str, object]) -> ServiceError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error
