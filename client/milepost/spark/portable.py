"""Checkpoint files that name the directory they lie in: made fit for any directory when they are stored, and fitted to
the new one when they are restored.

Spark keeps paths relative to the checkpoint nearly everywhere. The metadata of ``transformWithState`` is the exception:
it names its schema files absolutely, and on another path the query dies. So where a line of JSON names the running
query's directory, a mark is stored in its place. The bytes that are stored are then the same whatever directory a
driver worked in, and on whatever machine.

Whatever else names the directory of an epoch is refused by name, when it would be stored and again when it was
restored: Spark would look there, and find what a driver of the past left or, more likely, nothing.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from milepost.errors import UnsafeQuery, WrongCheckpoint

MARK = b"<milepost:checkpoint>"
"""Stands for the checkpoint's directory in what is stored."""

_DATA = re.compile(r"state/.*\.(?:delta|snapshot|changelog|zip|sst|log|blob)\Z")


def is_data(path: str) -> bool:
    """Whether a checkpoint's file holds rows of state: those are the user's own, whatever they say."""
    return _DATA.match(path) is not None


def portable(path: str, content: bytes, directory: Path) -> bytes:
    """What to store of the file ``path`` of the running query's ``directory``.

    Raises `UnsafeQuery` when it is bound to that directory in a way that cannot be undone.
    """
    if is_data(path):
        return content
    if MARK in content:
        raise UnsafeQuery(
            f"{path} holds {MARK.decode()}, which stands for the checkpoint's directory in what is stored"
        )
    named = _names(directory)
    if named.search(content):
        content = b"\n".join(named.sub(MARK, line) if _is_json(line) else line for line in content.split(b"\n"))
    stranger = _epochs_of(directory).search(content)
    if stranger is not None:
        raise UnsafeQuery(
            f"{path} names {_text(stranger)}, in a way that cannot be carried to another directory: no later driver "
            "could go on from this checkpoint"
        )
    return content


def fitted(path: str, content: bytes, directory: Path) -> bytes:
    """The file ``path`` as it has to lie in ``directory``, from what was stored of it.

    Raises `WrongCheckpoint` when it names the directory of another epoch all the same.
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
    """The directory as Spark writes it into JSON: absolute, without escapes of a URI."""
    return json.dumps(os.path.abspath(directory), ensure_ascii=False)[1:-1].encode()


def _names(directory: Path) -> re.Pattern[bytes]:
    """The directory itself: neither the end of a longer path, nor the beginning of a longer name."""
    return re.compile(rb"(?<![\w.%-])" + re.escape(_written(directory)) + rb"(?![\w.%-])")


def _epochs_of(directory: Path) -> re.Pattern[bytes]:
    """Directories of any epoch of the same job, wherever they lie and however the path before is written."""
    return re.compile(rb"/" + re.escape(directory.parent.name.encode()) + rb"/(?P<epoch>\.?e\d+)(?!\w)")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _text(match: re.Match[bytes]) -> str:
    return "…" + match[0].decode(errors="replace")
