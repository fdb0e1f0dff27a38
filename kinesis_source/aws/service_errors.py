"""What went wrong in an SDK call, as an error of this package: one table for all callers.

Texts of the SDK and the service are passed on only where they cannot hold a credential: a refused
signature, for instance, is answered with the request's headers, a token among them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from kinesis_source.aws.service_clock import parse_date_ms
from kinesis_source.errors import (
    AccessDeniedError,
    CredentialsError,
    ExpiredIteratorError,
    InvalidArgumentError,
    KinesisSourceError,
    ResourceNotFoundError,
    ServiceError,
    TransientServiceError,
)

#: What an SDK call may raise, and `translate` takes. UnicodeDecodeError: the SDK's parser, on an
#: error answer that is no text. Not Exception, so that a fault of ours shows as itself.
CALL_FAILURES = (
    sdk.BotoCoreError,
    sdk.ClientError,
    ResponseParserError,
    msgspec.DecodeError,
    UnicodeDecodeError,
)

_THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
    }
)
_TRANSIENT = frozenset(
    {
        "InternalFailure",
        "InternalFailureException",
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        # ListShards while the stream changes state (API reference, ListShards, Errors).
        "ResourceInUseException",
        # Paging that its caller has not been able to finish.
        "ExpiredNextTokenException",
    }
)
_INVALID = frozenset({"InvalidArgumentException", "ValidationException"})
_KEY_UNUSABLE = frozenset(
    {
        "KMSAccessDeniedException",
        "KMSDisabledException",
        "KMSInvalidStateException",
        "KMSNotFoundException",
        "KMSOptInRequired",
    }
)
_ACCESS_DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
_EXPIRED_TOKEN = frozenset({"ExpiredToken", "ExpiredTokenException"})
_SIGNATURE_REFUSED = frozenset(
    {
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_NO_CREDENTIALS = (
    sdk.ConfigParseError,
    sdk.CredentialRetrievalError,
    sdk.InvalidConfigError,
    sdk.InvalidRegionError,
    sdk.MetadataRetrievalError,
    sdk.NoAuthTokenError,
    sdk.NoCredentialsError,
    sdk.NoRegionError,
    sdk.PartialCredentialsError,
    sdk.ProfileNotFound,
    sdk.RefreshWithMFAUnsupportedError,
    sdk.SSOError,
    sdk.TokenRetrievalError,
    sdk.UnknownCredentialError,
)
#: The service takes signatures up to five minutes off its clock; its Date is cut to whole seconds.
_CLOCK_OFF_S = 290
_KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[\w:/-]+")
# Their texts hold the endpoint (for a proxy the SDK masks the password) and nothing else.
_NETWORK_WITH_SAFE_TEXT = (
    sdk.ConnectionClosedError,
    sdk.ConnectionError,
    sdk.ReadTimeoutError,
)
_BROKEN_ANSWER = (
    sdk.IncompleteReadError,
    sdk.ResponseStreamingError,
    ResponseParserError,
    msgspec.DecodeError,
    UnicodeDecodeError,
)
_NETWORK = (*_NETWORK_WITH_SAFE_TEXT, sdk.HTTPClientError, *_BROKEN_ANSWER)


@dataclass(frozen=True, slots=True)
class Call:
    """Which call failed, for the messages."""

    operation: str
    stream: str
    shard_id: str | None = None
    role: str | None = None
    """Which process: `driver` or `executor`; None where that is not known."""
    resource: str = "the stream"
    """What a policy must allow the action on: an ARN, as far as it is known."""

    def __str__(self) -> str:
        shard = f", shard {self.shard_id}" if self.shard_id else ""
        return f"{self.operation} (stream {self.stream}{shard})"

    @property
    def action(self) -> str:
        """The action to allow."""
        return f"kinesis:{self.operation}"

    @property
    def also(self) -> str:
        """What else may be behind a refusal; begins with a comma or is empty."""
        return ""


@dataclass(frozen=True, slots=True)
class AssumeRoleCall(Call):
    """The call of STS behind the option `roleArn`; `resource` is the role."""

    has_external_id: bool = False

    def __str__(self) -> str:
        return f"AssumeRole (role {self.resource})"

    @property
    def action(self) -> str:
        return "sts:AssumeRole"

    @property
    def also(self) -> str:
        if self.has_external_id:
            return (
                ", and name them in the role's trust policy; the external id that it asks for must "
                "be that of roleExternalId"
            )
        return (
            ", and name them in the role's trust policy; if that asks for an external id, set "
            "roleExternalId"
        )


def translate(error: Exception, call: Call, now_ms: int | None = None) -> KinesisSourceError:
    """The error to raise `from None` in place of `error`, one of `CALL_FAILURES`. `now_ms`: this
    machine's clock when it came."""
    if isinstance(error, sdk.ClientError):
        return _of_answer(error, call, now_ms)
    if isinstance(error, _NO_CREDENTIALS):
        return credentials_error(error, call.role)
    if isinstance(error, _NETWORK):
        reason = type(error).__name__
        if isinstance(error, _NETWORK_WITH_SAFE_TEXT):
            reason += f": {error}"
        elif isinstance(error, (msgspec.DecodeError, UnicodeDecodeError)):
            reason = "the answer is cut short or is not the expected JSON"
        return TransientServiceError(
            f"{call}: {reason}",
            operation=call.operation,
            shard_id=call.shard_id,
            unreachable=not isinstance(error, _BROKEN_ANSWER),
        )
    return _service_error(ServiceError, call, f"{type(error).__name__}: {error}")


