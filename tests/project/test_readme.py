"""README.md says what is so: options, commands, error names. Its code blocks are run by
`tests/docs/`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from kinesis_source import errors
from kinesis_source.options import options_table
from tests.docs.blocks import blocks_of
from tests.docs.shell import command_lines

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


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
    first = next(block for block in blocks_of("README.md") if block.language == "sh")
    assert command_lines(first) == ["make demo", "make test"]


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
    assert [path for path in paths if not (ROOT / path.partition("#")[0]).exists()] == []
