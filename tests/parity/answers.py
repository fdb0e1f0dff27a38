"""Answers as one line of text each, in a form that services can share.

A record is `#3` (the fourth one put; `changed` if its key or data are not what was put), a page
is its records, whether it was at the tip, the child shards it names and whether there is a next
iterator; a shard is its number, parents, hash keys and whether it is closed; an error is its
code. Not compared: tokens, times, accounts, messages, and the fields of `NOT_COMPARED`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

#: Question → answer.
Answers = dict[str, str]

#: Beside the transport's metadata, fields that Kinesis got after the other services were written.
NOT_COMPARED = {
    "EncryptionType",
    "MaxRecordSizeInKiB",
    "RecordDistributionStrategy",
    "ResponseMetadata",
    "StreamModeDetails",
}
MOST_RECORDS_NAMED = 20
_ONLY_WHETHER_THERE = {
    "NextShardIterator",
    "NextToken",
    "SequenceNumber",
    "ShardIterator",
    "StreamCreationTimestamp",
}


class Interview:
    """Asks, and keeps the answers; `numbers` are those of the records put, in order."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.numbers: list[str] = []
        self._records: dict[str, dict[str, Any]] = {}

    def ask(self, question: str, call: Callable[..., Any], **request: Any) -> dict[str, Any]:
        """The raw answer, empty after an error."""
        assert question not in self.answers, f"{question!r} was asked before"
        try:
            answer: dict[str, Any] = call(**request)
        except ClientError as error:
            self.answers[question] = error.response["Error"]["Code"]
            return {}
        except BotoCoreError as error:
            self.answers[question] = type(error).__name__
            return {}
        self.answers[question] = self._line(answer)
        return answer

    def know(self, number: str, record: dict[str, Any]) -> None:
        """The next record put, and the number that it got."""
        self.numbers.append(number)
        self._records[number] = record

    def _line(self, answer: dict[str, Any]) -> str:
        fields = answer | answer.get("StreamDescriptionSummary", {})
        words: list[str] = []
        for name in sorted(fields.keys() - NOT_COMPARED - {"StreamDescriptionSummary"}):
            words += self._words(name, fields[name])
        return "; ".join(words) or "done"

    def _words(self, name: str, value: Any) -> list[str]:
        if name in _ONLY_WHETHER_THERE:
            return [name]
        match name:
            case "Records":
                if len(value) > MOST_RECORDS_NAMED:
                    return [f"{len(value)} records"]
                return [" ".join(map(self._record, value)) or "no records"]
            case "Shards":
                return list(map(_shard, value))
            case "ChildShards":
                return [_child(child) for child in value]
            case "MillisBehindLatest":
                return ["at the tip" if value == 0 else "behind"]
            case "StreamARN":
                return [value.replace(value.split(":")[4], "account")]
        return [f"{name} {value}"]

    def _record(self, record: dict[str, Any]) -> str:
        if "ShardId" in record:  # of an answer to PutRecords
            return f"→{_number(record['ShardId'])}"
        put = self._records.get(record["SequenceNumber"])
        if put is None:
            return "unknown"
        index = self.numbers.index(record["SequenceNumber"])
        same = all(record[name] == value for name, value in put.items())
        return f"#{index}" if same else f"#{index} changed"


def _number(shard_id: str) -> str:
    return str(int(shard_id.rpartition("-")[2]))


def _child(child: dict[str, Any]) -> str:
    parents = "+".join(sorted(map(_number, child["ParentShards"])))
    return f"child {_number(child['ShardId'])} of {parents}"


def _shard(entry: dict[str, Any]) -> str:
    names = ("ParentShardId", "AdjacentParentShardId")
    parents = "+".join(_number(entry[name]) for name in names if name in entry)
    # The leading bits tell the ranges of this history apart; another question asks for all.
    low, high = (
        round(int(entry["HashKeyRange"][f"{end}HashKey"]) / 2**120)
        for end in ("Starting", "Ending")
    )
    return (
        f"{_number(entry['ShardId'])}"
        + (f" of {parents}" if parents else "")
        + f" [{low:02x}–{high:02x}]"
        + (" closed" if "EndingSequenceNumber" in entry["SequenceNumberRange"] else "")
    )
