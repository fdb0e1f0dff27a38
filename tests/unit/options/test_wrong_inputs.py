"""docs/errors.md says what wrong inputs really say."""

from __future__ import annotations

import pytest

from kinesis_source.options import OPTIONS
from tests.unit.options.wrong_inputs import (
    END,
    PAGE,
    SECRET,
    START,
    WRONG_INPUTS,
    WrongInput,
    page_section,
)

WAYS_OUT = (
    *("expected", "needs", "did you mean", "Leave", "Limit", "Give", " as in "),
    *("call load", "use spark.readStream"),
)
ALL = [wrong for inputs in WRONG_INPUTS.values() for wrong in inputs]


def test_the_page_has_the_true_texts() -> None:
    between = PAGE.read_text().partition(START)[2].partition(END)[0]
    assert between.strip() == page_section().strip(), "run `make docs`"
    assert len(ALL) >= 30
    assert SECRET not in PAGE.read_text()
    assert "password" not in PAGE.read_text().replace("me:password@", "").replace("or password", "")


@pytest.mark.parametrize("wrong", ALL, ids=WrongInput.title)
def test_each_names_an_option_and_what_to_do(wrong: WrongInput) -> None:
    message = wrong.error()
    assert message.startswith("OptionError: ")
    assert any(word in message for word in WAYS_OUT)
    if wrong not in WRONG_INPUTS["Calls"]:
        # A misspelt name is shown in lower case, as Spark gives it.
        names = [*wrong.options, *(spec.name for spec in OPTIONS)]
        assert any(name.lower() in message.lower() for name in names)
