"""Running a command as a person does."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from kinesis_source.cli.app import app
from kinesis_source.testing import LocalKinesis, ManualClock


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def table(self) -> str:
        """What follows the first empty line."""
        return self.out.partition("\n\n")[2]

    @property
    def cells(self) -> dict[str, list[str]]:
        """The table's rows, without empty cells, by their shard."""
        rows = [re.split(r"\s{2,}", line) for line in self.table.partition("\n\n")[0].splitlines()]
        shard = re.compile(r"shardId-\d{12}")
        found = ((shard.search(" ".join(row)), row) for row in rows)
        return {name[0]: [c for c in row if c and name[0] not in c] for name, row in found if name}


@dataclass
class CommandLine:
    clock: ManualClock

    def __call__(self, *arguments: str, kinesis: LocalKinesis | None = None) -> Ran:
        """Run it; with the flags that reach `kinesis`, if given."""
        if kinesis is not None:
            arguments = (*arguments, "--endpoint-url", kinesis.endpoint_url)
        result = CliRunner().invoke(
            app, list(arguments), obj=self.clock, prog_name="kinesis-source"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)
