"""Every known difference between the local stream and the other two, and why ours is as it is.

An answer that differs and is not here fails `make parity`, and so does one that is here and does
not differ any more. Where the reasons name AWS they rest on KINESIS.md and EMULATORS.md of the
project's notes: the API reference and what its users report, not on calls to AWS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.parity.answers import Answers
from tests.parity.emulators import KINESALITE, KINESIS_LOCAL

#: Stands for the answer to a question that was not asked, since the ones before led elsewhere.
NOT_ASKED = "(not asked)"


@dataclass(frozen=True)
class Difference:
    """One reason, and the answers of `service` that it explains, by question."""

    service: str
    why: str
    answers: Mapping[str, str]


_ALL_SHARDS = "0 [00–80] closed; 1 [80–100] closed; 2 of 0 [00–40]; 3 of 0 [40–80] closed; " + (
    "4 of 3+1 [40–100]"
)
_NEXT = "at the tip; NextShardIterator; "

DIFFERENCES = (
    Difference(
        KINESALITE,
        "MillisBehindLatest is always 0, or a made-up number on the last page of a closed "
        "shard. In AWS it is 0 only at the tip: the connector decides by it, so ours says "
        "`behind` until then",
        {
            "page 1: shard 0, by two": _NEXT + "#0 #2",
            "page 2: shard 0, by two": _NEXT + "#4 #5",
            "page 1: the closed parent, by three": _NEXT + "#0 #2 #4",
            "page 1: the second parent of the merged": _NEXT + "#1 #3 #6 #7",
            "page 2: the second parent of the merged": _NEXT + "#9 #11 #12 #13",
        },
    ),
    Difference(
        KINESALITE,
        "The end of a closed shard comes without ChildShards, which it is too old to know, and "
        "after one more empty page. AWS names the children with the end; without them "
        "the connector asks a second time",
        {
            "page 1: the parent's tip, after the split": "behind; no records",
            "page 3: the closed parent, by three": _NEXT + "no records",
            "page 4: the closed parent, by three": "behind; no records",
            "page 1: AFTER the closed parent's last record": _NEXT + "no records",
            "page 2: AFTER the closed parent's last record": "behind; no records",
            "page 1: LATEST of the closed parent": "behind; no records",
            "page 1: the first parent of the merged": "behind; no records",
            "page 4: the second parent of the merged": _NEXT + "no records",
            "page 5: the second parent of the merged": "behind; no records",
        },
    ),
    Difference(
        KINESALITE,
        "GetShardIterator hangs where nothing is as late as the time. AWS gives the tip",
        {
            "iterator: AT_TIMESTAMP after all": "ReadTimeoutError",
            "page 1: AT_TIMESTAMP after all": NOT_ASKED,
            "page 2: AT_TIMESTAMP after all": NOT_ASKED,
        },
    ),
    Difference(
        KINESALITE,
        "Any number of the shard's creation is accepted. AWS is reported to refuse the "
        "EndingSequenceNumber, which no record has; ours refuses all numbers past the newest "
        "record's, since an iterator after one could step over records that are still to come",
        {
            "iterator: a number past the last record's": "ShardIterator",
            "iterator: AT_SEQUENCE_NUMBER the EndingSequenceNumber": "ShardIterator",
            "iterator: AFTER_SEQUENCE_NUMBER the EndingSequenceNumber": "ShardIterator",
        },
    ),
    Difference(
        KINESALITE,
        "ListShards knows no MaxResults, NextToken and ShardFilter, and a bad token ends the "
        "process",
        {
            "list two": _ALL_SHARDS,
            "list on, by the token alone": NOT_ASKED,
            "list on, by token and stream": NOT_ASKED,
            "list AT_LATEST": _ALL_SHARDS,
            "list AT_TRIM_HORIZON": _ALL_SHARDS,
            "list AFTER_SHARD_ID": _ALL_SHARDS,
            "list with a bad token": "ConnectionClosedError",
        },
    ),
    Difference(
        KINESALITE,
        "The key does not count in a record's size. The API reference: data and partition key "
        "together",
        {"put 1 MiB and a key": "SequenceNumber; ShardId shardId-000000000000"},
    ),
    Difference(
        KINESALITE,
        "UpdateShardCount does not exist",
        {
            "rescale to more than double": "UnknownOperationException",
            "rescale to 3": "UnknownOperationException",
            "first hash keys of the rescaled": f"0x0, {hex(2**127)}",
        },
    ),
    Difference(
        KINESIS_LOCAL,
        "Refused with another code. Ours has the codes of the API reference: "
        "ValidationException for what breaks a field's own rules, InvalidArgumentException for "
        "what makes no sense together",
        {
            "create with a bad name": "InvalidArgumentException",
            "iterator: a number of another shard": "ResourceNotFoundException",
            "iterator: number 1": "ResourceNotFoundException",
            "iterator: a number that is none": "InvalidArgumentException",
            "iterator: a number past the last record's": "ResourceNotFoundException",
            "iterator: AT_SEQUENCE_NUMBER the EndingSequenceNumber": "ResourceNotFoundException",
            "iterator: AFTER_SEQUENCE_NUMBER the EndingSequenceNumber": "ResourceNotFoundException",
            "iterator: an unknown type": "SerializationException",
            "a page of a bad iterator": "500",
            "a page of 10,001 records": "InvalidArgumentException",
        },
    ),
    Difference(
        KINESIS_LOCAL,
        "Not refused. AWS takes a number only for the two types that need one, 500 records a "
        "request, and data and key of 1 MiB together; a split leaves each child more than one "
        "hash key",
        {
            "iterator: TRIM_HORIZON with a number": "ShardIterator",
            "put 501 records at once": "FailedRecordCount 0; 501 records",
            "put 1 MiB and a key": "SequenceNumber; ShardId shardId-000000000000",
            "split at the first hash key": "done",
            "split at the second hash key": "done",
        },
    ),
    Difference(
        KINESIS_LOCAL,
        "The hash-key space is cut one key too low",
        {
            "their hash keys": f"0–{2**127 - 2}, {2**127 - 1}–{2**128 - 1}",
            "first hash keys of the rescaled": f"0x0, {hex(2**126 - 1)}, {hex(2**127 - 1)}",
        },
    ),
    Difference(
        KINESIS_LOCAL,
        "The end of a closed shard comes with its last records. AWS is reported to do either; "
        "ours gives it on an empty page, or with them where `shard_end` is `last_page`",
        {
            "page 2: the closed parent, by three": (
                "child 2 of 0; child 3 of 0; at the tip; #5 #8 #10"
            ),
            "page 3: the closed parent, by three": NOT_ASKED,
            "page 3: the second parent of the merged": "child 4 of 1+3; at the tip; #14",
            "page 4: the second parent of the merged": NOT_ASKED,
        },
    ),
    Difference(
        KINESIS_LOCAL,
        "EndingSequenceNumber is the largest 64-bit number, below every record's. In AWS it is "
        "at or past the last record's",
        {"a number and an EndingSequenceNumber": "56 and 19 digits"},
    ),
    Difference(
        KINESIS_LOCAL,
        "AT_TRIM_HORIZON also lists children. The API reference: the shards that were open at "
        "the trim horizon",
        {"list AT_TRIM_HORIZON": _ALL_SHARDS},
    ),
    Difference(
        KINESIS_LOCAL,
        "UpdateShardCount answers without the StreamARN",
        {"rescale to 3": "CurrentShardCount 2; StreamName rescaled; TargetShardCount 3"},
    ),
)


def unexpected(service: str, ours: Answers, theirs: Answers) -> Iterator[str]:
    """What is wrong with the table for this service, a line each; nothing if it is right."""
    known = {
        question: answer
        for difference in DIFFERENCES
        if difference.service == service
        for question, answer in difference.answers.items()
    }
    for question in dict.fromkeys([*ours, *theirs, *known]):
        our, their = ours.get(question, NOT_ASKED), theirs.get(question, NOT_ASKED)
        listed = known.get(question, our)
        if their != listed:
            yield f"{service}: {question}: ours {our!r}, expected {listed!r}, found {their!r}"
        elif question in known and their == our:
            yield f"{service}: {question}: listed as a difference, but both say {our!r}"


def as_markdown(ours: Answers) -> str:
    """`docs/parity.md`."""
    lines = [_HEAD]
    for service in (KINESALITE, KINESIS_LOCAL):
        lines += [f"## {service}", ""]
        for difference in DIFFERENCES:
            if difference.service != service:
                continue
            lines += [f"{difference.why}.", "", "| question | ours | theirs |", "|---|---|---|"]
            lines += [
                f"| {question} | {_cell(ours.get(question, NOT_ASKED))} | {_cell(answer)} |"
                for question, answer in difference.answers.items()
            ]
            lines.append("")
    return "\n".join(lines)


def _cell(answer: str) -> str:
    return answer if answer == NOT_ASKED else f"`{answer}`"


_HEAD = """\
# The local stream against two independent ones

`make parity` plays one scripted history (`tests/parity/stream_history.py`) on the local stream of
`kinesis_source.testing` and on npm `kinesalite` 3.3.3 and `kinesis-local` 0.6.2, and compares every
answer. Those that differ are below, each with the reason why ours is as it is; all others are the
same. This page is made from `tests/parity/differences.py`, and a test holds it to that.

`#3` is the fourth record put; `NextShardIterator` and the like mean that there is one; what else
the words mean is in `tests/parity/answers.py`.
"""
