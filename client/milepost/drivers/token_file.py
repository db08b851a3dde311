"""A bearer token that lies in a file, and that somebody else replaces there before it expires."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from milepost.portable import others_may_read

log = logging.getLogger("milepost.calls")

_MOST_BYTES = 64 * 1024


class TokenFile:
    """A function that returns the token in a file. Threads may share it.

    The file is read for each request, so that a new token counts at once. While it cannot be read, or has no token in
    it, because whoever replaces it is not done, the token that was read last is returned.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file for the first time. Raises ValueError if it cannot be read, or if there is no token in it."""
        self._path = Path(path)
        self._troubled = False
        try:
            self._token = _token_in(self._path)
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot use the file of a token {self._path}: {_describe(error)}") from error

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    @property
    def readable_by_others(self) -> bool:
        """Whether others than the file's owner may read it; False where that cannot be seen, as on Windows."""
        try:
            return others_may_read(self._path.stat().st_mode)
        except OSError:
            return False

    def __call__(self) -> str:
        """Return the token."""
        try:
            self._token = _token_in(self._path)
            self._troubled = False
        except (OSError, ValueError) as error:
            if not self._troubled:
                self._troubled = True
                log.warning("no token in %s, going on with the one before: %s", self._path, _describe(error))
        return self._token


def _token_in(path: Path) -> str:
    with path.open("rb") as file:
        found = file.read(_MOST_BYTES).strip()
    if not found:
        raise ValueError("it is empty")
    if any(not 0x21 <= byte <= 0x7E for byte in found):
        raise ValueError("a token is one word of printable ASCII, without a name before it or a line behind it")
    return found.decode("ascii")


def _describe(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
