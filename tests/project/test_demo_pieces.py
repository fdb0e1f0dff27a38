"""The demo's other pieces: producer, tree, live line, and what it reads of Spark's files."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinesis_source.demo.console import Console
from kinesis_source.demo.lineage_tree import ShardView, draw_lineage
from kinesis_source.demo.producer import RECORDS_PER_CALL, Producer, decode
from kinesis_source.demo.spark_files import Checkpoint, Sink
from kinesis_source.demo.spark_process import SparkFailedError, SparkProcess
from kinesis_source.testing import LocalKinesis, ManualClock


def test_the_producer_remembers_exactly_what_the_stream_accepted_in_the_order_of_each_key() -> None:
    clock = ManualClock()
    kinesis = LocalKinesis(clock=clock)
    kinesis.create_stream("orders", shards=4)
    producer = Producer(kinesis.in_process_client(), "orders", clock)
    for _ in range(50):
        producer.put_once()
    accepted = producer.accepted()
    assert producer.count == len(accepted) == 50 * RECORDS_PER_CALL
    assert sum(producer.accepted_by_shard().values()) == producer.count
    numbers: dict[str, list[int]] = {}
    for record in accepted:
        assert decode(record.data) == (record.key, record.number)
        numbers.setdefault(record.key, []).append(record.number)
    assert all(seen == list(range(len(seen))) for seen in numbers.values())
    in_stream = {
        (record["SequenceNumber"], record["Data"]) for record in _all_records(kinesis, "orders")
    }
    assert in_stream == {(record.sequence_number, record.data) for record in accepted}


def _all_records(kinesis: LocalKinesis, stream: str) -> list[dict[str, Any]]:
    client = kinesis.in_process_client()
    records = []
    for shard in client.list_shards(StreamName=stream)["Shards"]:
        iterator = client.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records += client.get_records(ShardIterator=iterator)["Records"]
    return records


class RefusingOnce:
    """A client whose first put_records has one refused entry, as a shard over its quota gives."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._refused = False

    def put_records(self, StreamName: str, Records: list[Any]) -> dict[str, Any]:
        if self._refused:
            return self._client.put_records(StreamName=StreamName, Records=Records)
        self._refused = True
        answer = self._client.put_records(StreamName=StreamName, Records=Records[1:])
        refusal = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "slow"}
        return {"Records": [refusal, *answer["Records"]]}


def test_a_refused_record_is_not_in_the_ledger_and_its_number_is_used_again() -> None:
    clock = ManualClock()
    kinesis = LocalKinesis(clock=clock)
    kinesis.create_stream("orders", shards=1)
    producer = Producer(RefusingOnce(kinesis.in_process_client()), "orders", clock)
    for _ in range(20):
        producer.put_once()
    assert producer.count == 20 * RECORDS_PER_CALL - 1
    numbers: dict[str, list[int]] = {}
    for record in producer.accepted():
        numbers.setdefault(record.key, []).append(record.number)
    assert all(seen == list(range(len(seen))) for seen in numbers.values())


def test_stopping_a_producer_raises_what_ended_it() -> None:
    clock = ManualClock()
    kinesis = LocalKinesis(clock=clock)
    producer = Producer(kinesis.in_process_client(), "no-such-stream", clock)
    with producer, pytest.raises(Exception, match="no-such-stream"):
        producer.stop()


def shard(number: int, parents: tuple[int, ...] = (), **fields: Any) -> ShardView:
    view = {"closed": False, "position": None, "put": 0, "rows": 0} | fields
    name = "shardId-{:012}".format
    return ShardView(name(number), tuple(name(parent) for parent in parents), **view)


def test_the_tree_shows_splits_merges_and_each_shards_state() -> None:
    lines = draw_lineage(
        [
            shard(0, closed=True, put=1200, rows=1200),
            shard(1, closed=True, position="SHARD_END", put=7, rows=7),
            shard(2, (0,), position="AFTER_SEQUENCE_NUMBER 4957123456789", put=5, rows=4),
            shard(3, (0,), closed=True, put=2, rows=2),
            shard(4, (3, 1), position="TRIM_HORIZON"),
        ]
    )
    assert lines == [
        "shard 0                 closed   1,200 of  1,200 rows   finished, has left the offset",
        "├─ shard 2              open         4 of      5 rows   AFTER_SEQUENCE_NUMBER …23456789",
        "└─ shard 3              closed       2 of      2 rows   finished, has left the offset",
        "   └─ shard 4 (merged)  open         0 of      0 rows   TRIM_HORIZON",
        "shard 1                 closed       7 of      7 rows   finished: SHARD_END",
        "└─ shard 4              (the merged shard above)",
    ]


