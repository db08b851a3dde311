"""Name the files of a tree: a path is relative to the tree's root, which is the empty path, and ends in no slash."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from milepost.wire import UNSEEN

MOST_PARTS: Final = 32
MOST_BYTES: Final = 1024
"""A path has so many directories and bytes at most, so that no lookup and no record grows beyond reason."""

LAST: Final = "\U0010ffff" * (MOST_BYTES // 4)
"""No path sorts after this one, which is as long as a path may be and has the last character only."""

SNAPSHOTS: Final = ".snapshot"
"""The directory in the root of a tree where it can be read as it was at each snapshot and savepoint, as HDFS has it."""

TRASH: Final = ".Trash"
"""The directory in the root of a tree that Hadoop's clients move to what they are told to remove, if they keep a trash.
"""

_COMMIT = re.compile(r"(?:(.*)/)?commits/(0|[1-9]\d{0,17})")


def checked_path(path: str) -> str:
    """Return the path without slashes at its ends. Raises ValueError if no file of a tree may have this name.

    How long it may be is asked of what it names in the tree: in a snapshot, too, every file has a path.
    """
    path = path.strip("/")
    parts = path.split("/") if path else []
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} has an empty part, or one that is . or ..")
    inside = snapshot_of(path)
    of_tree = path if inside is None else inside[1]
    if of_tree.count("/") >= MOST_PARTS or len(of_tree.encode("utf-8", "surrogateescape")) > MOST_BYTES:
        raise ValueError(f"{path[:80]!r}… is too long: {MOST_PARTS} parts and {MOST_BYTES} bytes are the most")
    if UNSEEN.search(path):
        raise ValueError(f"{path!r} has a control character in it")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{path!r} is no UTF-8") from error
    return path


def path_key(store: str, path: str) -> str:
    """Return the key of the record of a path. It is made of a hash, since not every store takes every name as a key."""
    return f"{path_keys(store)}{path_id(path)}"


def path_keys(store: str) -> str:
    """Return what the keys of all paths of a store's tree begin with."""
    return f"stores/{store}/files/"


def path_id(path: str) -> str:
    """Return the last part of the key."""
    return hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


def parent_of(path: str) -> str:
    """Return the directory that a path lies in; the root lies in itself."""
    return path.rpartition("/")[0]


def ancestors_of(path: str) -> list[str]:
    """Return the directories above a path, the outermost first, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def is_below(path: str, directory: str) -> bool:
    """Return whether a path lies somewhere in a directory."""
    return path.startswith(f"{directory}/") if directory else path != ""


def moved(path: str, source: str, target: str) -> str:
    """Return where a path that is ``source``, or lies below it, is once that has become ``target``."""
    return target + path[len(source) :]


def snapshot_of(path: str) -> tuple[str, str] | None:
    """Return which snapshot a path lies in, and its path there; None if it lies in none. `SNAPSHOTS` has no name."""
    directory, _, inner = path.partition("/")
    if directory != SNAPSHOTS:
        return None
    name, _, rest = inner.partition("/")
    return name, rest


def is_temporary(path: str) -> bool:
    """Return whether this is the name of a file that is to be renamed once it is whole.

    Spark's CheckpointFileManager names these ``.<name>.<uuid>.tmp``, and others ``__temp…``.
    """
    name = path.rpartition("/")[2]
    return (name.startswith(".") and name.endswith(".tmp")) or name.startswith("__temp")


def commit_of(path: str) -> tuple[str, int] | None:
    """Return the query's directory and the batch's number, if this file says that Spark has committed a batch.

    No query runs in the trash.
    """
    found = None if path.startswith(f"{TRASH}/") else _COMMIT.fullmatch(path)
    return None if found is None else (found[1] or "", int(found[2]))
