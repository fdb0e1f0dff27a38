"""Every code block of README.md and docs/*.md is run, by its language:

| language | how |
|---|---|
| `python` | in real Spark on a local stream: scripts as they are (`scripts.py`), tests by pytest |
| `sh` | line by line: `kinesis-source …`, `make …`, `python -m kinesis_source.testing …` |
| `json`, a query's progress | compared with the shape of a real one |
| others | by a test of its own, declared in `elsewhere.py`; so can be those above |

A block for which there is no way fails here, by its file and line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kinesis_source.testing import ManualClock
from tests.compat.fixtures import HERE, load_fixture
from tests.compat.history import restore
from tests.docs.blocks import Block, all_blocks, parse_blocks
from tests.docs.elsewhere import BLOCKS, COMMANDS, Elsewhere
from tests.docs.pins import blocks_named, is_run_elsewhere, source_of_test
from tests.docs.progress import check_shape, is_progress, progress_blocks
from tests.docs.python_blocks import Ran, python_blocks, run_python_blocks
from tests.docs.shell import WORDS, CannotRun, command_lines, run_line
from tests.support.dynamodb import local_dynamodb
from tests.support.kcl_rows import kcl_2

MOMENT = "0.1.0/merge_half_drained"
#: Of that stream.
REGION = "us-east-1"


def shell_blocks() -> list[Block]:
    return [b for b in all_blocks() if b.language == "sh" and not is_run_elsewhere(b)]


@pytest.mark.parametrize("block", all_blocks(), ids=str)
def test_there_is_a_way_to_run_it(block: Block) -> None:
    assert block.language in ("python", "sh") or is_progress(block) or is_run_elsewhere(block), (
        f"{block}: a block of the language {block.language!r} is run by no test; "
        "see tests/docs/elsewhere.py"
    )


# Python


@pytest.fixture(scope="module")
def python_run(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_python_blocks(tmp_path_factory.mktemp("python_blocks"))


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", python_blocks(), ids=str)
def test_a_python_block_runs(block: Block, python_run: Ran) -> None:
    assert str(block) in python_run.problems, f"{block} did not run"
    assert python_run.problems[str(block)] == ""


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", progress_blocks(), ids=str)
def test_the_progress_in_a_page_is_like_a_real_one(block: Block, python_run: Ran) -> None:
    quoted, real = json.loads(block.text), python_run.progress
    check_shape(quoted, real if "sources" in quoted else real["sources"][0]["latestOffset"])


# Commands


@pytest.fixture
def words(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What stands for a page's words: a stream, a query's checkpoint on it, a lease table."""
    with (
        restore(load_fixture(MOMENT).history, clock) as kinesis,
        local_dynamodb(REGION) as dynamodb,
    ):
        environment = {
            "AWS_ENDPOINT_URL_KINESIS": kinesis.endpoint_url,
            "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "SECRETEXAMPLE",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": "/nowhere",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        dynamodb.create_lease_table(
            "orders-application",
            [
                kcl_2(
                    shard.shard_id,
                    "TRIM_HORIZON" if shard.closed_ms is None else "SHARD_END",
                    shard.hash_range,
                    parents=shard.parents,
                )
                for shard in kinesis.ledger("orders").shards.values()
            ],
        )
        checkpoint = str(HERE / MOMENT / "checkpoint")
        values = ("orders-application", "orders", checkpoint, checkpoint)
        yield dict(zip(WORDS, values, strict=True))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize("block", shell_blocks(), ids=str)
def test_the_lines_of_a_shell_block_run(
    block: Block, words: dict[str, str], clock: ManualClock
) -> None:
    for line in command_lines(block):
        try:
            run_line(line, words, clock)
        except CannotRun as problem:
            pytest.fail(f"{block}: {problem}; see tests/docs/elsewhere.py")


# What is run elsewhere


@pytest.mark.parametrize("pin", BLOCKS, ids=str)
def test_a_block_that_is_run_elsewhere_is_one_and_its_test_reads_the_page(pin: Elsewhere) -> None:
    assert len(blocks_named(pin)) == 1
    assert f'"{pin.page}"' in source_of_test(pin.test), "the test must take the block from the page"


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_that_is_run_elsewhere_is_on_a_page_and_its_test_exists(line: str) -> None:
    pages = {block.page for block in shell_blocks() if line in command_lines(block)}
    assert pages, "no page has this line any more"
    assert source_of_test(COMMANDS[line])


# The runner itself


@pytest.mark.parametrize(
    "quoted",
    [
        {"max": 1, "min": 0},
        {"max": "1"},
        {"shards": {"shardId-000000000007": None}},
        {"shards": {"0": 1}},
        {"list": [{"b": 1}]},
    ],
)
def test_a_shape_that_is_not_the_real_one_is_noticed(quoted: object) -> None:
    real = {"max": 5, "shards": {"shardId-000000000000": 5}, "list": [{"a": 1}]}
    check_shape({"max": 1, "shards": {"shardId-000000000009": 0}, "list": [{"a": 0}]}, real)
    with pytest.raises(AssertionError):
        check_shape(quoted, real)


def test_blocks_are_found_with_their_lines_and_without_their_indentation() -> None:
    page = (
        "a\n```sh\nls\n```\n1. b\n\n   ```python\n   if x:\n       y\n   ```\n\n````\n```\n````\n"
    )
    assert parse_blocks("p", page) == [
        Block("p", 2, "sh", "ls\n"),
        Block("p", 7, "python", "if x:\n    y\n"),
        Block("p", 12, "", "```\n"),
    ]


def test_a_block_that_is_never_closed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"p:2"):
        parse_blocks("p", "a\n```sh\nls\n")


@pytest.mark.parametrize(
    "line",
    ["rm -r folder", "make soak", "kinesis-source shards --stream x | head", "pip install x"],
)
def test_a_line_that_nobody_declared_cannot_be_run(line: str) -> None:
    with pytest.raises(CannotRun):
        run_line(line, {}, ManualClock())


def test_a_command_that_fails_fails_the_block(words: dict[str, str], clock: ManualClock) -> None:
    with pytest.raises(AssertionError, match="no-such-stream"):
        run_line("kinesis-source shards --stream no-such-stream", words, clock)


@pytest.mark.parametrize(
    "node_id",
    ["tests/no_such.py::test_x", "tests/docs/test_code_blocks.py::test_that_is_not_there"],
)
def test_a_test_that_does_not_exist_is_noticed(node_id: str) -> None:
    with pytest.raises(AssertionError, match="there is no such"):
        source_of_test(node_id)
