"""Layers: checkpoint files in tar archives. Each checkpoint adds one layer with its new files, and names the older
layers that it needs.

One handle for each file would put every state file of every partition into the coordination store. With one archive for
each checkpoint there are few handles, and one request for each batch, however many partitions there are.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from milepost.errors import StateTruncated
from milepost.spark.checkpoints.portable import is_data, portable
from milepost.spark.checkpoints.snapshot import Stat

IN_MEMORY = 8 * 1024 * 1024
"""Archives up to this many bytes are built in memory, larger ones in a file."""


def pack(root: Path, files: Mapping[str, Stat], scratch: Path) -> bytes | Path:
    """Make an archive of ``files`` (paths relative to ``root``): bytes, or, when large, a file at the path ``scratch``.

    Raises FileNotFoundError if a file vanished or changed since it was listed, and the errors of `portable`.
    """
    if sum(stat.size for stat in files.values()) <= IN_MEMORY:
        buffer = io.BytesIO()
        _write(root, files, buffer)
        return buffer.getvalue()
    try:
        with open(scratch, "wb") as archive:
            _write(root, files, archive)
    except BaseException:
        scratch.unlink(missing_ok=True)  # a half-written archive may be what fills the disk
        raise
    return scratch


def unpack(chunks: Iterable[bytes], root: Path) -> list[str]:
    """Write the files of the archive that ``chunks`` make up into ``root``, replacing existing ones; return their
    paths.

    ``chunks`` is read to its end, so that a reader which verifies the bytes there can do so. Raises `StateTruncated` if
    it is not a complete archive or names a path outside of ``root``.
    """
    written: list[str] = []
    stream = _Stream(chunks)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or not _inside(member.name):
                    raise StateTruncated(
                        f"a checkpoint's archive holds {member.name!r}, which is not a plain file inside its directory"
                    )
                target = root / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "wb") as file:
                    while block := content.read(1 << 20):
                        file.write(block)
                os.utime(target, (member.mtime, member.mtime))
                written.append(member.name)
    except tarfile.TarError as error:
        raise StateTruncated(f"a checkpoint's archive cannot be read: {error}") from error
    stream.drain()
    return written


def _write(root: Path, files: Mapping[str, Stat], target: IO[bytes]) -> None:
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, listed in files.items():
            with open(root / path, "rb") as file:
                now = os.fstat(file.fileno())
                if Stat(now.st_size, now.st_mtime_ns) != listed:
                    raise FileNotFoundError(f"{path} was replaced")
                member = tarfile.TarInfo(path)
                member.size = listed.size
                member.mtime = listed.modified_ns // 1_000_000_000
                if is_data(path):
                    archive.addfile(member, file)
                else:
                    content = portable(path, file.read(), root)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


class _Stream(io.RawIOBase):
    """The file object that tarfile needs, over an iterable of chunks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = [self._rest]
        have = len(self._rest)
        while (size < 0 or have < size) and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        data = b"".join(parts)
        cut = have if size < 0 else min(size, have)
        self._rest = data[cut:]
        return data[:cut]

    def drain(self) -> None:
        for _ in self._chunks:
            pass
