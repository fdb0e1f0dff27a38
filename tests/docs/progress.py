"""JSON blocks that show a query's progress, or the lag in it, against a real one."""

from __future__ import annotations

import json
import re

from tests.docs.blocks import Block, all_blocks

_SHARD = re.compile(r"shardId-\d{12}")


def is_progress(block: Block) -> bool:
    if block.language != "json":
        return False
    return not {"sources", "millisBehindLatest"}.isdisjoint(json.loads(block.text))


def progress_blocks() -> list[Block]:
    return [block for block in all_blocks() if is_progress(block)]


def check_shape(quoted: object, real: object, at: str = "") -> None:
    """What a page quotes has members of these names and types in the real one. A page may leave
    members out; figures, texts and the names of shards are its own."""
    match quoted, real:
        case dict(), dict():
            by_shard = {_SHARD.sub("shardId", name): value for name, value in real.items()}
            for name, value in quoted.items():
                general = _SHARD.sub("shardId", name)
                assert general in by_shard, f"{at}: there is no {name!r}"
                check_shape(value, by_shard[general], f"{at}.{name}")
        case list(), list():
            for value in quoted:
                check_shape(value, real[0], f"{at}[]")
        case _:
            assert isinstance(quoted, type(real)), f"{at}: {quoted!r}, really {real!r}"
