"""The values of the option `startingPosition`, and the texts that users write for them.

`LATEST`                  from now on
`TRIM_HORIZON`            from the oldest record left; `EARLIEST` is the same
`AT_TIMESTAMP <time>`     from the first record that arrived at or after the time: ISO 8601 with an
                          offset (`2026-01-02T03:04:05.678Z`) or milliseconds since the epoch
`{"default": …, "shardId-…": …}`   JSON, single shards; the default is LATEST if not given.
                          A shard may also start at `AFTER_SEQUENCE_NUMBER <n>` or `SHARD_END`

Words in any letter case. Which shards a value means is decided in `core.starts`.

The forms of other connectors that say the same are read too:

`2026-01-02T03:04:05Z`    AWS Glue: a time alone
`{"at_timestamp": "06/25/2020 10:23:45 PDT", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}`
                          Databricks; without a format the time is ISO 8601 with an offset
`{"shardId-…": {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "49…"}, "metadata": …}`
                          awslabs, qubole: an offset of their checkpoint, the start of its batch.
                          Shards it does not name start at LATEST, as there
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kinesis_source.core.java_time import parse_java_time
from kinesis_source.core.positions import (
    SHARD_END,
    TRIM_HORIZON,
    AfterSequenceNumber,
    AtTimestamp,
    Position,
    TrimHorizon,
)


@dataclass(frozen=True, slots=True)
class Latest:
    """From now on. Not a position: it is resolved to one when the query first starts."""

    def __str__(self) -> str:
        return "LATEST"


LATEST = Latest()

StreamStart = Latest | TrimHorizon | AtTimestamp
ShardStart = Latest | Position


@dataclass(frozen=True, slots=True)
class PerShard:
    """`default` is for the shards that `shards` does not name."""

    default: StreamStart
    shards: dict[str, ShardStart]
    #: The stream whose shards are named, where the text says so.
    stream_name: str | None = None

    def __str__(self) -> str:
        values = {"default": self.default, **self.shards}
        return json.dumps({key: str(value) for key, value in values.items()})


StartingPosition = StreamStart | PerShard

_SHARD_ID = re.compile(r"shardId-\d{12}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: March 1973 in milliseconds, far in the future in seconds: below it somebody means seconds.
_LEAST_EPOCH_MS = 100_000_000_000


def parse_starting_position(text: str) -> StartingPosition:
    """Raises ValueError with the reason: what was expected in place of the part that is wrong."""
    if text.lstrip().startswith("{"):
        return _parse_map(text)
    return _parse_stream_start(text)


def _parse_map(text: str) -> StartingPosition:
    try:
        entries = json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected JSON; at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise ValueError("expected JSON of two levels at most") from None
    if "at_timestamp" in entries:
        return _parse_time_with_format(entries)
    default: StreamStart = LATEST
    shards: dict[str, ShardStart] = {}
    stream_name: str | None = None
    for key, value in entries.items():
        try:
            if key == "default":
                default = _parse_stream_start(_text(value))
            elif _SHARD_ID.fullmatch(key):
                foreign = isinstance(value, dict) and "iteratorType" in value
                shards[key] = (_parse_iterator if foreign else _parse_shard_start)(value)
            elif key == "metadata" and isinstance(value, dict):
                stream_name = value.get("streamName")
            else:
                raise ValueError("expected 'default' or a shard id such as shardId-000000000000")
        except ValueError as error:
            raise ValueError(f"for {key!r}: {error}") from None
    return PerShard(default, shards, stream_name)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {value!r}")
    return value


def _parse_time_with_format(entries: dict[str, object]) -> AtTimestamp:
    surplus = entries.keys() - {"at_timestamp", "format"}
    if surplus:
        raise ValueError(f"beside 'at_timestamp' expected 'format' only, found {min(surplus)!r}")
    text = _text(entries["at_timestamp"])
    if "format" not in entries:
        try:
            return AtTimestamp(parse_time_ms(text))
        except ValueError as error:
            raise ValueError(f"without a 'format', {error}") from None
    try:
        time = parse_java_time(text, _text(entries["format"]))
        return AtTimestamp(_since_epoch(time, text))
    except ValueError as error:
        raise ValueError(f"{error}. Or write AT_TIMESTAMP 2026-01-02T03:04:05Z instead") from None


def _parse_iterator(entry: dict[str, object]) -> ShardStart:
    """One shard of an awslabs or qubole offset, in which all values are text."""
    kind, place = entry["iteratorType"], entry.get("iteratorPosition", "")
    sub, last = str(entry.get("subSequenceNumber", -1)), str(entry.get("isLast", "true"))
    if kind == "AT_SEQUENCE_NUMBER" or (sub != "-1" and last.lower() != "true"):
        raise ValueError(
            "it stands inside an aggregated record, and positions here are whole records; expected "
            "AFTER_SEQUENCE_NUMBER of a record before it, or AT_TIMESTAMP"
        )
    return _parse_shard_start(f"{kind} {place}")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(
            f"{next(k for k in keys if keys.count(k) > 1)!r} is given twice; expected once"
        )
    return entries


def _parse_stream_start(text: str) -> StreamStart:
    start = _parse_words(text)
    if start is None:
        raise ValueError(
            "expected LATEST, TRIM_HORIZON, EARLIEST, AT_TIMESTAMP <ISO-8601 time or epoch "
            "milliseconds> or a JSON map of shard ids"
        )
    if not isinstance(start, Latest | TrimHorizon | AtTimestamp):
        place = json.dumps({"shardId-000000000000": text.strip()})
        raise ValueError(f"that is a place in one shard: name the shard, as in {place}")
    return start


def _parse_shard_start(value: object) -> ShardStart:
    text = _text(value)
    start = _parse_words(text)
    if start is None:
        raise ValueError(
            "expected LATEST, TRIM_HORIZON, EARLIEST, AT_TIMESTAMP <ISO-8601 time or epoch "
            f"milliseconds>, AFTER_SEQUENCE_NUMBER <number> or SHARD_END, found {text!r}"
        )
    return start


def _parse_words(text: str) -> ShardStart | None:
    """None for other words. Raises ValueError for what follows them."""
    word, _, argument = text.strip().partition(" ")
    argument = argument.strip()
    match word.upper(), argument:
        case "LATEST", "":
            return LATEST
        case "TRIM_HORIZON" | "EARLIEST", "":
            return TRIM_HORIZON
        case "SHARD_END", "":
            return SHARD_END
        case "AT_TIMESTAMP", _:
            return AtTimestamp(parse_time_ms(argument))
        case "AFTER_SEQUENCE_NUMBER", _:
            if not _is_decimal(argument):
                raise ValueError(f"after AFTER_SEQUENCE_NUMBER expected digits, found {argument!r}")
            return AfterSequenceNumber(int(argument))
        case _ if re.match(r"\d{4}-", word, re.ASCII):
            return AtTimestamp(parse_time_ms(text.strip()))
        case _:
            return None


def parse_time_ms(text: str) -> int:
    """From ISO 8601 with an offset, or milliseconds, to milliseconds since the epoch; what is finer
    is cut off, so nothing is left out. Raises ValueError with what was expected."""
    if _is_decimal(text):
        if int(text) < _LEAST_EPOCH_MS:
            raise ValueError(f"expected milliseconds since the epoch; {text} looks like seconds")
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "expected a time such as 2026-01-02T03:04:05.678Z or milliseconds since the epoch, "
            f"found {text!r}"
        ) from None
    if time.tzinfo is None:
        raise ValueError(f"the time {text!r} needs an offset from UTC, such as Z or +02:00")
    return _since_epoch(time, text)


def _since_epoch(time: datetime, text: str) -> int:
    if time < _EPOCH:
        raise ValueError(f"the time {text!r} lies before 1970")
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdecimal()
