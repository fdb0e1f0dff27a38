"""Blocks and commands that are run by a test of their own. Whoever adds one to a page declares it
here; all others are run by `test_code_blocks.py`, by their language.

A block: write a test that takes it from the page with `blocks.block_with(page, part)` and runs it
or compares it with the real thing; then add `Elsewhere(page, part, test)`.

A command line of an `sh` block (`pip install …`, `spark-submit …`): add its exact text and the test
that runs it. A change of the page then has to be a change here, and a look at that test.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    """`part`: text that one block of the page contains, and no other. `test`: its node id."""

    page: str
    part: str
    test: str

    def __str__(self) -> str:
        return f"{self.page}: {self.part}"


_TEXTS = "tests/docs/test_texts.py::"
_POLICY = "tests/unit/aws/test_policy.py::"
_INSTALLING = "tests/cluster/test_installing.py::"
_INSTALLED = _INSTALLING + "test_installed_on_every_machine"
_PACKED = _INSTALLING + "test_a_packed_environment"
_ONE_FILE = _INSTALLING + "test_one_file_beside_the_installed_dependencies"
_CONNECT = "tests/cluster/test_connect.py::test_a_thin_client_on_spark_connect"

BLOCKS = (
    Elsewhere(
        "README.md",
        '"Statement"',
        _POLICY + "test_the_life_of_a_query_makes_the_calls_that_the_readme_allows",
    ),
    Elsewhere(
        "docs/access.md",
        '"arn:aws:iam::STREAM-ACCOUNT:role/NAME"',
        _POLICY + "test_a_role_takes_the_call_that_the_document_allows",
    ),
    Elsewhere(
        "docs/access.md",
        '"Principal"',
        _POLICY + "test_a_role_takes_the_call_that_the_document_allows",
    ),
    Elsewhere(
        "docs/access.md",
        "dynamodb:",
        _POLICY + "test_lease_tables_take_the_calls_that_the_document_allows",
    ),
    Elsewhere("docs/clusters.md", "python3 -m venv /opt/job", _INSTALLED),
    Elsewhere("docs/clusters.md", "--master spark://host:7077 job.py", _INSTALLED),
    Elsewhere("docs/clusters.md", "venv-pack --prefix", _PACKED),
    Elsewhere("docs/clusters.md", "--archives environment.tar.gz#environment", _PACKED),
    Elsewhere("docs/clusters.md", "pip wheel", _ONE_FILE),
    Elsewhere("docs/clusters.md", "--py-files kinesis.zip job.py", _ONE_FILE),
    Elsewhere("docs/clusters.md", "start-connect-server", _CONNECT),
    Elsewhere("docs/clusters.md", "sc://host:15002", _CONNECT),
    Elsewhere("docs/operating.md", "batch planned in", _TEXTS + "test_the_log_line_of_a_batch"),
    Elsewhere("docs/migrating.md", '"iteratorType"', _TEXTS + "test_an_offset_of_awslabs"),
    Elsewhere("docs/guarantees.md", "TIME", "tests/docs/test_reshard_drawing.py::test_the_drawing"),
    Elsewhere(
        "docs/guarantees.md", '"createdMs"', "tests/docs/test_reshard_drawing.py::test_the_offset"
    ),
)

COMMANDS = {
    "make demo": (
        "tests/project/test_demo_pieces.py::"
        "test_the_demo_kills_spark_in_a_batch_and_finds_every_record_once_in_order"
    ),
    "pip install '.[cli]'": _TEXTS + "test_the_extra_brings_what_the_command_needs",
    # The same as in docs/clusters.md.
    "export PYSPARK_PYTHON=/opt/job/bin/python": _INSTALLED,
    "spark-submit --master spark://host:7077 job.py": _INSTALLED,
}
