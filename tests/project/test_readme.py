"""README.md says what is so: options, commands, error names, and examples that run."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kinesis_source import errors
from kinesis_source.options import options_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_options_table_is_the_declaration_of_the_options() -> None:
    between = README.partition("<!-- options:start -->")[2].partition("<!-- options:end -->")[0]
    assert between.strip() == options_table().strip(), "run `make docs`"


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = README + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", texts, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named <= targets


def test_the_first_two_commands_are_the_demo_and_the_tests() -> None:
    commands = [line.split("#")[0].strip() for line in code_blocks("sh")[0].splitlines()]
    assert commands == ["make demo", "make test"]


def user_facing_errors() -> list[str]:
    """The leaves of the error tree, except `ServiceError`s: those stay inside the connector."""
    classes = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.KinesisSourceError) and not issubclass(cls, errors.ServiceError)
    ]
    # Of the errors that others derive from, only this one is raised itself.
    return [
        cls.__name__
        for cls in classes
        if not cls.__subclasses__() or cls is errors.ConfigurationError
    ]


@pytest.mark.parametrize("name", user_facing_errors())
def test_troubleshooting_has_every_error_a_user_can_meet(name: str) -> None:
    troubleshooting = README.partition("## Troubleshooting")[2].partition("\n## ")[0]
    assert re.search(rf"^\| `{name}` \|", troubleshooting, re.MULTILINE)


def test_troubleshooting_has_no_error_that_does_not_exist() -> None:
    named = re.findall(r"^\| `(\w+Error)` \|", README, re.MULTILINE)
    assert sorted(named) == sorted(user_facing_errors())


def test_every_file_that_is_linked_or_named_by_path_exists() -> None:
    texts = README + (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"\]\((?!https?:|#)([^)]+)\)", texts)
    paths += re.findall(r"`((?:docker|docs|kinesis_source|tests)/[\w./-]+)`", texts)
    # The table of faults names modules without the package's own folder.
    paths += [
        f"kinesis_source/{path}"
        for path in re.findall(r"`((?:core|aws|options|planning|reading|spark)/[\w.]*)`", texts)
    ]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("block", code_blocks("python"), ids=lambda code: code.split("(")[0][-24:])
def test_the_python_examples_compile(block: str) -> None:
    compile(block, "README.md", "exec")


CONFTEST = """
import pytest
from pyspark.sql import SparkSession

@pytest.fixture(scope="session")
def spark():
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()
"""


@pytest.mark.spark
def test_the_example_of_a_users_test_passes_in_a_project_that_has_a_spark_fixture(
    tmp_path: Path,
) -> None:
    (example,) = [block for block in code_blocks("python") if "local_kinesis" in block]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_orders.py").write_text(example)
    # In a process of its own, as this one's Spark belongs to other tests.
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout
    assert "1 passed" in finished.stdout
