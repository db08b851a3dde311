"""Reads and writes the files of a job's checkpoint as Spark does: with Hadoop's client, and the settings of the
query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError

from milepost.core.checkpoint_location import CheckpointLocation
from milepost.errors import ConnectionFailed, MilepostError, UnsafeQuery, WrongCheckpoint
from milepost.spark.output.file_systems import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAUSE_MS = 500
_OUTAGES = (
    "java.net.",
    "org.apache.hadoop.net.",
    "org.apache.hadoop.ipc.StandbyException",
    "org.apache.hadoop.ipc.RetriableException",
)
"""The prefixes of the names of Java exceptions that mean that the service is unavailable."""
_LASTING = ("java.net.UnknownHostException",)
_DENIED = "org.apache.hadoop.security.AccessControlException"

_T = TypeVar("_T")


class CheckpointTree:
    """The checkpoint of a job at ``location``, read and written with the settings of ``location``. Paths are relative
    to the checkpoint.

    If the service is a single server that does not answer, a call retries for about ``outage_timeout`` seconds.
    """

    def __init__(self, spark: SparkSession, location: CheckpointLocation, outage_timeout: float) -> None:
        self.location = location.url
        tries = max(1, round(outage_timeout * 1000 / _PAUSE_MS))
        retry = {"dfs.http.client.retry.policy.spec": f"{_PAUSE_MS},{tries}"}
        self._files = HadoopFiles(spark, {**location.settings, **retry})

    def names(self, directory: str) -> list[str]:
        """List the names in a directory; none if it does not exist. Raises the errors of `read`."""
        return self._asked(lambda: self._files.names(f"{self.location}/{directory}"))

    def read(self, path: str) -> bytes | None:
        """Read a file; None if it does not exist.

        Raises `ConnectionFailed` if the service is unavailable, `UnsafeQuery` if it denies Spark access, and
        `WrongCheckpoint` if Spark cannot read there for another reason.
        """
        return self._asked(lambda: self._files.read(f"{self.location}/{path}"))

    def skim(self, directory: str, least: int, most: int, looked_at: int) -> int:
        """Read files below ``directory`` and discard the bytes, to warm up the JVM, as `HadoopFiles.skim` does; return
        how many bytes were read. Raises the errors of `read`.
        """
        return self._asked(lambda: self._files.skim(f"{self.location}/{directory}", least, most, looked_at))

    def write(self, path: str, content: bytes) -> None:
        """Write a file; replace an existing one. Raises the errors of `read`."""
        self._asked(lambda: self._files.write_new(f"{self.location}/{path}", content, overwrite=True))

    def delete(self, path: str) -> None:
        """Delete a file if it exists. Raises the errors of `read`."""
        self._asked(lambda: self._files.delete(f"{self.location}/{path}"))

    def _asked(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except Py4JJavaError as error:
            raise self._translate(error) from error

    def _translate(self, error: Py4JJavaError) -> MilepostError:
        name = str(error.java_exception.getClass().getName())
        text = f"{name}: {error.java_exception.getMessage()}"
        if name.startswith(_OUTAGES) and not name.startswith(_LASTING):
            return ConnectionFailed(f"Spark does not reach the job's checkpoint at {self.location}: {text}")
        if name == _DENIED:
            return UnsafeQuery(
                f"the service does not let Spark read or write the job's checkpoint at {self.location}: {text}"
            )
        return WrongCheckpoint(f"Spark cannot read or write the job's checkpoint at {self.location}: {text}")
