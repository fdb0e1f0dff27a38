"""GetShardIterator and GetRecords."""

from __future__ import annotations

import re

from kinesis_source.testing import service_error
from kinesis_source.testing.service import Answer, Call, ServiceState
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import MAX_PAGE_RECORDS, RecordsPage, Shard, Stream
from kinesis_source.testing.tokens import TOKEN_LIFE_MS, IteratorToken

_SEQUENCE_TYPES = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
_ITERATOR_TYPES = (*_SEQUENCE_TYPES, "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP")
_SEQUENCE_NUMBER = re.compile(r"0|[1-9]\d{0,128}")

#: MillisBehindLatest on the endless empty pages seen for a trimmed position.
SPINNING_BEHIND_MS = 86_400_000


def get_shard_iterator(state: ServiceState, call: Call) -> Answer:
    request, now_ms = call.request, call.now_ms
    iterator_type = request.get("ShardIteratorType")
    if iterator_type not in _ITERATOR_TYPES:
        raise service_error.validation(
            iterator_type,
            "ShardIteratorType",
            f"satisfy enum value set: [{', '.join(_ITERATOR_TYPES)}]",
        )
    stream = state.usable_stream(request, now_ms)
    shard = state.shard(stream, str(request.get("ShardId")), now_ms)
    error = service_error.throughput_exceeded(shard.shard_id, stream.name, state.account)
    state.take_call(call, "get_shard_iterator_calls", (stream.uid, shard.index), error)

    number = request.get("StartingSequenceNumber")
    if (number is not None) != (iterator_type in _SEQUENCE_TYPES):
        given = "no" if number is None else "also a"
        raise service_error.invalid_argument(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and "
            "StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. "
            f"Request specified {iterator_type} and {given} StartingSequenceNumber."
        )
    token = IteratorToken(stream.uid, shard.index, shard.horizon, now_ms, fresh=True)
    if number is not None:
        token = _at_sequence_number(state, stream, shard, token, iterator_type, number)
    elif iterator_type == "LATEST":
        token = token._replace(record_index=len(shard.records), fresh=False)
    elif iterator_type == "AT_TIMESTAMP":
        token = token._replace(
            record_index=_index_at_timestamp(shard, request.get("Timestamp"), now_ms)
        )
    each = stream.empty_pages_each.get(shard.shard_id, 0)
    if each and token.fresh and not _starts_at_a_record(shard, token, iterator_type, number):
        token = token._replace(empty_pages=each)
    return {"ShardIterator": token.serialize()}


def _starts_at_a_record(
    shard: Shard, token: IteratorToken, iterator_type: str, number: object
) -> bool:
    """A position that names a readable record finds it at once: there is no gap to walk."""
    if iterator_type != "AT_SEQUENCE_NUMBER" or token.record_index >= len(shard.records):
        return False
    return str(shard.records[token.record_index].sequence_number) == number


def _index_at_timestamp(shard: Shard, timestamp: object, now_ms: int) -> int:
    if not isinstance(timestamp, (int, float)):
        raise service_error.invalid_argument(
            "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "
            "Current request has no timestamp parameter."
        )
    time_ms = round(timestamp * 1000)
    if time_ms > now_ms:
        raise service_error.invalid_argument(
            "The timestampInMillis parameter cannot be greater than the "
            f"currentTimestampInMillis. timestampInMillis: {time_ms}, "
            f"currentTimestampInMillis: {now_ms}"
        )
    return shard.index_at_time(time_ms)


def _at_sequence_number(
    state: ServiceState,
    stream: Stream,
    shard: Shard,
    token: IteratorToken,
    iterator_type: str,
    text: object,
) -> IteratorToken:
    if not isinstance(text, str) or not _SEQUENCE_NUMBER.fullmatch(text):
        raise service_error.validation(
            text,
            "StartingSequenceNumber",
            r"satisfy regular expression pattern: 0|([1-9]\d{0,128})",
        )
    number = int(text)
    used = (
        f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard.shard_id} "
        f"in stream {stream.name} under account {state.account} is invalid"
    )
    parts = stream.parse_sequence_number(number)
    if parts is None:
        raise service_error.invalid_argument(f"{used}.")
    if parts.shard_index != shard.index:
        raise service_error.invalid_argument(
            f"Invalid StartingSequenceNumber. It encodes shardId-{parts.shard_index:012d}, while "
            f"it was used in a call to a shard with {shard.shard_id}"
        )
    if parts.created_s != shard.created_s:
        raise service_error.invalid_argument(f"{used} because it did not come from this stream.")
    # Numbers that no record has are accepted up to the newest record's; past that, a later record
    # could be smaller. So EndingSequenceNumber, which has the largest index of all, is refused.
    if parts.record_index > shard.last_index:
        raise service_error.invalid_argument(f"{used}.")
    if shard.horizon and number <= shard.records[shard.horizon - 1].sequence_number:
        answer = stream.trimmed_answer or state.behaviour.trimmed_answer
        if answer == "random":
            answer = state.rng.choice(("horizon", "spin", "refuse"))
        if answer == "refuse":
            raise service_error.invalid_argument(f"{used}.")
        return token._replace(spins=answer == "spin")
    after = iterator_type == "AFTER_SEQUENCE_NUMBER"
    return token._replace(record_index=shard.index_at(number + 1 if after else number))


