"""One scripted history: what is asked of each service, in order. `answers` says what is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kinesis_source.clock import SystemClock
from tests.parity.answers import Answers, Interview

STREAM = "parity"
#: For what should be refused, and changes the stream where it is not.
SPARE = "spare"
CLOCK = SystemClock()
_HALF = 2**127
#: More than any step of the services takes.
_STATUS_LIMIT_S = 10.0


def shard(index: int) -> str:
    return f"shardId-{index:012d}"


class StreamHistory:
    """Plays the script against one boto3 client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._interview = Interview()
        self._ask = self._interview.ask

    def play(self) -> Answers:
        """The answer to every question, in the order in which they were asked."""
        for act in (
            self._create,
            self._put,
            self._read_open_shards,
            self._refuse_iterators,
            self._split,
            self._merge,
            self._list,
            self._retain,
            self._delete,
            self._refuse_changes,
            self._rescale,
            # Last: kinesalite does not survive it.
            self._list_with_a_bad_token,
        ):
            act()
        return self._interview.answers

    def _create(self) -> None:
        create, describe = self._client.create_stream, self._client.describe_stream_summary
        self._ask("create", create, StreamName=STREAM, ShardCount=2)
        self._until_active()
        self._ask("create again", create, StreamName=STREAM, ShardCount=2)
        self._ask("create without shards", create, StreamName="other", ShardCount=0)
        self._ask("create with a bad name", create, StreamName="no spaces", ShardCount=1)
        self._ask("describe", describe, StreamName=STREAM)
        self._ask("describe an unknown stream", describe, StreamName="unknown")
        listed = self._ask("list two shards", self._client.list_shards, StreamName=STREAM)
        ranges = [entry["HashKeyRange"] for entry in listed["Shards"]]
        self._interview.answers["their hash keys"] = ", ".join(
            f"{keys['StartingHashKey']}–{keys['EndingHashKey']}" for keys in ranges
        )

    def _put(self) -> None:
        for key in ("a", "b", "customer-17", "ключ"):
            self._put_record(f"put with key {key}", key, key.encode())
        self._put_record("put nothing", "a", b"")
        for name, hash_key in (("0", 0), ("middle", _HALF), ("last", 2**128 - 1)):
            self._put_record(f"put at hash key {name}", "x", name.encode(), hash_key)
        put_many = self._client.put_records
        records = [{"PartitionKey": key, "Data": b"many"} for key in "abcde"]
        answer = self._ask("put many", put_many, StreamName=STREAM, Records=records)
        for record, result in zip(records, answer["Records"], strict=True):
            self._interview.know(result["SequenceNumber"], record)

    def _read_open_shards(self) -> None:
        first, second = self._read("shard 0, by two", shard(0), limit=2, pages=5)[:2]
        self._read("AT a record", shard(0), "AT_SEQUENCE_NUMBER", first)
        self._read("AFTER a record", shard(0), "AFTER_SEQUENCE_NUMBER", first)
        self._read("AFTER the next one", shard(0), "AFTER_SEQUENCE_NUMBER", second)
        iterator = self._iterator("LATEST", shard(1), "LATEST")
        self._put_record("put after LATEST", "x", b"l", _HALF)
        self._pages("LATEST, a record later", iterator)
        before = self._moment()
        self._put_record("put at a time", "x", b"t", _HALF)
        after = self._moment()
        hour = timedelta(hours=1)
        self._read("AT_TIMESTAMP between two", shard(1), "AT_TIMESTAMP", time=before)
        self._read("AT_TIMESTAMP before all", shard(1), "AT_TIMESTAMP", time=before - hour)
        self._read("AT_TIMESTAMP after all", shard(1), "AT_TIMESTAMP", time=after)
        self._iterator("AT_TIMESTAMP in the future", shard(1), "AT_TIMESTAMP", time=after + hour)

    def _refuse_iterators(self) -> None:
        at, after = "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"
        of_shard_0, of_shard_1 = self._interview.numbers[:2]
        self._iterator("a number of another shard", shard(0), at, of_shard_1)
        self._iterator("number 1", shard(0), after, "1")
        self._iterator("a number that is none", shard(0), after, "abc")
        past = str(int(of_shard_0) + 2**100)
        self._iterator("a number past the last record's", shard(0), after, past)
        self._iterator("a type without its number", shard(0), after)
        self._iterator("TRIM_HORIZON with a number", shard(0), "TRIM_HORIZON", of_shard_0)
        self._iterator("AT_TIMESTAMP without a time", shard(0), "AT_TIMESTAMP")
        self._iterator("an unknown type", shard(0), "SOMEWHERE")
        self._iterator("an unknown shard", shard(99), "TRIM_HORIZON")
        get = self._client.get_records
        self._ask("a page of a bad iterator", get, ShardIterator="AAAA")
        token = self._iterator("a good one", shard(0), "TRIM_HORIZON")
        self._ask("a page of 10,001 records", get, ShardIterator=token, Limit=10_001)

    def _split(self) -> None:
        at_the_tip = self._iterator("the parent's tip, before the split", shard(0), "LATEST")
        self._change("split", "split_shard", ShardToSplit=shard(0), NewStartingHashKey=2**126)
        listed = self._ask("list after the split", self._client.list_shards, StreamName=STREAM)
        self._put_record("put into a child", "x", b"c", 0)
        self._pages("the parent's tip, after the split", at_the_tip, pages=3)
        read = self._read("the closed parent, by three", shard(0), limit=3, pages=5)
        after = "AFTER_SEQUENCE_NUMBER"
        self._read("AFTER the closed parent's last record", shard(0), after, read[-1])
        self._read("LATEST of the closed parent", shard(0), "LATEST")
        self._read("the child", shard(2))
        self._read("the empty child", shard(3))
        ending = listed["Shards"][0]["SequenceNumberRange"]["EndingSequenceNumber"]
        digits = f"{len(read[-1])} and {len(ending)} digits"
        self._interview.answers["a number and an EndingSequenceNumber"] = digits
        for kind in ("AT_SEQUENCE_NUMBER", after):
            self._iterator(f"{kind} the EndingSequenceNumber", shard(0), kind, ending)

    def _merge(self) -> None:
        neighbours = {"ShardToMerge": shard(3), "AdjacentShardToMerge": shard(1)}
        self._change("merge", "merge_shards", **neighbours)
        self._put_record("put into the merged", "x", b"m", _HALF)
        self._read("the first parent of the merged", shard(3))
        self._read("the second parent of the merged", shard(1), limit=4, pages=5)
        self._read("the merged", shard(4))

    def _list(self) -> None:
        list_shards = self._client.list_shards
        self._ask("list all", list_shards, StreamName=STREAM)
        token = self._ask("list two", list_shards, StreamName=STREAM, MaxResults=2).get("NextToken")
        if token is not None:
            self._ask("list on, by the token alone", list_shards, NextToken=token)
            both = {"StreamName": STREAM, "NextToken": token}
            self._ask("list on, by token and stream", list_shards, **both)
        self._ask("list nothing", list_shards)
        for kind in ("AT_LATEST", "AT_TRIM_HORIZON", "FROM_TRIM_HORIZON"):
            self._ask(f"list {kind}", list_shards, StreamName=STREAM, ShardFilter={"Type": kind})
        after = {"Type": "AFTER_SHARD_ID", "ShardId": shard(2)}
        self._ask("list AFTER_SHARD_ID", list_shards, StreamName=STREAM, ShardFilter=after)
        start = {"StreamName": STREAM, "ExclusiveStartShardId": shard(2)}
        self._ask("list after an exclusive start", list_shards, **start)

    def _retain(self) -> None:
        for question, change, hours in (
            ("retain 48 h", "increase_stream_retention_period", 48),
            ("retain 30 h, by increasing", "increase_stream_retention_period", 30),
            ("retain 24 h", "decrease_stream_retention_period", 24),
            ("retain 12 h", "decrease_stream_retention_period", 12),
        ):
            self._change(question, change, RetentionPeriodHours=hours)

    def _delete(self) -> None:
        token = self._iterator("before the deletion", shard(2), "TRIM_HORIZON")
        self._ask("delete", self._client.delete_stream, StreamName=STREAM)
        self._until_status(STREAM, None)
        self._ask("list a deleted stream", self._client.list_shards, StreamName=STREAM)
        self._ask("a page of a deleted stream", self._client.get_records, ShardIterator=token)
        self._ask("delete again", self._client.delete_stream, StreamName=STREAM)

    def _refuse_changes(self) -> None:
        self._ask("create a spare", self._client.create_stream, StreamName=SPARE, ShardCount=6)
        self._until_active(SPARE)
        put, record = self._client.put_record, {"PartitionKey": "a", "Data": b""}
        large = {"PartitionKey": "a", "Data": b"x" * 2**20}
        self._ask("put 1 MiB and a key", put, StreamName=SPARE, **large)
        self._ask("put into an unknown stream", put, StreamName="unknown", **record)
        past = {"ExplicitHashKey": str(2**128)}
        self._ask("put at a hash key past the last", put, StreamName=SPARE, **record, **past)
        many = self._client.put_records
        self._ask("put no records at once", many, StreamName=SPARE, Records=[])
        self._ask("put 501 records at once", many, StreamName=SPARE, Records=[record] * 501)
        for question, index, at in (
            ("split an unknown shard", 9, 2**126),
            ("split at a hash key of another shard", 0, 2**128 - 10),
            ("split at the first hash key", 0, 0),
            ("split at the second hash key", 1, 2**128 // 6 + 1),
        ):
            change = {"ShardToSplit": shard(index), "NewStartingHashKey": at}
            self._change(question, "split_shard", SPARE, **change)
        for question, first, second in (
            ("merge shards that are no neighbours", 2, 4),
            ("merge a shard with itself", 5, 5),
            ("merge shards in the wrong order", 3, 2),
        ):
            merged = {"ShardToMerge": shard(first), "AdjacentShardToMerge": shard(second)}
            self._change(question, "merge_shards", SPARE, **merged)

    def _rescale(self) -> None:
        """On a stream of its own: what was not refused has changed the others."""
        create = self._client.create_stream
        self._ask("create one to rescale", create, StreamName="rescaled", ShardCount=2)
        self._until_active("rescaled")
        for question, count in (("rescale to more than double", 5), ("rescale to 3", 3)):
            change = {"TargetShardCount": count, "ScalingType": "UNIFORM_SCALING"}
            self._change(question, "update_shard_count", "rescaled", **change)
        listed = self._client.list_shards(StreamName="rescaled")["Shards"]
        open_shards = [s for s in listed if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        starts = sorted(int(entry["HashKeyRange"]["StartingHashKey"]) for entry in open_shards)
        self._interview.answers["first hash keys of the rescaled"] = ", ".join(map(hex, starts))

    def _list_with_a_bad_token(self) -> None:
        self._ask("list with a bad token", self._client.list_shards, NextToken="AAAA")

    # Steps

    def _put_record(
        self, question: str, key: str, data: bytes, hash_key: int | None = None
    ) -> None:
        record: dict[str, Any] = {"PartitionKey": key, "Data": data}
        explicit = {} if hash_key is None else {"ExplicitHashKey": str(hash_key)}
        put = self._client.put_record
        answer = self._ask(question, put, StreamName=STREAM, **record, **explicit)
        self._interview.know(answer["SequenceNumber"], record)

    def _change(self, question: str, operation: str, stream: str = STREAM, **change: Any) -> None:
        """Something that the service may take a while to do."""
        if "NewStartingHashKey" in change:
            change["NewStartingHashKey"] = str(change["NewStartingHashKey"])
        self._ask(question, getattr(self._client, operation), StreamName=stream, **change)
        self._until_active(stream)

    def _iterator(
        self,
        question: str,
        shard_id: str,
        kind: str,
        number: str | None = None,
        time: datetime | None = None,
    ) -> str:
        """The token, empty if there is none."""
        request: dict[str, Any] = {"ShardId": shard_id, "ShardIteratorType": kind}
        if number is not None:
            request["StartingSequenceNumber"] = number
        if time is not None:
            request["Timestamp"] = time
        get = self._client.get_shard_iterator
        answer = self._ask(f"iterator: {question}", get, StreamName=STREAM, **request)
        return str(answer.get("ShardIterator", ""))

    def _read(
        self,
        question: str,
        shard_id: str,
        kind: str = "TRIM_HORIZON",
        number: str | None = None,
        time: datetime | None = None,
        limit: int = 10_000,
        pages: int = 2,
    ) -> list[str]:
        """The numbers of the records on at most so many pages."""
        token = self._iterator(question, shard_id, kind, number, time)
        return self._pages(question, token, limit, pages)

    def _pages(self, question: str, token: str, limit: int = 10_000, pages: int = 1) -> list[str]:
        numbers: list[str] = []
        get = self._client.get_records
        for page in range(1, pages + 1):
            if not token:
                break
            request = {"ShardIterator": token, "Limit": limit}
            answer = self._ask(f"page {page}: {question}", get, **request)
            numbers += [record["SequenceNumber"] for record in answer.get("Records", [])]
            token = answer.get("NextShardIterator", "")
        return numbers

    def _moment(self) -> datetime:
        """An instant with nothing put near it."""
        CLOCK.sleep(0.05)
        now = datetime.fromtimestamp(CLOCK.now_ms() / 1000, UTC)
        CLOCK.sleep(0.05)
        return now

    def _until_active(self, stream: str = STREAM) -> None:
        self._until_status(stream, "ACTIVE")

    def _until_status(self, stream: str, wanted: str | None) -> None:
        deadline = CLOCK.monotonic() + _STATUS_LIMIT_S
        while (status := self._status(stream)) != wanted:
            assert CLOCK.monotonic() < deadline, f"{stream} stays {status}"
            CLOCK.sleep(0.05)

    def _status(self, stream: str) -> str | None:
        try:
            summary = self._client.describe_stream_summary(StreamName=stream)
        except self._client.exceptions.ResourceNotFoundException:
            return None
        return str(summary["StreamDescriptionSummary"]["StreamStatus"])
