"""Reads and writes files of Spark's input and output, on any file system that Hadoop knows, through Spark's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """The few file operations that publishing and checking need. Paths are URIs or absolute paths."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def qualified(self, path: str) -> str:
        """Return ``path`` as an absolute URI with its scheme, without a slash at the end."""
        jpath = self._path(path)
        return str(jpath.getFileSystem(self._conf).makeQualified(jpath).toString())

    def modified_ms(self, uri: str) -> int | None:
        """Return when the file at an escaped ``uri`` (as Spark logs them) was modified, in milliseconds; None if it is
        absent.
        """
        jpath = self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(uri))
        try:
            return int(jpath.getFileSystem(self._conf).getFileStatus(jpath).getModificationTime())
        except Py4JJavaError as error:
            if _absent(error):
                return None
            raise

    def read(self, path: str) -> bytes | None:
        """Read the bytes at ``path``; None if there is no such file."""
        jpath = self._path(path)
        try:
            stream = jpath.getFileSystem(self._conf).open(jpath)
        except Py4JJavaError as error:
            if _absent(error):
                return None
            raise
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write_new(self, path: str, content: bytes) -> None:
        """Write a file that does not exist yet."""
        jpath = self._path(path)
        stream = jpath.getFileSystem(self._conf).create(jpath, False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def files(self, path: str) -> list[tuple[str, int]]:
        """List the files under ``path`` except hidden ones (``_``, ``.``): path relative to it, and size in bytes."""
        jpath = self._path(path)
        system = jpath.getFileSystem(self._conf)
        prefix = str(system.makeQualified(jpath).toString()) + "/"
        found = []
        remaining = system.listFiles(jpath, True)
        while remaining.hasNext():
            status = remaining.next()
            relative = str(status.getPath().toString()).removeprefix(prefix)
            if not any(part.startswith(("_", ".")) for part in relative.split("/")):
                found.append((relative, int(status.getLen())))
        return sorted(found)

    def names(self, path: str) -> list[str]:
        """List the names directly in the directory ``path``; none if it does not exist."""
        jpath = self._path(path)
        try:
            return sorted(
                str(status.getPath().getName()) for status in jpath.getFileSystem(self._conf).listStatus(jpath)
            )
        except Py4JJavaError as error:
            if _absent(error):
                return []
            raise

    def delete(self, path: str) -> None:
        """Delete ``path`` with everything below it, if it exists."""
        jpath = self._path(path)
        jpath.getFileSystem(self._conf).delete(jpath, True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


def _absent(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException"
