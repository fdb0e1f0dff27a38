"""Writes the tables of options into README.md and docs/migrating.md from the declarations of our
options and of other connectors' (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from kinesis_source.options import options_table
from kinesis_source.options.peers import peers_tables

ROOT = Path(__file__).parent.parent


def main() -> None:
    _write_between(ROOT / "README.md", "options", options_table())
    _write_between(ROOT / "docs" / "migrating.md", "peers", peers_tables())


def _write_between(page: Path, name: str, table: str) -> None:
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    before, _, rest = page.read_text().partition(start)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{start}\n{table.strip()}\n{end}{after}")


if __name__ == "__main__":
    main()
