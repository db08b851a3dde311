"""Keeps output that is too large to be handed to the driver in files of the state's place, each proved by its name."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence

import pyarrow as pa

from milepost.state.errors import StateDamaged, WriteUnknown
from milepost.state.store.files.contract import StateFiles

_ATTEMPTS = 3


def output_directory(name: str) -> str:
    """Return the directory of the outputs that are too large to be handed to the driver."""
    return f"outputs/{name}"


def store_output(files: StateFiles, name: str, batch: int, partition: int, part: bytes) -> str:
    """Store a part of what a partition puts out in a batch under a new path, which ends with its digest; return that.

    A file that may or may not be there is not named by anybody, and so it does no harm. Raises `StateError`.
    """
    digest = hashlib.sha256(part).hexdigest()
    for attempt in range(_ATTEMPTS):
        path = f"{output_directory(name)}/{batch}_{partition}_{secrets.token_hex(16)}_{digest}.arrow"
        try:
            files.create(path, part)
        except WriteUnknown:
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return path
    raise AssertionError("unreachable")


def read_output(files: StateFiles, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Iterate the record batches of outputs that are in files. Raises `StateDamaged` for a file that is not what its
    name says, and `FilesError`.
    """
    for path in paths:
        content = b"".join(iter(_Reading(files, path), b""))
        if not path.endswith(f"_{hashlib.sha256(content).hexdigest()}.arrow"):
            raise StateDamaged(path, "its digest differs")
        with pa.ipc.open_stream(content) as stream:
            yield from stream


class _Reading:
    def __init__(self, files: StateFiles, path: str) -> None:
        self._files, self._path, self._at = files, path, 0

    def __call__(self) -> bytes:
        found = self._files.read(self._path, self._at, 1 << 24)
        self._at += len(found)
        return found
