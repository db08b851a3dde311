"""Reads the rows and the list of a job's published batches.

For a frame over many given paths, Spark first checks that each path exists, which costs a request for each file. For
the output of its own streaming queries, Spark makes no such check: it takes names and sizes from a log
(``_spark_metadata``), drops files by a filter on partition columns, and opens only the others. So this module writes
such a log into a temporary directory, which it deletes once the frame is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from milepost.client import Client
from milepost.core.calls.credentials import Token
from milepost.drivers.connections import Verify
from milepost.drivers.environment import File
from milepost.errors import BatchesGone
from milepost.spark.output.file_systems import SCHEME, HadoopFiles, LocalFiles
from milepost.spark.output.listing import Published, ranges
from milepost.spark.output.manifest import PublishedBatch
from milepost.spark.output.schemas import united

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BATCH = "batch"
_BY_THEMSELVES = "the batches of another type by themselves, with batches= and schema="
_LOG_VERSION = "v1"
_LOG_IGNORED = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
_PLACE = re.compile(r"\w+://[^/]*|\w+:|")
_PATTERN = re.compile(r"[\\*?\[\]{}]")
"""The characters that Spark takes for a pattern in a path to read, unless a backslash precedes them."""
_NULLABLE = ("nullable", "containsNull", "valueContainsNull")
_NOT_IN_URIS = re.compile(r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""The characters that Java escapes in the path of a URI. Spark's functions for the file of a row, such as
``input_file_name``, return escaped paths.
"""


