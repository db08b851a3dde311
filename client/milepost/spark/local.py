"""Output files on a local file system, without a way through Spark's JVM: an order of magnitude quicker per batch."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCHEME = "file:"
_SYNCS = 8


class LocalFiles:
    """The operations of `HadoopFiles` that publishing needs, on ``file:`` paths. What was written survives a crash."""

    def read(self, path: str) -> bytes | None:
        """The bytes at ``path``, None if nothing is there."""
        try:
            return _local(path).read_bytes()
        except FileNotFoundError:
            return None

    def write_new(self, path: str, content: bytes) -> None:
        """Write a file that is not there yet, durably."""
        target = _local(path)
        new = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            file.write(content)
        _sync(target, target.parent, target.parent.parent, *(directory.parent for directory in new))

    def files(self, path: str) -> list[tuple[str, int]]:
        """As `HadoopFiles.files`; all that it names is durable afterwards. Raises OSError for what cannot be listed."""
        root = _local(path)
        found = []
        written = [root.parent, root.parent.parent]  # the names of the attempt, and of its batch
        for directory, below, names in os.walk(root, onerror=_raise):  # which would pass over it in silence
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
        """Names of what lies directly in the directory ``path``; none if it is not there."""
        try:
            return sorted(os.listdir(_local(path)))
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        """Delete ``path`` with all below it; fine if it is not there."""
        target = _local(path)
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)


def _raise(error: OSError) -> None:
    raise error


def _local(uri: str) -> Path:
    """Hadoop's unescaped form of a path, ``file:/a b`` or ``file:///a b``."""
    rest = uri.removeprefix(SCHEME)
    return Path("/" + rest.lstrip("/"))


def _sync(*paths: Path) -> None:
    """Make files and the names in directories durable: all at once, a disk does that in about the time of one."""
    with ThreadPoolExecutor(min(len(paths), _SYNCS), thread_name_prefix="milepost-sync") as threads:
        for _ in threads.map(_sync_one, paths):
            pass


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
