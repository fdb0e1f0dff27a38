"""The Python blocks that are scripts; collected only by the process that `test_code_blocks.py`
starts with `python_session` as its plugin."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.docs.blocks import Block
from tests.docs.python_blocks import script_blocks
from tests.docs.scripts import Scripts


@pytest.mark.parametrize("block", script_blocks(), ids=str)
def test_it_runs(block: Block, scripts: Scripts, spark: SparkSession) -> None:
    scripts.run(block, spark)
