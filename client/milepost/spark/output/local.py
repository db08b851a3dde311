"""Reads and writes output files on a local file system without Spark's JVM, which is ten times as fast for a batch."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from milepost.portable import sync

SCHEME = "file:"
_SYNCS = 8  # threads


class LocalFiles:
    """The operations of `HadoopFiles` that publishing needs, on ``file:`` paths. Written files survive a crash."""

    def read(self, path: str) -> bytes | None:
        """Read the bytes at ``path``; None if there is no such file."""
        try:
            return _local(path).read_bytes()
        except FileNotFoundError:
            return None

    def write_new(self, path: str, content: bytes) -> None:
        """Write a file that does not exist yet, durably."""
        target = _local(path)
        new = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            file.write(content)
        _sync(target, target.parent, target.parent.parent, *(directory.parent for directory in new))

    def files(self, path: str) -> list[tuple[str, int]]:
        """List files as `HadoopFiles.files` does, and make them durable. Raises OSError for a directory that cannot be
        listed.
        """
        root = _local(path)
        found = []
        # these directories contain the names of the attempt and of its batch
        written = [root.parent, root.parent.parent]
        for directory, below, names in os.walk(root, onerror=_raise):  # os.walk itself would ignore the error
            below[:] = [name for name in below if not name.startswith(("_", "."))]
            for name in names:
                if not name.startswith(("_", ".")):
                    file = Path(directory, name)
                    written.append(file)
                    found.append((file.relative_to(root).as_posix(), file.stat().st_size))
            written.append(Path(directory))
        _sync(*written)
        return sorted(found)

    def names(self, path: str) -> list[str]:
        """List the names directly in the directory ``path``; none if it does not exist."""
        try:
            return sorted(os.listdir(_local(path)))
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        """Delete ``path`` with everything below it, if it exists."""
        target = _local(path)
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)

    def delete_empty(self, path: str) -> None:
        """Delete the directory ``path`` if it exists and is empty."""
        with suppress(OSError):
            _local(path).rmdir()


def _raise(error: OSError) -> None:
    raise error


def _local(uri: str) -> Path:
    """Return the local path of Hadoop's unescaped form: ``file:/a b``, ``file:///a b``, on Windows ``file:/C:/a b``."""
    rest = uri.removeprefix(SCHEME).lstrip("/")
    return Path(rest if sys.platform == "win32" else f"/{rest}")


def _sync(*paths: Path) -> None:
    """Make files, and names in directories, durable; all at once, because a disk needs about the same time for one as
    for all.
    """
    with ThreadPoolExecutor(min(len(paths), _SYNCS), thread_name_prefix="milepost-sync") as threads:
        for _ in threads.map(sync, paths):
            pass
