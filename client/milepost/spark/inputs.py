"""Checks whether input files of the batch that must be replayed were deleted or rewritten.

Spark's file source logs which files each batch read (``sources/<i>``). Together with the offsets of two consecutive
batches, the log gives the files of one batch. A replay over fewer files would differ from the first run, and Spark
would raise no error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from milepost.errors import InputMissing

_LOG_FILE = re.compile(r"(\d+)(?:\.compact)?\Z")


@dataclass(frozen=True)
class InputFile:
    """An input file that the log of Spark's file source names; ``modified_ms`` is its modification time, in
    milliseconds, when it was logged.
    """

    uri: str
    modified_ms: int


class Checkpoint(Protocol):
    """The read operations on a checkpoint, as `CheckpointTree` has them."""

    def names(self, directory: str) -> list[str]: ...
    def read(self, path: str) -> bytes | None: ...


def inputs_of(checkpoint: Checkpoint, batch: int) -> Iterator[InputFile]:
    """Yield the input files of ``batch`` that its file sources read."""
    before = _source_offsets(checkpoint.read(f"offsets/{batch - 1}")) if batch else {}
    for source, end in _source_offsets(checkpoint.read(f"offsets/{batch}")).items():
        yield from _logged(checkpoint, f"sources/{source}", before.get(source, -1), end)


def check_inputs(
    files: Iterable[InputFile], modified_ms: Callable[[str], int | None], batch: int, job: str
) -> list[str]:
    """Return the URIs of those ``files``, the input of ``batch`` of ``job``, whose modification time has changed since
    Spark logged it. ``modified_ms`` returns the present modification time of a file, None if the file is gone. Raises
    `InputMissing` if a file is gone.
    """
    gone: list[str] = []
    rewritten: list[str] = []
    for file in files:
        now = modified_ms(file.uri)
        if now is None:
            gone.append(file.uri)
        elif now != file.modified_ms:
            rewritten.append(file.uri)
    if gone:
        more = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
        raise InputMissing(
            f"batch {batch} must be run again, but files of its input were deleted: {', '.join(gone[:5])}{more}; "
            f"put them back: input files are needed until the next batch has begun. {_without_them(job, batch)}"
        )
    return rewritten


def _without_them(job: str, batch: int) -> str:
    if batch == 0:
        return "If they are lost, begin the job under another name, with another output"
    return (
        f"If they are lost, milepost jobs restore {job} --batch {batch - 1} takes the job back to before this batch, "
        "which is then planned anew from the input that there is"
    )


def _source_offsets(log: bytes | None) -> dict[str, int]:
    """Parse Spark's offset log of a batch: return, for each file source, the id of the last entry of its file log that
    belongs to the batch. A source is identified by the name of its directory.

    Version 1 of the log numbers the sources, version 2 (``spark.sql.streaming.offsetLog.formatVersion``) names them.
    """
    lines = (log or b"").decode().splitlines()
    if lines[:1] == ["v1"]:
        sources = [(str(index), line) for index, line in enumerate(lines[2:])]
    elif lines[:1] == ["v2"]:
        sources = [(name, offset) for name, _, offset in (line.partition(":") for line in lines[2:])]
    else:
        return {}
    found = ((source, _log_offset(line)) for source, line in sources)
    return {source: offset for source, offset in found if offset is not None}


def _log_offset(line: str) -> int | None:
    try:
        offset = json.loads(line)
    except ValueError:
        return None
    value: Any = offset.get("logOffset") if isinstance(offset, dict) else None
    return value if isinstance(value, int) else None


def _logged(checkpoint: Checkpoint, source: str, after: int, until: int) -> Iterator[InputFile]:
    """Yield the input files that the file log of ``source`` has under the ids above ``after`` up to ``until``, each
    file once, although compacted files of the log repeat older entries.
    """
    seen: set[tuple[int, str]] = set()
    for name in checkpoint.names(source):
        match = _LOG_FILE.match(name)
        if match is None or int(match.group(1)) <= after:
            continue
        for line in (checkpoint.read(f"{source}/{name}") or b"").decode().splitlines()[1:]:
            entry = json.loads(line)
            key = (int(entry["batchId"]), str(entry["path"]))
            if after < key[0] <= until and key not in seen:
                seen.add(key)
                yield InputFile(key[1], int(entry["timestamp"]))
