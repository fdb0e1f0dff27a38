"""The code blocks of a page, which these tests run as they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.spark.drivers import ROOT


def blocks(page: str, heading: str) -> list[str]:
    """The code blocks below a heading and above the next one, in their order. `page`: its path."""
    parts = re.split(r"^#+ (.+)\n", (ROOT / page).read_text(), flags=re.MULTILINE)
    text = dict(zip(parts[1::2], parts[2::2], strict=True))[heading]
    return re.findall(r"^```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def filled(block: str, values: Mapping[str, str]) -> str:
    """The block with this machine's paths and addresses for the page's. Each must be in it."""
    for example, value in values.items():
        assert example in block, f"{example!r} is not in the block:\n{block}"
        block = block.replace(example, value)
    return block
