"""The paths of a tree's files. A path is relative to the root of the tree, has no slash at its end, and is empty for
the root itself.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from milepost.wire import UNSEEN

MOST_PARTS: Final = 32
MOST_BYTES: Final = 1024
"""A path has at most `MOST_PARTS` directories and `MOST_BYTES` bytes, to bound the size of lookups and records."""

_ID_LENGTH: Final = 32
_FILES_LENGTH: Final = len("/files/") + _ID_LENGTH

_REMEMBERED_KEYS: Final = 4096
_REMEMBERED_ANCESTORS: Final = 256
"""How many paths this module remembers the keys of, and the ancestors of: the requests about a file name the same few
paths again and again. Paths of the greatest length take 6 MiB and 4 MiB: the ancestors of a path are much longer than
it.
"""

LAST: Final = "\U0010ffff" * (MOST_BYTES // 4)
"""A path that sorts after every other path: it consists of the last character of Unicode, in the greatest length."""

SNAPSHOTS: Final = ".snapshot"
"""The directory in a tree's root that shows the tree at each snapshot and savepoint, as in HDFS."""

TRASH: Final = ".Trash"
"""The directory in a tree's root into which Hadoop's clients move files instead of deleting them, if configured."""

_COMMIT = re.compile(r"(?:(.*)/)?commits/(0|[1-9]\d{0,17})")


def checked_path(path: str) -> str:
    """Return the path without slashes at its ends. Raises ValueError if no file of a tree may have this name.

    For a path inside a snapshot, the limits apply to the part after the snapshot's name, so that a snapshot can show
    every file.
    """
    path = path.strip("/")
    parts = path.split("/") if path else ()
    if "" in parts or "." in parts or ".." in parts:
        raise ValueError(f"{path!r} has an empty part, or one that is . or ..")
    inside = snapshot_of(path)
    of_tree = path if inside is None else inside[1]
    plain = path.isascii() and path.isprintable()
    size = len(of_tree) if plain else len(of_tree.encode("utf-8", "surrogateescape"))
    if of_tree.count("/") >= MOST_PARTS or size > MOST_BYTES:
        raise ValueError(f"{path[:80]!r}… is too long: {MOST_PARTS} parts and {MOST_BYTES} bytes are the most")
    if plain:
        return path
    if UNSEEN.search(path):
        raise ValueError(f"{path!r} has a control character in it")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{path!r} is no UTF-8") from error
    return path


@lru_cache(maxsize=_REMEMBERED_KEYS)
def path_key(store: str, path: str) -> str:
    """Return the key of the record of a path. The key contains a hash of the path, since some pointer stores do not
    allow every path in a key.
    """
    return f"{path_keys(store)}{path_id(path)}"


def path_keys(store: str) -> str:
    """Return the common prefix of the keys of all paths of a store's tree."""
    return f"stores/{store}/files/"


def is_path_key(key: str) -> bool:
    """Return whether the key of a record is that of a path, in any store. The last part of such a key has always the
    same length, and no part of a key has a slash in it.
    """
    return key[-_FILES_LENGTH:-_ID_LENGTH] == "/files/"


def path_id(path: str) -> str:
    """Return the last part of the key of a path's record: a hash of the path."""
    return hashlib.blake2b(path.encode(), digest_size=_ID_LENGTH // 2).hexdigest()


def store_of_path_key(key: str) -> str:
    """Return the store in the key of the record of a path."""
    return key[len("stores/") : -_FILES_LENGTH]


def parent_of(path: str) -> str:
    """Return the directory that contains a path. For the root, this is the root itself."""
    return path.rpartition("/")[0]


@lru_cache(maxsize=_REMEMBERED_ANCESTORS)
def ancestors_of(path: str) -> tuple[str, ...]:
    """Return the directories above a path, the outermost first, without the root."""
    parts = path.split("/")
    return tuple(["/".join(parts[:end]) for end in range(1, len(parts))])


def is_below(path: str, directory: str) -> bool:
    """Return whether a path is somewhere below a directory."""
    return path.startswith(f"{directory}/") if directory else path != ""


def moved(path: str, source: str, target: str) -> str:
    """Return the path that ``path`` has after the rename of ``source`` to ``target``. ``path`` is ``source`` or below
    it.
    """
    return target + path[len(source) :]


def snapshot_of(path: str) -> tuple[str, str] | None:
    """Return the name of the snapshot that a path is in, and the path inside the snapshot; None if it is in no
    snapshot.

    For the directory `SNAPSHOTS` itself, the name is empty.
    """
    if not path.startswith(SNAPSHOTS):
        return None
    directory, _, inner = path.partition("/")
    if directory != SNAPSHOTS:
        return None
    name, _, rest = inner.partition("/")
    return name, rest


def is_temporary(path: str) -> bool:
    """Return whether a path has a temporary name, that of a file that is renamed once it is complete.

    Spark's CheckpointFileManager uses names of the form ``.<name>.<uuid>.tmp``, and other programs ``__temp…``.
    """
    name = path.rfind("/") + 1
    return (path.endswith(".tmp") and path.startswith(".", name)) or path.startswith("__temp", name)


def commit_of(path: str) -> tuple[str, int] | None:
    """Return the query's directory and the batch's number, if the path is the file by which Spark commits a batch; else
    None.

    Files in the trash do not count.
    """
    if "commits/" not in path:
        return None
    found = None if path.startswith(f"{TRASH}/") else _COMMIT.fullmatch(path)
    return None if found is None else (found[1] or "", int(found[2]))


def offsets_of(directory: str, batch: int) -> str:
    """Return the path of the file by which Spark begins a batch of the query in a directory."""
    return f"{directory}/offsets/{batch}".lstrip("/")
