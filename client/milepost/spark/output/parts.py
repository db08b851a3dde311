"""Sees to it that the driver finds what the tasks of a write have written.

Each executor of a cluster writes a path of ``file:`` to the disk of its own machine, and Spark's write succeeds all the
same. The driver, which names the files of a batch, then finds those of its own machine alone, or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from milepost.errors import UnsafeQuery

_PART = re.compile(r"part-(?P<partition>\d+)-")


def check_written(files: Iterable[tuple[str, int]], directory: str) -> None:
    """Raise `UnsafeQuery` if the file of the first partition is not among the ``files`` that the driver finds: Spark
    writes that one even if it has no rows. Names that are none of Spark's say nothing.
    """
    parts = [_PART.match(path.rpartition("/")[2]) for path, _ in files]
    if not all(parts) or any(part is not None and int(part["partition"]) == 0 for part in parts):
        return
    raise UnsafeQuery(
        f"Spark has written {directory}, but the driver does not find there what the first task wrote: executors write "
        "to disks of their own; give job.files a directory that they and all drivers have in common, such as one in an "
        "object store or on a disk that is mounted everywhere"
    )
