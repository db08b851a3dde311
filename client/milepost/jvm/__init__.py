"""``milepost.jar``: the classes of Milepost that Spark's JVMs load. Their sources are in ``client/jvm``, and
``tools/jvm`` builds the jar.

=============================================  =========================================================================
``io.milepost.run.Agent``                      sets Spark's properties to the classes below, for `milepost run`
``io.milepost.run.RowsListener``               writes down how many rows each batch read
``io.milepost.spark.FileManager``              Spark's ``CheckpointFileManager`` that puts a small file by one request
``io.milepost.spark.EarlierFileManager``       the same for a Spark before 4.1
=============================================  =========================================================================
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

NAME: Final = "milepost.jar"

FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's property with the class that manages the files of checkpoints."""
FILE_MANAGERS: Final = ("io.milepost.spark.FileManager", "io.milepost.spark.EarlierFileManager")
"""Milepost's managers. One of them can be loaded: each implements an interface that only some Sparks have."""


def content() -> bytes:
    """Return the bytes of the jar."""
    return resources.files(__package__).joinpath(NAME).read_bytes()


@cache
def path() -> Path:
    """Return the path of the jar, which is there until the end of this process. A package in a zip file is unpacked.

    Raises OSError.
    """
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(resources.as_file(resources.files(__package__).joinpath(NAME)))
