"""PutRecord and PutRecords."""

from __future__ import annotations

from kinesis_source.core.hashkeys import MAX_HASH_KEY, hash_key_of
from kinesis_source.testing import service_error
from kinesis_source.testing.service import Answer, Call, Request, ServiceState
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import Record, Shard, Stream

MAX_PUT_RECORDS = 500
MAX_PUT_BYTES = 10 * 1024 * 1024
MAX_KEY_LENGTH = 256


def put_record(state: ServiceState, call: Call) -> Answer:
    stream = state.usable_stream(call.request, call.now_ms)
    _check_entry(stream, call.request)
    try:
        record = _put(state, call, stream, call.request)
    except ServiceError:
        state.throttled[call.operation, call.shard_id] += 1
        raise
    return {
        "ShardId": record.shard_id,
        "SequenceNumber": str(record.sequence_number),
        "EncryptionType": "NONE",
    }


def put_records(state: ServiceState, call: Call) -> Answer:
    """Records that exceed a shard's quota, or that a throttle fault picks, fail one by one."""
    stream = state.usable_stream(call.request, call.now_ms)
    entries = call.request.get("Records")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_PUT_RECORDS:
        raise service_error.validation(
            "[...]", "Records", f"have length between 1 and {MAX_PUT_RECORDS}"
        )
    size = 0
    for entry in entries:
        size += _check_entry(stream, entry)
    if size > MAX_PUT_BYTES:
        raise service_error.invalid_argument(
            f"Records size exceeds {MAX_PUT_BYTES // 2**20} MB limit"
        )
    struck: set[int] = set()
    if call.fault == "throttle":
        positions = range(len(entries))
        struck = set(state.rng.sample(positions, state.rng.randint(1, len(entries))))
    answers: list[Answer] = []
    failed = 0
    for number, entry in enumerate(entries):
        try:
            if number in struck:
                shard = _shard_for(stream, entry)
                raise service_error.throughput_exceeded(shard.shard_id, stream.name, state.account)
            record = _put(state, call, stream, entry)
        except ServiceError as error:
            failed += 1
            answers.append({"ErrorCode": error.code, "ErrorMessage": error.message})
        else:
            answers.append(
                {"SequenceNumber": str(record.sequence_number), "ShardId": record.shard_id}
            )
    if failed > len(struck):
        state.throttled[call.operation, call.shard_id] += 1
    return {"FailedRecordCount": failed, "Records": answers, "EncryptionType": "NONE"}


def _put(state: ServiceState, call: Call, stream: Stream, entry: Request) -> Record:
    """Raises ServiceError if the shard's quota is used up."""
    shard = _shard_for(stream, entry)
    key, data = entry.get("PartitionKey"), entry["Data"]
    record = Record(shard.shard_id, 0, key, data, call.now_ms)
    quotas = state.quotas
    if quotas is not None:
        scope, now_ms = (stream.uid, shard.index), call.now_ms
        wanted = (
            (("put_records", *scope), quotas.limits.put_records, 1),
            (("put_bytes", *scope), quotas.limits.put_bytes, record.size),
        )
        if not all(quotas.fits(name, limit, amount, now_ms) for name, limit, amount in wanted):
            raise service_error.throughput_exceeded(shard.shard_id, stream.name, state.account)
        for name, limit, amount in wanted:
            quotas.spend(name, limit, amount, now_ms)
    return append(state, stream, shard, data, key, call.now_ms)


def append(
    state: ServiceState,
    stream: Stream,
    shard: Shard,
    data: bytes,
    partition_key: str | None,
    now_ms: int,
) -> Record:
    """Accept a record that arrived now, give or take the jitter."""
    jitter_ms = state.behaviour.arrival_jitter_ms
    arrival_ms = now_ms - (state.rng.randint(0, jitter_ms) if jitter_ms else 0)
    return stream.put(shard, data, partition_key, arrival_ms)


def _shard_for(stream: Stream, entry: Request) -> Shard:
    explicit, key = entry.get("ExplicitHashKey"), entry.get("PartitionKey")
    if explicit is not None:
        return stream.shard_for(int(explicit))
    return stream.any_open_shard() if key is None else stream.shard_for(hash_key_of(key))


def _check_entry(stream: Stream, entry: Request) -> int:
    """Validate one record; its size in bytes."""
    key, data, explicit = entry.get("PartitionKey"), entry.get("Data"), entry.get("ExplicitHashKey")
    if key is None and not stream.null_keys:
        raise service_error.validation("null", "PartitionKey", "not be null")
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= MAX_KEY_LENGTH):
        raise service_error.validation(
            key, "PartitionKey", f"have length between 1 and {MAX_KEY_LENGTH}"
        )
    if not isinstance(data, bytes):
        raise service_error.validation("null", "Data", "not be null")
    if explicit is not None and not (
        isinstance(explicit, str) and explicit.isdecimal() and int(explicit) <= MAX_HASH_KEY
    ):
        raise service_error.invalid_argument(
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
            f"Specified value was {explicit}"
        )
    return check_size(stream, data, key)


def check_size(stream: Stream, data: bytes, partition_key: str | None) -> int:
    """The size of data and key in bytes; refused if the stream takes no such record."""
    size = Record("", 0, partition_key, data, 0).size
    limit = stream.max_record_kib * 1024
    if size > limit:
        raise service_error.validation(
            f"{size} bytes", "Data", f"have length less than or equal to {limit}"
        )
    return size
