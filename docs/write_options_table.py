"""Writes the table of options into README.md from the options' declaration (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from kinesis_source.options import options_table

START, END = "<!-- options:start -->", "<!-- options:end -->"


def main() -> None:
    readme = Path(__file__).parent.parent / "README.md"
    before, _, rest = readme.read_text().partition(START)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{START}\n{options_table().strip()}\n{END}{after}")


if __name__ == "__main__":
    main()
