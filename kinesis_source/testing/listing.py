"""ListShards and ListStreams."""

from __future__ import annotations

from kinesis_source.testing import service_error
from kinesis_source.testing.reading import hash_key_range
from kinesis_source.testing.service import Answer, Call, Request, ServiceState
from kinesis_source.testing.service_error import ServiceError
from kinesis_source.testing.stream import Shard, Stream
from kinesis_source.testing.tokens import TOKEN_LIFE_MS, ListingToken

MAX_LISTED_SHARDS = 1000
_MAX_RESULTS = 10_000
_NOT_WITH_TOKEN = (
    "StreamName",
    "StreamARN",
    "StreamCreationTimestamp",
    "ExclusiveStartShardId",
    "ShardFilter",
)
_FILTER_TYPES = (
    "AFTER_SHARD_ID",
    "AT_TRIM_HORIZON",
    "FROM_TRIM_HORIZON",
    "AT_LATEST",
    "AT_TIMESTAMP",
    "FROM_TIMESTAMP",
)


def list_shards(state: ServiceState, call: Call) -> Answer:
    """A listing is made when its first page is asked for; its tokens only walk through it."""
    request, now_ms = call.request, call.now_ms
    wanted = request.get("MaxResults", MAX_LISTED_SHARDS)
    if not isinstance(wanted, int) or not 1 <= wanted <= _MAX_RESULTS:
        raise service_error.validation(
            wanted, "MaxResults", f"have value between 1 and {_MAX_RESULTS}"
        )
    token = _parse_token(state, request, now_ms) if "NextToken" in request else None
    if token is None:
        stream = _stream_to_list(state, request, now_ms)
    else:
        stream = state.streams_by_uid[token.stream_uid]
    error = service_error.limit_exceeded(stream.name, state.account)
    state.take_call(call, "list_shards_calls", (stream.uid,), error)
    if token is None:
        shards = [_listed(*row) for row in _view(state, call, stream)]
        token = ListingToken(stream.uid, len(state.listings), 0, now_ms)
    else:
        shards = state.listings[token.listing]
    end = token.offset + min(wanted, MAX_LISTED_SHARDS)
    answer: Answer = {"Shards": shards[token.offset : end]}
    if end < len(shards):
        state.listings[token.listing] = shards
        answer["NextToken"] = token._replace(offset=end, issued_ms=now_ms).serialize()
    return answer


def _parse_token(state: ServiceState, request: Request, now_ms: int) -> ListingToken:
    """NextToken, which only MaxResults may accompany."""
    for name in _NOT_WITH_TOKEN:
        if name in request:
            raise service_error.invalid_argument(
                f"NextToken and {name} cannot be provided together."
            )
    token = ListingToken.parse(request["NextToken"])
    if token is None or token.listing not in state.listings:
        raise service_error.invalid_argument("Invalid NextToken.")
    if now_ms - token.issued_ms > TOKEN_LIFE_MS:
        raise ServiceError("ExpiredNextTokenException", "The NextToken used has expired.")
    name = state.streams_by_uid[token.stream_uid].name
    if state.existing(name, now_ms).uid != token.stream_uid:
        raise service_error.invalid_argument("Invalid NextToken.")
    return token


def _stream_to_list(state: ServiceState, request: Request, now_ms: int) -> Stream:
    """StreamCreationTimestamp, if given, tells streams of one name apart, by whole seconds."""
    if "StreamName" not in request and "StreamARN" not in request:
        raise service_error.invalid_argument("Either NextToken or StreamName should be provided.")
    stream = state.find_stream(request, now_ms)
    status = stream.status(now_ms)
    if status == "CREATING":
        raise service_error.stream_in_use(stream.name, state.account, status)
    seconds = request.get("StreamCreationTimestamp")
    another = seconds is not None and int(seconds) != stream.created_ms // 1000
    if status == "DELETING" or another:
        raise service_error.stream_not_found(stream.name, state.account)
    return stream


