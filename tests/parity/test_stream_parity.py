"""What `make parity` compares, as far as it can be held without the other two streams."""

from __future__ import annotations

import pytest

from tests.parity import emulators
from tests.parity.__main__ import DOCS, answers_of
from tests.parity.answers import Answers
from tests.parity.differences import DIFFERENCES, NOT_ASKED, as_markdown, unexpected


@pytest.fixture(scope="module")
def ours() -> Answers:
    return answers_of(emulators.ours())


def as_listed(service: str, ours: Answers) -> Answers:
    """The answers of a service that differs exactly as the table says."""
    theirs = dict(ours)
    for difference in DIFFERENCES:
        if difference.service == service:
            theirs |= difference.answers
    return {question: answer for question, answer in theirs.items() if answer != NOT_ASKED}


@pytest.mark.parametrize("service", emulators.VERSIONS)
def test_the_table_is_a_table_of_differences(service: str, ours: Answers) -> None:
    assert list(unexpected(service, ours, as_listed(service, ours))) == []


@pytest.mark.parametrize("service", emulators.VERSIONS)
def test_an_unlisted_difference_is_found(service: str, ours: Answers) -> None:
    theirs = as_listed(service, ours) | {"merge": "ResourceInUseException"}
    (found,) = unexpected(service, ours, theirs)
    assert "merge" in found


@pytest.mark.parametrize("service", emulators.VERSIONS)
def test_a_difference_that_is_gone_is_found(service: str, ours: Answers) -> None:
    theirs = as_listed(service, ours) | {"put 1 MiB and a key": ours["put 1 MiB and a key"]}
    (found,) = unexpected(service, ours, theirs)
    assert "put 1 MiB and a key" in found


def test_the_page_in_the_docs_is_made_from_the_table(ours: Answers) -> None:
    assert DOCS.read_text() == as_markdown(ours), "run python -m tests.parity --write-docs"
