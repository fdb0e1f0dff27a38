"""A query's checkpoint folder as Spark writes it: the ends of planned batches, and the commits.

    <checkpointLocation>/metadata      {"id": "<query id>"}
                         offsets/N     the end of batch N, written down before it runs
                         commits/N     batch N has completed

`offsets/N` (Spark's OffsetSeqLog, read in 4.3): a line `v1` or `v2`, a line of Spark's metadata in
JSON, then a line for each source of the query. In `v1` its place in the query says which one it
is, and `-` stands for a source without an offset. In `v2`
(`spark.sql.streaming.offsetLog.formatVersion`) a line is `<name>:<offset>`, in any order; sources
that were given no name are called by their place.

Spark makes these files by renaming, so a file that is there is complete. Read-only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from kinesis_source.errors import CheckpointError

_LOGS = ("offsets", "commits")
#: What Hadoop calls S3, and what pyarrow does.
_HADOOP_S3 = re.compile(r"^s3[an]://")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
#: Folders looked into for an error that names the checkpoints below.
_MOST_NAMED = 20
#: How much of a store's error is passed on.
_MOST_SAID = 300


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """`source`: its name in the query, else its place, counted from 0. `text`: what the source's
    own offset serializes to, None if it had none."""

    source: str
    text: str | None

    @property
    def is_kinesis(self) -> bool:
        """Whether this connector wrote it, in this or another version of its format."""
        match self.parsed:
            case {"v": _, "shards": _} | {"v": _, "stream": _} | {"v": _, "initial": _}:
                return True
        return False

    @property
    def parsed(self) -> Any:
        """The JSON value; None for no offset, and for one that is not JSON."""
        try:
            return json.loads(self.text or "null")
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """One file of `offsets`. `timestamp_ms`: when the batch was planned, by the driver's clock;
    None where Spark did not write it down."""

    batch: int
    timestamp_ms: int | None
    sources: tuple[SourceOffset, ...]

    def of_source(self, source: str) -> str | None:
        """The offset of one source, None if it had none."""
        return next((s.text for s in self.sources if s.source == source), None)


class SparkCheckpoint:
    """Need not exist yet, except for `check`. All methods may raise `CheckpointError` for a store
    that cannot be read."""

    def __init__(self, filesystem: FileSystem, folder: str, shown: str) -> None:
        """`folder`: as the file system calls it; `shown`: as messages do."""
        self.shown = shown
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")

    def offsets(self) -> list[int]:
        """The batches whose end was written down, in order."""
        return self._batches("offsets")

    def commits(self) -> list[int]:
        """The batches that were completed, in order."""
        return self._batches("commits")

    def unfinished_batch(self) -> int | None:
        """The batch with an offset and no commit: the one Spark is in, or was in when it died."""
        # Commits first: a batch that begins between the two looks is then unfinished, rightly.
        commits, offsets = self.commits(), self.offsets()
        if offsets and (not commits or offsets[-1] > commits[-1]):
            return offsets[-1]
        return None

    def end_of(self, batch: int) -> BatchEnd:
        return parse_batch_end(batch, self._read(f"offsets/{batch}"), self.shown)

    def query_id(self) -> str | None:
        """The id that Spark gave the query, for all its restarts; None where there is none."""
        try:
            value = json.loads(self._read("metadata"))
        except (CheckpointError, ValueError, RecursionError):
            return None
        return str(value["id"]) if isinstance(value, dict) and "id" in value else None

    def check(self) -> None:
        """Raises `CheckpointError`, with what was found instead, unless this is a checkpoint folder
        with at least one batch."""
        match self._type_of(""):
            case FileType.NotFound:
                raise CheckpointError(
                    f"{self.shown} does not exist; expected the checkpointLocation of a query"
                )
            case FileType.File:
                raise CheckpointError(
                    f"{self.shown} is a file; expected the folder that is the checkpointLocation "
                    "of a query"
                )
        if self.offsets():
            return
        raise CheckpointError(f"{self.shown} {self._what_it_is()}")

    def _what_it_is(self) -> str:
        """Of a folder without a planned batch."""
        names = self._names("")
        if "_spark_metadata" in names:
            return "is what a file sink has written; expected the checkpointLocation of the query"
        if "commits" in names and self.commits():
            return (
                "is damaged: it has commits and no offsets. The query cannot go on from it; if "
                "offsets was moved or deleted by hand, put it back"
            )
        if "metadata" in names or "offsets" in names:
            return "is the checkpoint of a query that has not planned a batch yet: nothing to show"
        folder = self._folder.rpartition("/")[2]
        if folder in (*_LOGS, "sources", "state") or any(name.isdecimal() for name in names):
            return "is a part of a checkpoint; expected the folder above it"
        below = [name for name in sorted(names)[:_MOST_NAMED] if self._names(f"{name}/offsets")]
        if below:
            return f"is not a checkpoint, but holds some: {', '.join(below)}. Name one of them"
        if not names:
            return "is empty; expected the checkpointLocation of a query"
        return "is not a Spark checkpoint: it has no folder 'offsets'"

    # The store

    def _batches(self, log: str) -> list[int]:
        return sorted(int(name) for name in self._names(log) if name.isdecimal())

    def _names(self, folder: str) -> set[str]:
        selector = FileSelector(self._path(folder), allow_not_found=True)
        try:
            return {info.base_name for info in self._filesystem.get_file_info(selector)}
        except NotADirectoryError:
            return set()
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.shown, error) from None

    def _type_of(self, name: str) -> FileType:
        try:
            return self._filesystem.get_file_info(self._path(name)).type
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.shown, error) from None

    def _read(self, name: str) -> str:
        try:
            with self._filesystem.open_input_stream(self._path(name)) as file:
                return str(file.read(), "utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(
                f"{self.shown}/{name} is not text; expected Spark's log"
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(f"{self.shown}/{name}", error) from None

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else self._folder


def open_checkpoint(location: str) -> SparkCheckpoint:
    """A local path, or any URI that pyarrow knows (`s3://`, `hdfs://`, `gs://`, `abfss://`; `s3a://`
    is S3 too). The store's own default credentials are used. Raises `CheckpointError`."""
    shown = masked(location).rstrip("/")
    if location.startswith("file:"):
        # Spark writes one slash, pyarrow wants three.
        location = "/" + location.removeprefix("file:").lstrip("/")
    if not _URI.match(location):
        return SparkCheckpoint(LocalFileSystem(), str(Path(location).absolute()), shown)
    shown = shown.partition("?")[0].rstrip("/")
    try:
        filesystem, folder = FileSystem.from_uri(_HADOOP_S3.sub("s3://", location))
    except pa.ArrowInvalid as error:
        raise CheckpointError(
            f"{shown}: {masked(str(error))}; expected a local path or a URI such as s3://, "
            "hdfs://, gs:// or abfss://. For another store, copy the folders offsets and commits"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(shown, error) from None
    return SparkCheckpoint(filesystem, folder, shown)


def masked(location: str) -> str:
    """Without the user and password that a URI may hold."""
    return re.sub(r"//\S*:\S*@", "//***@", location)


def _unreadable(shown: str, error: Exception) -> CheckpointError:
    # The first line: some stores append a page on where they looked for their libraries.
    reason = masked(str(error)).strip().partition("\n")[0][:_MOST_SAID]
    if isinstance(error, PermissionError) or "ACCESS_DENIED" in reason or "403" in reason:
        return CheckpointError(f"no permission to read {shown}: {reason}")
    return CheckpointError(f"{shown} cannot be read: {type(error).__name__}: {reason}")


# The log


def parse_batch_end(batch: int, text: str, shown: str) -> BatchEnd:
    """One file of `offsets`; raises `CheckpointError`. `shown`: the checkpoint, for messages."""
    where = f"{shown}/offsets/{batch}"
    lines = text.splitlines()
    if len(lines) < 3:
        raise CheckpointError(f"{where} is cut off after {len(lines)} lines; expected at least 3")
    match lines[0].strip():
        case "v1":
            sources = [SourceOffset(str(place), line) for place, line in enumerate(lines[2:])]
        case "v2":
            sources = [_named(where, line) for line in lines[2:]]
        case version:
            raise CheckpointError(
                f"{where} has the version {version[:20]!r}; expected v1 or v2, which Spark 4.3 "
                "writes. Was it written by a newer Spark?"
            )
    return BatchEnd(
        batch,
        _timestamp_ms(lines[1]),
        tuple(SourceOffset(s.source, None if s.text == "-" else s.text) for s in sources),
    )


def _named(where: str, line: str) -> SourceOffset:
    source, colon, text = line.partition(":")
    if not colon:
        raise CheckpointError(f"{where}: found {line[:60]!r}; expected <source>:<offset>")
    return SourceOffset(source, text)


def _timestamp_ms(metadata: str) -> int | None:
    try:
        value = json.loads(metadata)["batchTimestampMs"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return value if isinstance(value, int) and value > 0 else None


def choose_source(end: BatchEnd, wanted: str | None, shown: str) -> str:
    """Which source of the query is a Kinesis stream: the only one, or `wanted`, by name or place.

    Raises `CheckpointError` naming all sources if there is none, or more than one to choose from.
    """
    where = f"{shown}, batch {end.batch}"
    ours = [s for s in end.sources if s.is_kinesis]
    found = "; ".join(f"{s.source}: {_describe(s)}" for s in end.sources)
    if wanted is not None:
        chosen = next((s for s in end.sources if s.source == wanted), None)
        if chosen is None:
            raise CheckpointError(f"{where} has no source {wanted!r}; found {found}")
        if not chosen.is_kinesis:
            raise CheckpointError(
                f"{where}: source {wanted} is {_describe(chosen)}; expected an offset of "
                f"format('kinesis'). All sources: {found}"
            )
        return wanted
    if len(ours) == 1:
        return ours[0].source
    if not ours:
        raise CheckpointError(
            f"{where} has no offset of format('kinesis'); found {found}. Is it the checkpoint of "
            "another query?"
        )
    raise CheckpointError(
        f"{where} has {len(ours)} Kinesis streams; choose one with --source {_either(ours)}. "
        f"Found {found}"
    )


def _either(sources: Collection[SourceOffset]) -> str:
    return " or ".join(s.source for s in sources)


def _describe(offset: SourceOffset) -> str:
    """What kind of source wrote an offset, as far as its form tells."""
    value = offset.parsed
    if offset.text is None:
        return "a source without an offset yet"
    if offset.is_kinesis:
        stream = value.get("stream")
        arn = stream.get("arn") if isinstance(stream, dict) else None
        return f"Kinesis stream {arn}" if arn else "a Kinesis stream"
    match value:
        case {"logOffset": _}:
            return f"a file source ({offset.text[:60]})"
        case dict() if value and all(
            isinstance(v, dict) and v and all(p.isdecimal() for p in v) for v in value.values()
        ):
            return f"a Kafka source ({offset.text[:60]})"
    return f"another source ({offset.text[:60]})"
