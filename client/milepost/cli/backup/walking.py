"""Walk through the tree of a job."""

from __future__ import annotations

from collections.abc import Iterator

from milepost.files import JobFiles
from milepost.types import JobFile


def walk(files: JobFiles, directory: str = "") -> Iterator[JobFile]:
    """Yield all that is below a directory, a directory in front of what is in it. Raises `NotExist`."""
    for entry in files.list(directory):
        yield entry
        if entry.directory:
            yield from walk(files, entry.path)
