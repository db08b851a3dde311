"""Creates the files of a store."""

from __future__ import annotations

from milepost.state.errors import StateDamaged
from milepost.state.store.files.contract import Created
from milepost.state.store.files.once import create_once
from milepost.state.store.format.names import StateFileName
from milepost.state.store.format.writing import Written
from milepost.state.store.history import History


def create(history: History, name: StateFileName, file: Written) -> int:
    """Create a file, and return its size. The name proves the content: whoever wrote it, it is the same file.

    Raises `WriteUnknown` if it is not known whether it is there, `StateDamaged` if something else is there.
    """
    path = history.path(name)
    if create_once(history.files, path, file.content) is Created.EXISTS:
        raise StateDamaged(path, "it was being created, and is there with other bytes")
    return len(file.content)
