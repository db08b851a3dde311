"""Makes the frame over the files that a manifest names.

Spark looks for each path that it is given when the frame is made. The output of its own streaming queries it reads by
a log of names and sizes instead, ``_spark_metadata``, and looks for a file when a task reads it; a filter on partition
columns prunes before that. So it is handed such a log here, in a directory that is deleted once the frame is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG_VERSION = "v1"
_LOG_IGNORED = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
_PLACE = re.compile(r"\w+://[^/]*|\w+:|")
_PATTERN = re.compile(r"[\\*?\[\]{}]")
"""What Spark takes for a pattern of names in a path that it is to read, unless there is a backslash before it."""
_NULLABLE = ("nullable", "containsNull", "valueContainsNull")
_NOT_IN_URIS = re.compile(r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""What Java escapes in the path of a URI; the columns with which Spark says where a row is from have it so."""


def frame_over(
    spark: SparkSession, output: str, files: Sequence[tuple[str, int]], schema: StructType, *, look: bool
) -> DataFrame:
    """Return the frame of some Parquet files, each with its path below ``output`` and its size. Names of directories
    below ``output`` such as ``batch=3`` are the values of columns. All columns may be null, for want of them in a file.

    With ``look``, Spark looks for all files first, and raises PATH_NOT_FOUND. It also does so below a directory whose
    own name looks like that of a partition, since by a log it would take that one for a column, too, and if the session
    has Spark ignore such logs.
    """
    reader = spark.read.schema(type(schema).fromJson(_nullable(schema.jsonValue()))).option(
        "ignoreMissingFiles", "false"
    )
    if look or "=" in output or str(spark.conf.get(_LOG_IGNORED, "false")).lower() == "true":
        return reader.option("basePath", output).parquet(*(_literal(f"{output}/{path}") for path, _ in files))
    with TemporaryDirectory(prefix="milepost-read-") as directory:
        log = Path(directory, "_spark_metadata", "0.compact")  # read at any compactInterval
        log.parent.mkdir()
        log.write_text("\n".join([_LOG_VERSION, *(_entry(f"{output}/{path}", size) for path, size in files)]))
        return reader.parquet(f"file:{directory}")


def _nullable(kind: Any) -> Any:
    """Return the JSON of a type with nulls in it wherever they can be, as Spark has it of files that it looks for."""
    if isinstance(kind, list):
        return [_nullable(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {key: True if key in _NULLABLE else _nullable(value) for key, value in kind.items()}


def _entry(uri: str, size: int) -> str:
    """Return the line about a file; what a manifest does not have of it, such as its time, is 0."""
    place, path = _divided(uri)
    place = "file://" if place == "file:" else place  # so Spark names the files that it looks for itself
    return json.dumps(
        {
            "path": place + _NOT_IN_URIS.sub(lambda found: quote(found[0], safe=""), path),
            "size": size,
            "isDir": False,
            "modificationTime": 0,
            "blockReplication": 0,
            "blockSize": 0,
            "action": "add",
        }
    )


def _literal(uri: str) -> str:
    """Return the URI under which Spark reads this one file, whatever its name."""
    place, path = _divided(uri)
    return place + _PATTERN.sub(r"\\\g<0>", path)


def _divided(uri: str) -> tuple[str, str]:
    """Return the scheme and address, which may have brackets as well, and the path."""
    place = _PLACE.match(uri)
    assert place is not None
    return place[0], uri[place.end() :]
