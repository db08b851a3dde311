"""Creates a file, and finds out what became of it where the creation does not say."""

from __future__ import annotations

from milepost.state.errors import FileMissing, FilesError, WriteUnknown
from milepost.state.store.files.contract import Created, StateFiles


def create_once(files: StateFiles, path: str, content: bytes) -> Created:
    """Create a file: `Created.DONE` says that it is there with this content, `Created.EXISTS` with another one.

    So to create it again is safe, whoever wrote it before. Where the outcome is unknown, or the file is there already,
    it is read back; and if it is not there, created once more. Raises `WriteUnknown` if that tells nothing either.
    """
    unknown: WriteUnknown | None = None
    for _ in range(2):
        try:
            if files.create(path, content) is Created.DONE:
                return Created.DONE
        except WriteUnknown as error:
            unknown = error
        except FilesError as error:
            if unknown is None:
                raise
            raise WriteUnknown(f"{unknown}; then: {error}") from error
        try:
            return Created.DONE if files.read(path, 0, len(content) + 1) == content else Created.EXISTS
        except FileMissing:
            continue
        except FilesError as error:
            raise WriteUnknown(f"{unknown or path}; it could not be read back: {error}") from error
    raise WriteUnknown(f"{path} is not there yet, and may still come: {unknown}") from unknown
