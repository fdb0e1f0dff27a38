"""The command `kinesis-source`: look at streams, Spark checkpoints and lease tables.

Modules that gather give values, `printing` is the only one that prints, `app` joins them.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point. Exit status 2 for everything that the caller can mend."""
    try:
        from kinesis_source.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.stderr.write(
            f"kinesis-source needs {missing}, which is not installed; expected the extra 'cli': "
            "pip install 'pyspark-kinesis[cli]'\n"
        )
        sys.exit(2)
    app(prog_name="kinesis-source")
