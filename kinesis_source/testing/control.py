"""Operations that make, change, describe and delete streams."""

from __future__ import annotations

import re
from typing import Literal

from kinesis_source.testing import service_error
from kinesis_source.testing.service import Answer, Call, ServiceState
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import Shard, Stream, TrimmedAnswer

MIN_RETENTION_HOURS = 24
MAX_RETENTION_HOURS = 8760
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_HASH_KEY = re.compile(r"0|[1-9]\d{0,38}")


def create_stream(state: ServiceState, call: Call) -> Answer:
    request = call.request
    name = request.get("StreamName")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise service_error.validation(
            name, "StreamName", "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
        )
    add_stream(
        state,
        name,
        request.get("ShardCount", 4),
        max_record_kib=request.get("MaxRecordSizeInKiB", 1024),
        null_keys=request.get("RecordDistributionStrategy") == "AUTO",
    )
    return {}


def add_stream(
    state: ServiceState,
    name: str,
    shard_count: object,
    *,
    max_record_kib: int = 1024,
    null_keys: bool = False,
    sequence_digits: Literal[55, 56] = 56,
    trimmed_answer: TrimmedAnswer | None = None,
) -> Stream:
    """A later stream of the same name is created at least a second after the earlier one, so
    that its creation time and its sequence numbers tell it apart."""
    now_ms = state.clock.now_ms()
    if not isinstance(shard_count, int) or shard_count < 1:
        raise service_error.validation(
            shard_count, "ShardCount", "have value greater than or equal to 1"
        )
    if not 1024 <= max_record_kib <= 10_240:
        raise service_error.validation(
            max_record_kib, "MaxRecordSizeInKiB", "have value between 1024 and 10240"
        )
    if state.find(name, now_ms) is not None:
        raise ServiceError(
            "ResourceInUseException",
            f"Stream {name} under account {state.account} already exists.",
        )
    earlier = [stream.created_ms for stream in state.streams_by_uid if stream.name == name]
    created_ms = max([now_ms, *(ms + 1000 for ms in earlier)])
    stream = Stream(
        name,
        state.arn_of(name),
        len(state.streams_by_uid),
        shard_count,
        created_ms,
        state.rng,
        max_record_kib=max_record_kib,
        null_keys=null_keys,
        sequence_digits=sequence_digits,
        trimmed_answer=trimmed_answer,
    )
    stream.creating_until_ms = now_ms + state.behaviour.create_ms
    state.streams[name] = stream
    state.streams_by_uid.append(stream)
    return stream


def delete_stream(state: ServiceState, call: Call) -> Answer:
    stream = state.find_stream(call.request, call.now_ms)
    stream.deleted_from_ms = call.now_ms
    return {}


def describe_stream_summary(state: ServiceState, call: Call) -> Answer:
    stream = state.find_stream(call.request, call.now_ms)
    error = service_error.limit_exceeded(stream.name, state.account)
    state.take_call(call, "describe_stream_summary_calls", (), error)
    summary = {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": stream.status(call.now_ms),
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "RetentionPeriodHours": stream.retention_hours,
        "StreamCreationTimestamp": stream.created_ms / 1000,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
        "OpenShardCount": len(stream.open),
        "ConsumerCount": 0,
        "MaxRecordSizeInKiB": stream.max_record_kib,
        "RecordDistributionStrategy": "AUTO" if stream.null_keys else "USER_PARTITION_KEY",
    }
    return {"StreamDescriptionSummary": summary}


def split_shard(state: ServiceState, call: Call) -> Answer:
    stream = state.active_stream(call.request, call.now_ms)
    shard = _shard_to_change(state, stream, call.request.get("ShardToSplit"), call.now_ms)
    at = call.request.get("NewStartingHashKey")
    if not isinstance(at, str) or not _HASH_KEY.fullmatch(at):
        raise service_error.validation(
            at, "NewStartingHashKey", r"satisfy regular expression pattern: 0|([1-9]\d{0,38})"
        )
    split(state, stream, shard, int(at), call.now_ms)
    return {}


def split(
    state: ServiceState, stream: Stream, shard: Shard, at: int, now_ms: int
) -> tuple[Shard, Shard]:
    whole = shard.hash_range
    _check_open(state, stream, shard)
    if not whole.start + 1 < at < whole.end:
        raise service_error.invalid_argument(
            f"NewStartingHashKey {at} used in SplitShard() on shard {shard.shard_id} in stream "
            f"{stream.name} under account {state.account} is not both greater than one plus the "
            f"shard's StartingHashKey {whole.start} and less than the shard's EndingHashKey "
            f"{whole.end}."
        )
    stream.updating_until_ms = now_ms + state.behaviour.reshard_ms
    return stream.split(shard, at, now_ms)


