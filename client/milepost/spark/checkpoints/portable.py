"""Makes checkpoint files independent of the directory they lie in, when they are stored, and fits them to the new
directory, when they are restored.

Spark keeps paths relative to the checkpoint nearly everywhere. The metadata of ``transformWithState`` is the exception:
it names its schema files by absolute paths, and in another directory the query fails. So where a line of JSON names the
directory of the running query, a mark is stored in its place. The stored bytes are then the same, whatever directory
and machine a driver worked on.

Any other text that names the directory of an epoch is refused by name, both when it would be stored and when it was
restored: Spark would look there, and find what an earlier driver left or, more likely, nothing.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from milepost.errors import UnsafeQuery, WrongCheckpoint

MARK = b"<milepost:checkpoint>"
"""The mark that replaces the checkpoint's directory in stored files."""

_DATA = re.compile(r"state/.*\.(?:delta|snapshot|changelog|zip|sst|log|blob)\Z")


def is_data(path: str) -> bool:
    """Return whether a checkpoint's file holds rows of state. These belong to the user, and are never changed."""
    return _DATA.match(path) is not None


def portable(path: str, content: bytes, directory: Path) -> bytes:
    """Return what to store for the file ``path`` of the running query's ``directory``.

    Raises `UnsafeQuery` if the file is bound to that directory in a way that cannot be undone.
    """
    if is_data(path):
        return content
    if MARK in content:
        raise UnsafeQuery(
            f"{path} holds {MARK.decode()}, the mark that stands for the checkpoint's directory in stored files"
        )
    named = _names(directory)
    if named.search(content):
        content = b"\n".join(named.sub(MARK, line) if _is_json(line) else line for line in content.split(b"\n"))
    stranger = _epochs_of(directory).search(content)
    if stranger is not None:
        raise UnsafeQuery(
            f"{path} names {_text(stranger)}, in a way that cannot be moved to another directory: no later driver "
            "could continue from this checkpoint"
        )
    return content


def fitted(path: str, content: bytes, directory: Path) -> bytes:
    """Return the content that the file ``path`` must have in ``directory``, from its stored content.

    Raises `WrongCheckpoint` if it still names the directory of another epoch.
    """
    if is_data(path):
        return content
    content = content.replace(MARK, _written(directory))
    for stranger in _epochs_of(directory).finditer(content):
        if stranger["epoch"] != directory.name.encode():
            raise WrongCheckpoint(
                f"{path} of the checkpoint names {_text(stranger)}, where Spark would look for files that are not "
                f"there: the query cannot go on in {directory}"
            )
    return content


def _written(directory: Path) -> bytes:
    """Return the directory as Spark writes it into JSON: absolute, without the escapes of a URI."""
    return json.dumps(os.path.abspath(directory), ensure_ascii=False)[1:-1].encode()


def _names(directory: Path) -> re.Pattern[bytes]:
    """Make a pattern for the directory itself: neither the end of a longer path, nor the beginning of a longer name."""
    return re.compile(rb"(?<![\w.%-])" + re.escape(_written(directory)) + rb"(?![\w.%-])")


def _epochs_of(directory: Path) -> re.Pattern[bytes]:
    """Make a pattern for the directories of all epochs of the job, wherever they lie and however a path is written."""
    return re.compile(rb"/" + re.escape(directory.parent.name.encode()) + rb"/(?P<epoch>\.?e\d+)(?!\w)")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _text(match: re.Match[bytes]) -> str:
    return "…" + match[0].decode(errors="replace")
