"""Which files of a running query's checkpoint directory make a complete checkpoint, and reading them while Spark works.

Files are found by listing, never by predicting names: state stores differ in what they write, and Spark's maintenance
adds and deletes files at any time. One that vanishes underway means: list again.
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
"""How often a listing is begun anew when files vanish under it; maintenance runs once a minute by default."""

_STATE_VERSION = re.compile(r"(\d+)(?:_[^.]+)?\.(?:delta|snapshot|changelog|zip)\Z")
_T = TypeVar("_T")


class Stat(NamedTuple):
    """A file's identity within one directory: Spark never changes a finished file in place, but may write it anew."""

    size: int
    modified_ns: int


@dataclass(frozen=True)
class Selection:
    """The files of one checkpoint by relative path: ``log`` (small, never twice the same) and ``files``."""

    log: tuple[str, ...]
    files: Mapping[str, Stat]


def scan(root: Path) -> dict[str, Stat]:
    """All files under ``root`` by relative POSIX path, but for dot-files (Hadoop's checksums, files being written).

    Raises FileNotFoundError when something vanished meanwhile.
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
    """The files of the checkpoint at the entry to ``batch``, or (``committed``) after Spark committed it.

    State of a version beyond what the checkpoint stands for is left out; everything that is not a log of batches and
    not state is taken whole (``sources`` and whatever later versions of Spark add).

    Raises `WrongCheckpoint` when Spark's own log of the batch is not there.
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
    """The version that a state store's file belongs to, or None for one that serves several (schemas, SST files)."""
    match = _STATE_VERSION.match(path.rpartition("/")[2])
    return int(match.group(1)) if match and path.startswith("state/") else None


def lagging_partitions(found: Mapping[str, Stat], version: int) -> list[str]:
    """State directories that have versioned files but none of ``version``: those partitions have not committed it."""
    newest: dict[str, int] = {}
    for path in found:
        this = state_version(path)
        if this is not None:
            directory = path.rpartition("/")[0]
            newest[directory] = max(newest.get(directory, -1), this if this <= version else -1)
    return sorted(directory for directory, this in newest.items() if this != version)


def settled(read: Callable[[], _T]) -> _T:
    """What ``read`` returns once no file vanishes under it."""
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