def merge_shards(state: ServiceState, call: Call) -> Answer:
    stream = state.active_stream(call.request, call.now_ms)
    first = _shard_to_change(state, stream, call.request.get("ShardToMerge"), call.now_ms)
    second = _shard_to_change(state, stream, call.request.get("AdjacentShardToMerge"), call.now_ms)
    merge(state, stream, first, second, call.now_ms)
    return {}


def merge(state: ServiceState, stream: Stream, first: Shard, second: Shard, now_ms: int) -> Shard:
    for shard in (first, second):
        _check_open(state, stream, shard)
    if first.hash_range.end + 1 != second.hash_range.start:
        raise service_error.invalid_argument(
            f"Shards {first.shard_id} and {second.shard_id} in stream {stream.name} under account "
            f"{state.account} are not an adjacent pair of shards eligible for merging"
        )
    stream.updating_until_ms = now_ms + state.behaviour.reshard_ms
    return stream.merge(first, second, now_ms)


def update_shard_count(state: ServiceState, call: Call) -> Answer:
    stream = state.active_stream(call.request, call.now_ms)
    current, target = len(stream.open), call.request.get("TargetShardCount")
    if call.request.get("ScalingType") != "UNIFORM_SCALING":
        raise service_error.validation(
            call.request.get("ScalingType"),
            "ScalingType",
            "satisfy enum value set: [UNIFORM_SCALING]",
        )
    if not isinstance(target, int) or target < 1:
        raise service_error.validation(
            target, "TargetShardCount", "have value greater than or equal to 1"
        )
    for wrong, words in (
        (target > 2 * current, "scale up over double"),
        (2 * target < current, "scale down below half"),
    ):
        if wrong:
            raise service_error.invalid_argument(
                f"UpdateShardCount cannot {words} your current open shard count. "
                f"Current open shard count: {current} Target shard count: {target}"
            )
    stream.rescale(target, call.now_ms)
    stream.updating_until_ms = call.now_ms + state.behaviour.reshard_ms
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardCount": current,
        "TargetShardCount": target,
    }


def increase_retention(state: ServiceState, call: Call) -> Answer:
    return _change_retention(state, call, "shorter", "Decrease")


def decrease_retention(state: ServiceState, call: Call) -> Answer:
    return _change_retention(state, call, "longer", "Increase")


def _change_retention(state: ServiceState, call: Call, wrong_way: str, other: str) -> Answer:
    """Raising revives nothing: what was trimmed up to now stays so (KINESIS.md, "Quotas")."""
    stream = state.active_stream(call.request, call.now_ms)
    hours = call.request.get("RetentionPeriodHours")
    if not isinstance(hours, int) or hours > MAX_RETENTION_HOURS:
        raise service_error.invalid_argument(
            f"Maximum allowed retention period is {MAX_RETENTION_HOURS} hours. Requested "
            f"retention period ({hours} hours) is too long."
        )
    if hours < MIN_RETENTION_HOURS:
        raise service_error.invalid_argument(
            f"Minimum allowed retention period is {MIN_RETENTION_HOURS} hours. Requested "
            f"retention period ({hours} hours) is too short."
        )
    current = stream.retention_hours
    if hours < current if wrong_way == "shorter" else hours > current:
        raise service_error.invalid_argument(
            f"Requested retention period ({hours} hours) for stream {stream.name} can not be "
            f"{wrong_way} than existing retention period ({current} hours). "
            f"Use {other}RetentionPeriod API."
        )
    stream.change_retention(hours, call.now_ms)
    return {}


def _shard_to_change(state: ServiceState, stream: Stream, shard_id: object, now_ms: int) -> Shard:
    shard = stream.shard(str(shard_id), now_ms)
    if shard is None:
        raise ServiceError(
            "ResourceNotFoundException",
            f"Could not find shard {shard_id} in stream {stream.name} under account "
            f"{state.account}.",
        )
    return shard


def _check_open(state: ServiceState, stream: Stream, shard: Shard) -> None:
    if shard.closed_ms is not None:
        raise service_error.invalid_argument(
            f"Shard {shard.shard_id} in stream {stream.name} under account {state.account} has "
            "already been merged or split, and thus is not eligible for merging or splitting."
        )
