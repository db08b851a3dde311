"""Reads files of published output in processes that have no JVM: local ones by Python, others by Arrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import fs

from milepost.errors import UnsafeQuery
from milepost.spark.output.file_systems import SCHEME, LocalFiles, local_path

_S3 = ("s3", "s3a", "s3n")


class ArrowFiles:
    """The file operations of a reader, by Arrow's file systems. Paths are URIs in Hadoop's unescaped form.

    ``timeout`` (seconds) bounds a connection to S3 and each wait for its answer. For other file systems Arrow has no
    such bound, and Spark's own timeouts apply.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._systems: dict[str, tuple[fs.FileSystem, str]] = {}

    def read(self, path: str) -> bytes | None:
        """Return the bytes at ``path``; None if there is no such file."""
        try:
            with self.open(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    @contextmanager
    def open(self, uri: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access. Raises FileNotFoundError, other OSErrors, and `UnsafeQuery` for a file system
        that Arrow cannot read here.
        """
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        place = f"{scheme}://{authority}/"
        if place not in self._systems:
            self._systems[place] = self._system(scheme, authority, place)
        system, root = self._systems[place]
        with system.open_input_file(f"{root}/{path}") as file:
            yield file

    def _system(self, scheme: str, authority: str, place: str) -> tuple[fs.FileSystem, str]:
        """Return the file system at the URI ``place``, and what its paths begin with."""
        if scheme in _S3:
            return _s3(self._timeout), authority
        try:
            system, root = fs.FileSystem.from_uri(place)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise UnsafeQuery(
                f"Python cannot read the published files at {place}, because Arrow has no file system for it here "
                f"({reason}): use milepost.spark.read_published, which reads them by Hadoop's"
            ) from error
        return system, str(root).rstrip("/")


def _s3(timeout: float) -> fs.S3FileSystem:
    """Return the S3 that the environment describes, by the variables that AWS's own clients read."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return fs.S3FileSystem(connect_timeout=timeout, request_timeout=timeout)
    # Arrow itself reads the credentials and the region there, and not the endpoint.
    scheme, _, host = endpoint.rpartition("://")
    return fs.S3FileSystem(
        endpoint_override=host.rstrip("/"), scheme=scheme or "https", connect_timeout=timeout, request_timeout=timeout
    )


class LocalArrowFiles(LocalFiles):
    """The file operations of a reader, on ``file:`` paths."""

    @contextmanager
    def open(self, uri: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access. Raises FileNotFoundError and other OSErrors."""
        with pa.OSFile(str(local_path(uri)), "rb") as file:
            yield file


def files_of(output: str, timeout: float) -> ArrowFiles | LocalArrowFiles:
    """Return the means to read the files of an output, given its URI."""
    return LocalArrowFiles() if output.startswith(SCHEME) else ArrowFiles(timeout)
