"""What Spark has written: the checkpoint's two logs, and the log of the Parquet sink.

Spark creates these files by renaming, so a file that is there is complete. Read-only.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from kinesis_source.spark_checkpoint import SparkCheckpoint


class Checkpoint(SparkCheckpoint):
    """A query's checkpoint folder on this machine. It need not exist yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(LocalFileSystem(), str(path), str(path))
        self.path = path

    def positions(self) -> dict[str, str]:
        """Shard → position in the last offset; empty before the first batch."""
        offsets = self.offsets()
        if not offsets:
            return {}
        shards = json.loads(self.offset_text(offsets[-1]))["shards"]
        return {shard_id: entry[0] for shard_id, entry in shards.items()}

    def offset_text(self, batch: int) -> str:
        """The offset of the query's only source at the end of a batch, as it was written."""
        text = self.end_of(batch).sources[0].text
        assert text is not None
        return text


class Sink:
    """A Parquet sink folder. Only the files in its log count: the others are left-overs of
    batches that did not finish, and Spark does not read them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._batch_of_file: dict[str, int] = {}
        self._batches_read: set[int] = set()
        self._rows = 0

    def refresh(self) -> None:
        """Take in the batches logged since the last call."""
        log = self.path / "_spark_metadata"
        # Every tenth log file is called N.compact and repeats those before it.
        for batch in _batch_ids(log, suffix=".compact"):
            if batch in self._batches_read:
                continue
            plain = log / str(batch)
            entries = plain if plain.exists() else log / f"{batch}.compact"
            for line in entries.read_text().splitlines()[1:]:
                file = Path(json.loads(line)["path"]).name
                if file not in self._batch_of_file:
                    self._batch_of_file[file] = batch
                    self._rows += pq.read_metadata(self.path / file).num_rows
            self._batches_read.add(batch)

    @property
    def row_count(self) -> int:
        return self._rows

    def batch_of(self, file: str) -> int:
        """The batch that wrote a file, given by its name; KeyError if no batch did."""
        return self._batch_of_file[file]

    def unlisted_files(self) -> set[str]:
        """Data files of a batch that is not logged: it is being written, or was when Spark died."""
        written = {path.name for path in self.path.glob("part-*.parquet")}
        self.refresh()
        return written - self._batch_of_file.keys()


def _batch_ids(folder: Path, suffix: str = "") -> list[int]:
    if not folder.is_dir():
        return []
    names = {path.name.removesuffix(suffix) for path in folder.iterdir()}
    return sorted(int(name) for name in names if name.isdecimal())
