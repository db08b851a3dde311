"""Makes the frame over the files that a manifest names.

Spark checks that each given path exists when the frame is made. It reads the output of its own streaming queries from
``_spark_metadata``, a log of names and sizes, instead, and opens a file only when a task reads it; a filter on
partition columns prunes before that. So this module writes such a log into a directory that it deletes once the frame
is made.
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
"""The characters that Spark takes for a pattern in a path to read, unless a backslash precedes them."""
_NULLABLE = ("nullable", "containsNull", "valueContainsNull")
_NOT_IN_URIS = re.compile(r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""The characters that Java escapes in the path of a URI; Spark's columns with the file of a row have them escaped."""


def frame_over(
    spark: SparkSession, output: str, files: Sequence[tuple[str, int]], schema: StructType, *, look: bool
) -> DataFrame:
    """Return the frame of the given Parquet files, each with its path below ``output`` and its size. Names of
    directories below ``output`` such as ``batch=3`` become values of columns. All columns are nullable, because a file
    may lack them.

    With ``look``, Spark first checks that all files exist, and raises PATH_NOT_FOUND. Spark does this also if the path
    of ``output`` contains a name that looks like a partition, since with a log it would take that name for a column,
    too, and if the session has Spark ignore such logs.
    """
    reader = spark.read.schema(type(schema).fromJson(_nullable(schema.jsonValue()))).option(
        "ignoreMissingFiles", "false"
    )
    if look or "=" in output or str(spark.conf.get(_LOG_IGNORED, "false")).lower() == "true":
        return reader.option("basePath", output).parquet(*(_literal(f"{output}/{path}") for path, _ in files))
    with TemporaryDirectory(prefix="milepost-read-") as directory:
        log = Path(directory, "_spark_metadata", "0.compact")  # Spark reads this log file with any compactInterval
        log.parent.mkdir()
        log.write_text("\n".join([_LOG_VERSION, *(_entry(f"{output}/{path}", size) for path, size in files)]))
        return reader.parquet(f"file:{directory}")


def _nullable(kind: Any) -> Any:
    """Return the JSON of a type in which every part is nullable, as Spark has it for files that it lists itself."""
    if isinstance(kind, list):
        return [_nullable(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {key: True if key in _NULLABLE else _nullable(value) for key, value in kind.items()}


def _entry(uri: str, size: int) -> str:
    """Return the log's line about a file; values that a manifest lacks, such as the file's time, are 0."""
    place, path = _divided(uri)
    place = "file://" if place == "file:" else place  # Spark uses this form for the names of files that it lists itself
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
    """Return the URI under which Spark reads exactly this file, whatever its name."""
    place, path = _divided(uri)
    return place + _PATTERN.sub(r"\\\g<0>", path)


def _divided(uri: str) -> tuple[str, str]:
    """Return the scheme with the authority, which may contain brackets as well, and the path."""
    place = _PLACE.match(uri)
    assert place is not None
    return place[0], uri[place.end() :]
