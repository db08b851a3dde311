"""Selects the files of a running query's checkpoint directory that make a complete checkpoint, while Spark works in it.

Files are found by listing, never by predicting names: state stores differ in what they write, and Spark's maintenance
adds and deletes files at any time. If a file vanishes meanwhile, the directory is listed again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from milepost.errors import WrongCheckpoint

LISTINGS = 20
"""How often a listing is repeated when files vanish meanwhile; maintenance runs once a minute by default."""

_STATE_VERSION = re.compile(r"(\d+)(?:_[^.]+)?\.(?:delta|snapshot|changelog|zip)\Z")
_T = TypeVar("_T")


class Stat(NamedTuple):
    """The identity of a file within one directory.

    Spark never changes a finished file in place, but may write it anew.
    """

    size: int
    modified_ns: int


@dataclass(frozen=True)
class Selection:
    """The files of one checkpoint by relative path: ``log`` (small, different in each checkpoint) and ``files``."""

    log: tuple[str, ...]
    files: Mapping[str, Stat]


def scan(root: Path) -> dict[str, Stat]:
    """List all files under ``root`` by relative POSIX path, except dot-files (Hadoop's checksums, files being written).

    Raises FileNotFoundError if something vanished meanwhile.
    """
    found: dict[str, Stat] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[path] = Stat(stat.st_size, stat.st_mtime_ns)
    return found


def select(found: Mapping[str, Stat], batch: int, *, committed: bool) -> Selection:
    """Select the files of the checkpoint at the entry to ``batch``, or (``committed``) after Spark committed it.

    State of a version beyond the checkpoint's is left out. Whatever is neither a log of batches nor state is taken
    completely (``sources``, and anything that later versions of Spark add).

    Raises `WrongCheckpoint` if Spark's own log of the batch does not exist.
    """
    log = ["metadata", f"offsets/{batch}", f"commits/{batch}" if committed else f"commits/{batch - 1}"]
    if batch == 0 and not committed:
        log.pop()
    missing = [path for path in log if path not in found]
    if missing:
        raise WrongCheckpoint(
            f"the restored directory has no {', '.join(missing)} for batch {batch}: "
            "the query does not use job.checkpointLocation, or something deletes files in it"
        )
    if f"offsets/{batch - 1}" in found:
        log.append(f"offsets/{batch - 1}")
    newest = batch + 1 if committed else batch
    files = {path: stat for path, stat in found.items() if _belongs(path, newest)}
    return Selection(tuple(log), files)


def state_version(path: str) -> int | None:
    """Return the version that a state store's file belongs to; None for a file of several versions (schemas, SST
    files).
    """
    match = _STATE_VERSION.match(path.rpartition("/")[2])
    return int(match.group(1)) if match and path.startswith("state/") else None


def lagging_partitions(found: Mapping[str, Stat], version: int) -> list[str]:
    """Return the state directories with versioned files but none of ``version``: their partitions have not committed
    it.
    """
    newest: dict[str, int] = {}
    for path in found:
        this = state_version(path)
        if this is not None:
            directory = path.rpartition("/")[0]
            newest[directory] = max(newest.get(directory, -1), this if this <= version else -1)
    return sorted(directory for directory, this in newest.items() if this != version)


def retry_while_files_vanish(read: Callable[[], _T]) -> _T:
    """Call ``read`` until no file vanishes meanwhile, and return its result."""
    for _ in range(LISTINGS - 1):
        try:
            return read()
        except FileNotFoundError:
            continue
    return read()


def _belongs(path: str, newest: int) -> bool:
    if path == "metadata" or path.startswith(("offsets/", "commits/")):
        return False
    version = state_version(path)
    return version is None or version <= newest
