"""Reads and writes files of Spark's input and output: `HadoopFiles` on any file system that Hadoop supports, through
Spark's JVM; `LocalFiles` on a local file system without the JVM, which is ten times as fast for a batch.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from milepost.portable import sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "file:"
_SYNCS = 8  # the most threads that sync files at the same time
_PIECE_BYTES = 6000
"""The bytes of one read. Py4J encodes them in base64 and sends them in pieces of 8,192; each answer of more than one
piece waits 40 ms for TCP's delayed acknowledgement.
"""


class HadoopFiles:
    """The file operations that milepost.spark needs, through Hadoop's ``FileSystem``. Paths are URIs or absolute paths.

    Hadoop's settings are those of the Spark session at the time when this object is made, overridden by ``settings``.
    This object caches each file system that Hadoop's settings exclude from Hadoop's own cache, because Hadoop would
    make a new one for each call.
    """

    def __init__(self, spark: SparkSession, settings: Mapping[str, str] | None = None) -> None:
        session: Any = spark._jsparkSession
        self._jvm: Any = spark.sparkContext._jvm
        self._conf: Any = session.sessionState().newHadoopConf()
        for key, value in (settings or {}).items():
            self._conf.set(key, value)
        self._systems: dict[tuple[str | None, str | None], Any] = {}

    def qualified(self, path: str) -> str:
        """Return ``path`` as an absolute URI with its scheme, without a slash at the end."""
        jpath = self._path(path)
        return str(self._of(jpath).makeQualified(jpath).toString())

    def modified_ms(self, uri: str) -> int | None:
        """Return the modification time, in milliseconds, of the file at an escaped ``uri`` (as Spark logs it); None if
        the file is absent.
        """
        jpath = self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(uri))
        try:
            return int(self._of(jpath).getFileStatus(jpath).getModificationTime())
        except Py4JJavaError as error:
            if _absent(error):
                return None
            raise

    def read(self, path: str) -> bytes | None:
        """Return the bytes at ``path``; None if there is no such file."""
        jpath = self._path(path)
        try:
            stream = self._of(jpath).open(jpath)
        except Py4JJavaError as error:
            if _absent(error):
                return None
            raise
        content = bytearray()
        try:
            while piece := stream.readNBytes(_PIECE_BYTES):
                content += piece
        finally:
            stream.close()
        return bytes(content)

    def write_new(self, path: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write a file that does not exist yet; with ``overwrite``, replace one that does."""
        jpath = self._path(path)
        stream = self._of(jpath).create(jpath, overwrite)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def files(self, path: str) -> list[tuple[str, int]]:
        """List the files under ``path`` except hidden ones (``_``, ``.``): path relative to it, and size in bytes."""
        jpath = self._path(path)
        system = self._of(jpath)
        prefix = str(system.makeQualified(jpath).toString()) + "/"
        found = []
        remaining = system.listFiles(jpath, True)
        while remaining.hasNext():
            status = remaining.next()
            relative = str(status.getPath().toString()).removeprefix(prefix)
            if not any(part.startswith(("_", ".")) for part in relative.split("/")):
                found.append((relative, int(status.getLen())))
        return sorted(found)

    def skim(self, path: str, least: int, most: int, looked_at: int) -> int:
        """Read files below ``path`` and discard the bytes, to warm up the JVM; return how many bytes were read, at most
        ``most``.

        Skips files of fewer than ``least`` bytes, and ends after ``looked_at`` files, including skipped ones.
        """
        jpath = self._path(path)
        system = self._of(jpath)
        nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
        found, read = system.listFiles(jpath, True), 0
        while read < most and looked_at > 0 and found.hasNext():
            status, looked_at = found.next(), looked_at - 1
            length = min(int(status.getLen()), most - read)
            if int(status.getLen()) < least:
                continue
            stream = system.open(status.getPath())
            try:
                self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, nowhere, length, False)
            finally:
                stream.close()
            read += length
        return read

    def names(self, path: str) -> list[str]:
        """List the names directly in the directory ``path``; none if it does not exist."""
        jpath = self._path(path)
        try:
            return sorted(str(status.getPath().getName()) for status in self._of(jpath).listStatus(jpath))
        except Py4JJavaError as error:
            if _absent(error):
                return []
            raise

    def delete(self, path: str) -> None:
        """Delete ``path`` with everything below it, if it exists."""
        jpath = self._path(path)
        self._of(jpath).delete(jpath, True)

    def delete_empty(self, path: str) -> None:
        """Delete the directory ``path`` if it exists and is empty."""
        jpath = self._path(path)
        try:
            self._of(jpath).delete(jpath, False)
        except Py4JJavaError:
            if not self.names(path):
                raise

    def _of(self, jpath: Any) -> Any:
        """Return Hadoop's ``FileSystem`` for a path."""
        uri = jpath.toUri()
        place = uri.getScheme(), uri.getAuthority()
        if not self._conf.getBoolean(f"fs.{place[0]}.impl.disable.cache", False):
            return jpath.getFileSystem(self._conf)
        if place not in self._systems:
            self._systems[place] = jpath.getFileSystem(self._conf)
        return self._systems[place]

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def _absent(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException"


class LocalFiles:
    """The operations of `HadoopFiles` that publishing needs, on ``file:`` paths. Written files survive a crash."""

    def read(self, path: str) -> bytes | None:
        """Read the bytes at ``path``; None if there is no such file."""
        try:
            return local_path(path).read_bytes()
        except FileNotFoundError:
            return None

    def write_new(self, path: str, content: bytes) -> None:
        """Write a file that does not exist yet, durably."""
        target = local_path(path)
        new = [parent for parent in target.parents if not parent.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            file.write(content)
        _sync(target, target.parent, target.parent.parent, *(directory.parent for directory in new))

    def files(self, path: str) -> list[tuple[str, int]]:
        """List files as `HadoopFiles.files` does, and make them durable. Raises OSError for a directory that cannot be
        listed.
        """
        root = local_path(path)
        found = []
        # The parents must be durable, too: they have the entries of the staging directory and of its batch's directory.
        written = [root.parent, root.parent.parent]
        for directory, below, names in os.walk(root, onerror=_raise):  # without onerror, os.walk ignores errors
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
            return sorted(os.listdir(local_path(path)))
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        """Delete ``path`` with everything below it, if it exists."""
        target = local_path(path)
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)

    def delete_empty(self, path: str) -> None:
        """Delete the directory ``path`` if it exists and is empty."""
        with suppress(OSError):
            local_path(path).rmdir()


def _raise(error: OSError) -> None:
    raise error


def local_path(uri: str) -> Path:
    """Return the local path of a URI in Hadoop's unescaped form: ``file:/a b``, ``file:///a b``, on Windows
    ``file:/C:/a b``.
    """
    rest = uri.removeprefix(SCHEME).lstrip("/")
    return Path(rest if sys.platform == "win32" else f"/{rest}")


def _sync(*paths: Path) -> None:
    """Make files, and the names in directories, durable, in parallel: a disk needs about the same time for one sync as
    for several.
    """
    with ThreadPoolExecutor(min(len(paths), _SYNCS), thread_name_prefix="milepost-sync") as threads:
        for _ in threads.map(sync, paths):
            pass