def incomplete_answer(call: Call, member: str) -> TransientServiceError:
    """For an answer that lacks what the service always sends: it was cut on its way."""
    return TransientServiceError(
        f"{call}: the answer is incomplete, it has no {member}",
        operation=call.operation,
        shard_id=call.shard_id,
    )


def credentials_error(error: Exception, role: str | None) -> CredentialsError:
    """For credentials, a profile or a region that are not there, or not any more."""
    return CredentialsError(
        f"no usable AWS credentials or region {_where(role)}: {type(error).__name__}: {error}. "
        "They come from the options or else from the SDK's default chain (environment, "
        "~/.aws, the machine's or pod's role), which every driver and executor needs"
    )


def _where(role: str | None) -> str:
    match role:
        case "driver":
            return "on the driver"
        case "executor":
            return "on an executor"
        case _:
            return "in this process"


def _service_error(cls: type[ServiceError], call: Call, reason: str) -> ServiceError:
    return cls(f"{call}: {reason}", operation=call.operation, shard_id=call.shard_id)


def _of_answer(error: sdk.ClientError, call: Call, now_ms: int | None) -> KinesisSourceError:
    """For an error answer of the service, or of the one that gives credentials for the call."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = str(error.response.get("Error", {}).get("Message", ""))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    reason = f"{code}: {message}"

    if code in _THROTTLES or code.startswith("Throttl") or status == 429:
        return TransientServiceError(
            f"{call}: {reason}",
            operation=call.operation,
            shard_id=call.shard_id,
            throttled=True,
        )
    if code in _TRANSIENT or status >= 500:
        return _service_error(TransientServiceError, call, reason)
    if code in _EXPIRED_TOKEN and error.operation_name == call.operation:
        return CredentialsError(
            f"{call}: the session token of the AWS credentials {_where(call.role)} has expired. "
            "Give credentials that renew themselves (a role, or roleArn) rather than a fixed token"
        )
    if code in _SIGNATURE_REFUSED:
        off = _clock_is_off(error, now_ms)
        if off is not None:
            return CredentialsError(
                f"{call}: {code}: {off}, and the service refuses what is signed more than 5 "
                f"minutes off its own time. Set the clock of the machine {_where(call.role)}, "
                "and keep it right by NTP"
            )
        return CredentialsError(
            f"{call}: {code}: the service does not accept the credentials {_where(call.role)}. "
            "Check the access key id, the secret key and the session token, that they belong to "
            "this partition and region, and that the machine's clock is right"
        )
    if code in _KEY_UNUSABLE:
        key = _KEY_ARN.search(message)
        return AccessDeniedError(
            f"{call}: {code}: the KMS key that encrypts the stream cannot be used"
            f"{f': {key[0]}' if key else ''}. It must be enabled. Allow the action kms:Decrypt on "
            f"it to the credentials {_where(call.role)}, in IAM and in the key's policy"
        )
    if error.operation_name != call.operation:
        # One that the SDK's own chain of credentials makes.
        action = f"sts:{error.operation_name}"
        if code in _ACCESS_DENIED:
            return AccessDeniedError(
                f"the credentials {_where(call.role)} may not call {error.operation_name}: "
                f"{message}. Allow {action} in their policy and in the role's trust policy"
            )
        return credentials_error(error, call.role)
    if code in _ACCESS_DENIED:
        return AccessDeniedError(
            f"{call}: {message}. Allow the action {call.action} on {call.resource} to the "
            f"credentials {_where(call.role)}{call.also}"
        )
    if isinstance(call, AssumeRoleCall):
        return credentials_error(error, call.role)
    if code == "ExpiredIteratorException":
        return _service_error(ExpiredIteratorError, call, reason)
    if code == "ResourceNotFoundException":
        return _service_error(ResourceNotFoundError, call, reason)
    if code in _INVALID:
        return _service_error(InvalidArgumentError, call, reason)
    return _service_error(ServiceError, call, reason)


def _clock_is_off(error: sdk.ClientError, now_ms: int | None) -> str | None:
    """By how much, in words, if it is more than the service lets pass."""
    metadata: dict[str, Any] = error.response.get("ResponseMetadata", {})
    date_ms = parse_date_ms(metadata.get("HTTPHeaders", {}).get("date", ""))
    if now_ms is None or date_ms is None:
        return None
    off_s = round((now_ms - date_ms) / 1000)
    if abs(off_s) < _CLOCK_OFF_S:
        return None
    way = "ahead of" if off_s > 0 else "behind"
    return f"this machine's clock is {abs(off_s):,} s {way} the service's"
