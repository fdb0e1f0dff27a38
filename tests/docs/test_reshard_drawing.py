"""The reshard that docs/guarantees.md draws is one that happened."""

from __future__ import annotations

import pytest

from tests.docs.blocks import block_with
from tests.docs.reshard_drawing import draw, offset_text, reshard
from tests.unit.planning.local_query import LocalQuery

AGAIN = "put in what `python -m tests.docs.reshard_drawing` prints"


@pytest.fixture(scope="module")
def resharded() -> LocalQuery:
    query = reshard()
    query.check_complete()
    return query


def test_the_drawing(resharded: LocalQuery) -> None:
    assert block_with("docs/guarantees.md", "TIME →").text == draw(resharded), AGAIN


def test_the_offset(resharded: LocalQuery) -> None:
    assert block_with("docs/guarantees.md", '"createdMs"').text == offset_text(resharded), AGAIN
