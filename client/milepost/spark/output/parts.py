"""Sees to it that the driver finds what the tasks of a write have written.

Each executor of a cluster writes a path of ``file:`` to the disk of its own machine, and Spark's write succeeds all the
same. The driver, which names the files of a batch, then finds those of its own machine alone, or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.errors import UnsafeQuery
from milepost.spark.output.local import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[.*\])?")
"""The masters with which tasks run in the driver's JVM."""
_MOST = 64
_OWN_DISKS = (
    "executors have disks of their own there; give job.files a directory that they and all drivers have in common, "
    "such as one in an object store or on a disk that is mounted everywhere"
)
_PART = re.compile(r"part-(?P<partition>\d+)-")


def check_written(files: Iterable[tuple[str, int]], directory: str) -> None:
    """Raise `UnsafeQuery` if the file of the first partition is not among the ``files`` that the driver finds: Spark
    writes that one even if it has no rows. Names that are none of Spark's say nothing.
    """
    parts = [_PART.match(path.rpartition("/")[2]) for path, _ in files]
    if not all(parts) or any(part is not None and int(part["partition"]) == 0 for part in parts):
        return
    raise UnsafeQuery(
        f"Spark has written {directory}, but the driver does not find there what the first task wrote: {_OWN_DISKS}"
    )


def check_common(spark: SparkSession, files: LocalFiles, directory: str) -> None:
    """Raise `UnsafeQuery` if tasks do not see what the driver writes into ``directory``, a new one, which is deleted.

    There are as many tasks as run at once, so that all executors that there are by then get some. They need no Python.
    """
    context = spark.sparkContext
    if _LOCAL.fullmatch(str(context.master)):
        return
    tasks = max(1, min(context.defaultParallelism, _MOST))
    try:
        for number in range(tasks):
            files.write_new(f"{directory}/{number}.txt", b"seen\n")
        reader = spark.read.option("ignoreMissingFiles", "true").option("__globPaths__", "false")
        seen = reader.schema("value string").text(directory).count()
    finally:
        files.delete(directory)
    if seen != tasks:
        raise UnsafeQuery(
            f"{tasks} tasks looked for files that the driver wrote to {directory}, and {seen} found one: {_OWN_DISKS}"
        )