def published_batches(
    spark: SparkSession,
    url: str | Sequence[str] | None = None,
    job: str = "",
    *,
    batches: Collection[int] | None = None,
    timeout: float = 30.0,
    token: Token | None = None,
    token_file: File | None = None,
    verify: Verify | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> list[PublishedBatch]:
    """List the batches that `Job.files` has published so far; with ``batches`` only the batches of those numbers.

    The call reads only the pages from the smallest number on. It leaves out batches that expired (`Job.expire`), with a
    warning in the log; if ``batches`` names one of them, it raises `BatchesGone`.

    ``url``, ``timeout`` and the arguments after it are those of `milepost.Client`: without ``url`` the environment
    describes the service. Raises `NotExist` if there is no such job, `UnsafeQuery` if it publishes in another way, and
    `RecordUnreadable` if a manifest is damaged.
    """
    client = Client(url, token=token, token_file=token_file, timeout=timeout, verify=verify, cert=cert, key=key)
    return _published(spark, client, job, batches)[0].batches


def read_published(
    spark: SparkSession,
    url: str | Sequence[str] | None = None,
    job: str = "",
    *,
    batches: Collection[int] | None = None,
    schema: StructType | None = None,
    timeout: float = 30.0,
    token: Token | None = None,
    token_file: File | None = None,
    verify: Verify | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> DataFrame:
    """Read the rows that `Job.files` has published so far; the column ``batch`` (long) has the batch of each row.

    A filter on that column prunes: Spark neither opens nor checks files of other batches. If files that Spark must read
    are gone, Spark raises FAILED_READ_FILE with the path of the first one, which contains the batch (``batch=3``).
    Below a directory with ``=`` in its name Spark checks all files at once, as with ``batches``.

    With ``batches`` only the batches of those numbers are read, and the call itself checks that all their files exist:
    `BatchesGone` lists the batches whose files are gone, or which are expired (`Job.expire`). Without ``batches``,
    expired ones are left out, with a warning in the log.

    The schema is that of the newest batch, unless ``schema`` is given; columns that older files lack are null. A batch
    whose rows Spark would misread with that schema raises `UnsafeQuery`. Before the first publication, the frame is
    empty and has the given ``schema``, or only the column ``batch``. The other arguments and the errors are those of
    `published_batches`.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import LongType, StructField, StructType

    client = Client(url, token=token, token_file=token_file, timeout=timeout, verify=verify, cert=cert, key=key)
    published, found_by = _published(spark, client, job, batches)
    if schema is None:
        schema = StructType.fromJson(json.loads(published.frame)) if published.frame else StructType([])
    for batch in {each.schema: each for each in published.batches}.values():
        united(batch.schema, schema.json(), f"read {_BY_THEMSELVES} (batch {batch.batch} is one of them)")
    schema = StructType([*schema.fields, StructField(BATCH, LongType())])
    files = [(f"{each.directory}/{name}", size) for each in published.batches for name, size in each.files]
    if not files:
        return spark.createDataFrame([], schema)
    try:
        return _frame_over(spark, published.output, files, schema, look=batches is not None)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        gone = _missing(published, found_by)
        raise BatchesGone(
            f"files of batches {ranges(gone)} of job {job!r} are gone from {published.output}, and no job.expire "
            f"deleted them: read the others with batches={_made_again(job, gone)}",
            gone,
        ) from error


def _made_again(job: str, gone: Sequence[int]) -> str:
    """Return the end of a sentence, with the command after which the batches that are ``gone`` are published again."""
    if gone[0] == 0:
        return ""
    return (
        f", or milepost jobs restore {job} --batch {gone[0] - 1}, after which the job publishes them again, if "
        "a snapshot of that batch is kept and the source still has the input"
    )


def _published(
    spark: SparkSession, client: Client, job: str, wanted: Collection[int] | None
) -> tuple[Published, HadoopFiles | LocalFiles]:
    """Read what the job has published; return it with the means to read its files."""
    hadoop = HadoopFiles(spark)

    def files_of(output: str) -> HadoopFiles | LocalFiles:
        return LocalFiles() if output.startswith(SCHEME) else hadoop

    with client:
        published = Published(client, job, files_of, wanted)
    return published, files_of(published.output)


def _missing(published: Published, files: HadoopFiles | LocalFiles) -> list[int]:
    """Return the batches whose files are gone."""
    return [
        batch.batch
        for batch in published.batches
        if {name.partition("/")[0] for name, _ in batch.files}
        - set(files.names(f"{published.output}/{batch.directory}"))
    ]


def _frame_over(
    spark: SparkSession, output: str, files: Sequence[tuple[str, int]], schema: StructType, *, look: bool
) -> DataFrame:
    """Return a frame of Parquet ``files``, each given by its path below ``output`` and its size in bytes. Names of
    directories below ``output`` such as ``batch=3`` become values of columns. All columns are nullable, because a file
    may lack them.

    Spark gets the list of files as a log (``_spark_metadata``), so it opens a file only when a task reads it. With
    ``look``, Spark gets the paths themselves, first checks that all files exist, and raises PATH_NOT_FOUND. It does the
    same without ``look`` in two cases: if the path of ``output`` contains ``=``, because with a log Spark would read a
    column from that name, and if the session's settings make Spark ignore such logs.
    """
    reader = spark.read.schema(type(schema).fromJson(nullable(schema.jsonValue()))).option(
        "ignoreMissingFiles", "false"
    )
    if look or "=" in output or str(spark.conf.get(_LOG_IGNORED, "false")).lower() == "true":
        return reader.option("basePath", output).parquet(*(_literal(f"{output}/{path}") for path, _ in files))
    with TemporaryDirectory(prefix="milepost-read-") as directory:
        log = Path(directory, "_spark_metadata", "0.compact")  # Spark reads this name under any compactInterval setting
        log.parent.mkdir()
        log.write_text("\n".join([_LOG_VERSION, *(_entry(f"{output}/{path}", size) for path, size in files)]))
        return reader.parquet(f"file:{directory}")


def nullable(kind: Any) -> Any:
    """Return the JSON of a type with every field, element and value made nullable. Spark does this by itself when it
    gets the paths of files, but not when it gets a list of files as a log (``_spark_metadata``).
    """
    if isinstance(kind, list):
        return [nullable(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {key: True if key in _NULLABLE else nullable(value) for key, value in kind.items()}


def _entry(uri: str, size: int) -> str:
    """Return the line of ``_spark_metadata`` about a file; values that a manifest lacks, such as the modification time,
    are 0.
    """
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
    """Return ``uri`` with the pattern characters in its path escaped, so that Spark reads exactly this file."""
    place, path = _divided(uri)
    return place + _PATTERN.sub(r"\\\g<0>", path)


def _divided(uri: str) -> tuple[str, str]:
    """Split a URI into two parts: its scheme with the authority, where Spark does not take brackets for a pattern, and
    its path.
    """
    place = _PLACE.match(uri)
    assert place is not None
    return place[0], uri[place.end() :]