def get_records(state: ServiceState, call: Call) -> Answer:
    """`Records` of the answer is a `RecordsPage`, for the face to spell out."""
    now_ms, token, stream = call.now_ms, call.token, call.stream
    if token is None or stream is None:
        raise service_error.invalid_argument("Invalid ShardIterator.")
    limit = call.request.get("Limit", MAX_PAGE_RECORDS)
    if not isinstance(limit, int) or limit < 1:
        raise service_error.validation(limit, "Limit", "have value greater than or equal to 1")
    if limit > MAX_PAGE_RECORDS:
        raise service_error.validation(
            limit, "Limit", f"have value less than or equal to {MAX_PAGE_RECORDS}"
        )
    _check_stream(state, call, stream)
    shard = stream.shard_by_index(token.shard_index, now_ms)
    if shard is None:
        raise service_error.shard_not_found(str(call.shard_id), stream.name, state.account)
    if now_ms - token.issued_ms > TOKEN_LIFE_MS:
        raise ServiceError(
            "ExpiredIteratorException",
            f"Iterator expired. The iterator was created at time {token.issued_ms} while right "
            f"now it is {now_ms} which is further in the future than the tolerated delay of "
            f"{TOKEN_LIFE_MS} milliseconds.",
        )
    _check_read_quota(state, call, stream, shard)

    start = max(token.record_index, shard.horizon)
    end = shard.page_end(start, limit)
    if (
        token.spins
        or call.fault == "empty_page"
        or (end > start and _takes_empty_page(stream, shard, token))
    ):
        token = token._replace(
            record_index=start, issued_ms=now_ms, empty_pages=max(token.empty_pages - 1, 0)
        )
        behind_ms = SPINNING_BEHIND_MS if token.spins else max(_behind(shard, start, now_ms), 1)
        return {
            "Records": RecordsPage(shard, start, start),
            "NextShardIterator": token.serialize(),
            "MillisBehindLatest": behind_ms,
        }

    answer: Answer = {
        "Records": RecordsPage(shard, start, end),
        "MillisBehindLatest": _behind(shard, end, now_ms),
    }
    _spend_read_quota(state, call, stream, shard, start, end)
    if call.fault == "null_iterator":
        return answer
    ended = shard.closed_ms is not None and end == len(shard.records)
    if ended and (start == end or state.behaviour.shard_end == "last_page"):
        answer["ChildShards"] = [_child(child) for child in shard.children]
    else:
        following = IteratorToken(
            token.stream_uid,
            token.shard_index,
            end,
            now_ms,
            token.empty_pages if start == end else 0,
            token.fresh and start == end,
        )
        answer["NextShardIterator"] = following.serialize()
    return answer


def _check_stream(state: ServiceState, call: Call, stream: Stream) -> None:
    """The stream the iterator came from must still be there, and be the one asked for."""
    current = state.existing(stream.name, call.now_ms)
    if current is not stream:
        raise service_error.invalid_argument("Invalid ShardIterator.")
    if current.status(call.now_ms) not in ("ACTIVE", "UPDATING"):
        raise service_error.stream_not_found(stream.name, state.account)
    if "StreamARN" in call.request and state.stream_name(call.request) != stream.name:
        raise service_error.invalid_argument(
            f"The ShardIterator does not belong to stream {call.request['StreamARN']}."
        )


def _takes_empty_page(stream: Stream, shard: Shard, token: IteratorToken) -> bool:
    """Whether an empty page is due before the record here; uses up one of the stream's."""
    if token.empty_pages:
        return True
    left = stream.empty_pages.get(shard.shard_id, 0) if token.fresh else 0
    if left:
        stream.empty_pages[shard.shard_id] = left - 1
    return left > 0


def _behind(shard: Shard, index: int, now_ms: int) -> int:
    """MillisBehindLatest of a page that ended before `index`: 0 only at the tip."""
    if index == len(shard.records):
        return 0
    return max(now_ms - shard.records[index].arrival_ms, 1)


def _child(child: Shard) -> Answer:
    return {
        "ShardId": child.shard_id,
        "ParentShards": [parent.shard_id for parent in child.parents],
        "HashKeyRange": hash_key_range(child),
    }


def hash_key_range(shard: Shard) -> Answer:
    return {
        "StartingHashKey": str(shard.hash_range.start),
        "EndingHashKey": str(shard.hash_range.end),
    }


def _check_read_quota(state: ServiceState, call: Call, stream: Stream, shard: Shard) -> None:
    if state.quotas is None:
        return
    error = service_error.throughput_exceeded(shard.shard_id, stream.name, state.account)
    key = ("get_records_bytes", stream.uid, shard.index)
    if not state.quotas.fits(key, state.quotas.limits.get_records_bytes, 1, call.now_ms):
        state.throttled[call.operation, call.shard_id] += 1
        raise error
    state.take_call(call, "get_records_calls", (stream.uid, shard.index), error)


def _spend_read_quota(
    state: ServiceState, call: Call, stream: Stream, shard: Shard, start: int, end: int
) -> None:
    if state.quotas is not None:
        key = ("get_records_bytes", stream.uid, shard.index)
        limit = state.quotas.limits.get_records_bytes
        state.quotas.spend(key, limit, shard.page_bytes(start, end), call.now_ms)
