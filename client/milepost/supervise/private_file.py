"""Keeps a file that only this user may read, for programs that are told its name and may open it much later."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_log = logging.getLogger(__name__)


class PrivateFile:
    """A file called ``name`` with ``text`` in it, in a temporary directory of its own.

    It is there until a ``with`` block of this object ends; making the object writes it. Raises OSError.
    """

    def __init__(self, name: str, text: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="milepost-run-", ignore_cleanup_errors=True)
        self.path = Path(self._directory.name, name)
        self._text = text
        try:
            self._write()
        except OSError:
            self._directory.cleanup()
            raise

    def keep(self) -> None:
        """Make the file look new, because temporary files are removed after some days; write it again if it is gone.

        What fails is logged.
        """
        try:
            try:
                for path in (self.path.parent, self.path):
                    os.utime(path)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    self.path.parent.mkdir(mode=0o700, parents=True)
                self._write()
                _log.warning("somebody removed %s, wrote it again for whatever the command starts", self.path)
        except OSError as error:
            _log.warning("what the command starts from now on may not find its settings in %s: %s", self.path, error)

    def _write(self) -> None:
        directory = self.path.parent.lstat()
        if not stat.S_ISDIR(directory.st_mode) or directory.st_uid != os.geteuid() or directory.st_mode & 0o077:
            raise PermissionError(f"{self.path.parent} was made by somebody else")
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            opened.write(self._text)

    def __enter__(self) -> PrivateFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()
