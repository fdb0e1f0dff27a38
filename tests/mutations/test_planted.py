"""The mutations keep up with the code. `make mutations` sees what finds them; that takes long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.__main__ import copy_project, plant
from tests.mutations.planted import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_can_be_planted(mutation: Mutation, tmp_path: Path) -> None:
    copy_project(tmp_path)
    plant(mutation, tmp_path)
    for name, _, after in mutation.edits:
        text = (tmp_path / "kinesis_source" / name).read_text()
        assert after in text
        compile(text, name, "exec")
    for path in mutation.tests.split():
        assert (tmp_path / path).exists()