def _view(state: ServiceState, call: Call, stream: Stream) -> list[tuple[Shard, bool]]:
    """The shards that this listing shows, each with whether it shows as open.

    What it shows as open may have closed: within the listing lag, or as a fault asks for.
    """
    now_ms = call.now_ms
    seen_until_ms = now_ms - state.behaviour.listing_lag_ms
    if call.fault == "stale_listing":
        seen_until_ms = min(seen_until_ms, _before_newest_reshard(stream))
    rows: list[tuple[Shard, bool]] = []
    keep = _filter(stream, call.request, now_ms)
    after = call.request.get("ExclusiveStartShardId", "")
    for shard in stream.shards:
        if stream.trim(shard, now_ms) or (shard.parents and shard.created_ms > seen_until_ms):
            continue
        if _use_one(stream.hidden, shard.shard_id):
            continue
        is_open = not shard.closed_by(seen_until_ms)
        if not is_open and _use_one(stream.looks_open, shard.shard_id):
            is_open = True
        if shard.shard_id > after and keep(shard, is_open):
            rows.append((shard, is_open))
    return rows


def _use_one(left: dict[str, int], shard_id: str) -> bool:
    count = left.get(shard_id, 0)
    if count:
        left[shard_id] = count - 1
    return count > 0


def _before_newest_reshard(stream: Stream) -> int:
    return max(shard.created_ms for shard in stream.shards) - 1


class _Filter:
    """ShardFilter, applied to one shard at a time (API reference, ShardFilter)."""

    def __init__(self, kind: str, shard_id: str, time_ms: int) -> None:
        self._kind = kind
        self._shard_id = shard_id
        self._time_ms = time_ms

    def __call__(self, shard: Shard, is_open: bool) -> bool:
        ended_before = not is_open and (shard.closed_ms or 0) < self._time_ms
        match self._kind:
            case "AFTER_SHARD_ID":
                return shard.shard_id > self._shard_id
            case "AT_LATEST":
                return is_open
            case "AT_TIMESTAMP" | "AT_TRIM_HORIZON":
                return shard.created_ms <= self._time_ms and not ended_before
            case "FROM_TIMESTAMP":
                return not ended_before
            case _:
                return True


def _filter(stream: Stream, request: Request, now_ms: int) -> _Filter:
    given = request.get("ShardFilter") or {"Type": "FROM_TRIM_HORIZON"}
    kind = given.get("Type")
    if kind not in _FILTER_TYPES:
        raise service_error.validation(
            kind, "ShardFilter.Type", f"satisfy enum value set: [{', '.join(_FILTER_TYPES)}]"
        )
    shard_id, timestamp = given.get("ShardId"), given.get("Timestamp")
    if (shard_id is not None) != (kind == "AFTER_SHARD_ID"):
        raise service_error.invalid_argument(
            f"ShardFilter of type {kind} must {'' if shard_id is None else 'not '}have a ShardId."
        )
    if (timestamp is not None) != (kind in ("AT_TIMESTAMP", "FROM_TIMESTAMP")):
        raise service_error.invalid_argument(
            f"ShardFilter of type {kind} must {'' if timestamp is None else 'not '}"
            "have a Timestamp."
        )
    # A time before the oldest readable record means that one, and the stream's creation at least.
    horizon_ms = max(now_ms - stream.retention_ms, stream.created_ms)
    if timestamp is None:
        return _Filter(kind, shard_id or "", horizon_ms)
    time_ms = round(timestamp * 1000)
    if time_ms > now_ms:
        raise service_error.invalid_argument(
            "The timestampInMillis parameter cannot be greater than the "
            f"currentTimestampInMillis. timestampInMillis: {time_ms}, "
            f"currentTimestampInMillis: {now_ms}"
        )
    return _Filter(kind, "", max(time_ms, horizon_ms))


def _listed(shard: Shard, is_open: bool) -> Answer:
    numbers = {"StartingSequenceNumber": str(shard.starting)}
    if not is_open:
        numbers["EndingSequenceNumber"] = str(shard.ending)
    listed: Answer = {"ShardId": shard.shard_id}
    for name, parent in zip(
        ("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False
    ):
        listed[name] = parent.shard_id
    listed["HashKeyRange"] = hash_key_range(shard)
    listed["SequenceNumberRange"] = numbers
    return listed


def list_streams(state: ServiceState, call: Call) -> Answer:
    """Names in order, a page after ExclusiveStartStreamName."""
    after = call.request.get("ExclusiveStartStreamName") or call.request.get("NextToken") or ""
    limit = call.request.get("Limit", 100)
    names = sorted(name for name in state.streams if name > after)
    answer: Answer = {"StreamNames": names[:limit], "HasMoreStreams": len(names) > limit}
    if answer["HasMoreStreams"]:
        answer["NextToken"] = names[limit - 1]
    return answer
