"""What pages quote (log lines, a policy, figures) is what there is."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import Callable

import pytest

from kinesis_source.core.offset import Offset, TrackedShard, serialize_offset
from kinesis_source.core.positions import AfterSequenceNumber
from kinesis_source.core.shards import StreamIdentity
from kinesis_source.core.starting_position import LATEST, PerShard, parse_starting_position
from kinesis_source.reading.task import BUFFER_BYTES, THREADS
from kinesis_source.spark.stream_reader import PLANNING_THREADS
from tests.docs.blocks import ROOT, block_with
from tests.docs.call_costs import table
from tests.unit.planning.local_query import LocalQuery


def test_the_log_line_of_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its figures, the line on the page has the words of the real one."""
    quoted = block_with("docs/operating.md", "batch planned in").text.strip()
    query = LocalQuery()
    query.put(query.shard())
    with caplog.at_level(logging.INFO):
        query.trigger()
    query.close()
    (line,) = [r for r in caplog.records if "batch planned in" in r.getMessage()]
    words = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\d+|calls: [^;]+")
    head = f"26/12/01 10:58:18 {line.levelname} {line.name}: "
    assert words.sub("#", quoted) == words.sub("#", head + line.getMessage())


def test_an_offset_of_awslabs() -> None:
    """The last line of a file of its checkpoint, as it stands on the page, is a place to start."""
    text = block_with("docs/migrating.md", '"iteratorType"').text
    shard_id, place = next(
        (name, entry) for name, entry in json.loads(text).items() if name.startswith("shardId-")
    )
    number = int(place["iteratorPosition"])
    assert parse_starting_position(text) == PerShard(
        LATEST, {shard_id: AfterSequenceNumber(number)}, "orders"
    )


def test_the_extra_brings_what_the_command_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[><=~]", text)[0] for text in project["optional-dependencies"]["cli"]}
    assert names == {"click", "rich"}
    assert project["scripts"] == {"kinesis-source": "kinesis_source.cli:main"}


# docs/tuning.md

TUNING = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")


def test_the_calls_of_a_shard() -> None:
    between = TUNING.partition("<!-- calls:start -->")[2].partition("<!-- calls:end -->")[0]
    assert between.strip() == table().strip(), (
        "put in what `python -m tests.docs.call_costs` prints"
    )


def _bytes_a_shard() -> int:
    """Of an offset in Spark's log."""

    def size(shards: int) -> int:
        place = TrackedShard(AfterSequenceNumber(10**55), 1_764_585_600_000)
        places = {f"shardId-{number:012}": place for number in range(shards)}
        stream = StreamIdentity("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 10**12)
        return len(json.dumps(serialize_offset(Offset(stream, places)), separators=(",", ":")))

    return round((size(1_000) - size(0)) / 1_000)


@pytest.mark.parametrize(
    ("words", "figure"),
    [
        (r"about (\d+) bytes a shard", _bytes_a_shard),
        (r"buffer of (\d+) MiB a task", lambda: BUFFER_BYTES >> 20),
        (r"(\d+) threads a task", lambda: THREADS),
        (r"(\d+) threads of the planner", lambda: PLANNING_THREADS),
    ],
)
def test_a_figure_of_the_code(words: str, figure: Callable[[], int]) -> None:
    found = re.findall(words, " ".join(TUNING.split()))
    assert found == [str(figure())]