def test_a_shard_whose_parents_are_no_longer_listed_is_a_root() -> None:
    lines = draw_lineage([shard(9, (3,)), shard(8, (3,))])
    assert [line.split("  ")[0] for line in lines] == ["shard 8", "shard 9"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_live_line_is_rewritten_and_ended_before_the_next_line() -> None:
    out = Terminal()
    console = Console(out, ManualClock())
    console.live("put 1,000")
    console.live("put 2")
    console.say("done")
    assert out.getvalue() == "\r  0:00  put 1,000\r  0:00  put 2    \ndone\n"


def test_off_a_terminal_a_live_line_comes_every_five_seconds() -> None:
    out, clock = io.StringIO(), ManualClock()
    console = Console(out, clock)
    for second in range(12):
        console.live(f"second {second}")
        clock.sleep(1)
    assert out.getvalue() == "  0:05  second 5\n  0:10  second 10\n"


def write_offset(checkpoint: Path, batch: int, shards: dict[str, str]) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    entries = {shard_id: [position, None] for shard_id, position in shards.items()}
    offset = json.dumps({"v": 1, "stream": {}, "shards": entries})
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset}")


def commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def test_a_batch_is_unfinished_between_its_offset_and_its_commit(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.unfinished_batch() is None
    assert checkpoint.positions() == {}
    write_offset(tmp_path, 0, {"shardId-0": "TRIM_HORIZON"})
    assert checkpoint.unfinished_batch() == 0
    commit(tmp_path, 0)
    assert checkpoint.unfinished_batch() is None
    for batch in range(1, 11):
        write_offset(tmp_path, batch, {"shardId-0": "SHARD_END"})
    (tmp_path / "offsets" / ".11.abc.tmp").touch()
    (tmp_path / "offsets" / ".10.crc").touch()
    assert checkpoint.unfinished_batch() == 10
    assert checkpoint.offsets() == list(range(11))
    assert checkpoint.commits() == [0]
    assert checkpoint.positions() == {"shardId-0": "SHARD_END"}
    assert checkpoint.offset_text(0) != checkpoint.offset_text(1) == checkpoint.offset_text(2)


def write_part(sink: Path, name: str, rows: int) -> str:
    pq.write_table(pa.table({"data": [b"x"] * rows}), sink / name)
    return json.dumps({"path": (sink / name).as_uri(), "action": "add"})


def test_the_sink_counts_only_files_in_its_log_and_knows_their_batch(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    sink = Sink(tmp_path)
    sink.refresh()
    assert sink.row_count == 0
    first = write_part(tmp_path, "part-00000-a.parquet", 3)
    assert sink.unlisted_files() == {"part-00000-a.parquet"}
    (log / "0").write_text(f"v1\n{first}")
    assert sink.unlisted_files() == set()
    second = write_part(tmp_path, "part-00000-b.parquet", 4)
    (log / "1").write_text("v1")
    # A compact file repeats what came before it.
    (log / "2.compact").write_text(f"v1\n{first}\n{second}")
    write_part(tmp_path, "part-00000-left-over.parquet", 5)
    sink.refresh()
    assert sink.row_count == 7
    assert sink.batch_of("part-00000-a.parquet") == 0
    assert sink.batch_of("part-00000-b.parquet") == 2
    assert sink.unlisted_files() == {"part-00000-left-over.parquet"}


def test_a_spark_process_that_ends_with_an_error_is_shown_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    with SparkProcess("no_such_module_here", log=tmp_path / "spark.log") as spark:
        with pytest.raises(SparkFailedError, match="No module named no_such_module_here"):
            spark.finish(30)
        with pytest.raises(SparkFailedError, match="status 1"):
            spark.check()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_demo_kills_spark_in_a_batch_and_finds_every_record_once_in_order(
    tmp_path: Path,
) -> None:
    output = tmp_path / "output"
    demo = subprocess.run(
        [sys.executable, "-m", "kinesis_source.demo", "--output", output],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    killed_in = re.search(r"checkpoint/commits/(\d+)  is not", demo.stdout)
    assert killed_in is not None
    assert (output / "checkpoint" / "commits" / killed_in.group(1)).exists()
    for name in ("lost", "repeated", "out of order", "changed"):
        assert re.search(rf"^  {name} +0\b", demo.stdout, re.MULTILINE)
    # 4 shards, two splits and a merge, then a merge and a split.
    assert len(set(re.findall(r"shard \d+", demo.stdout.partition("Lineage")[2]))) == 12
