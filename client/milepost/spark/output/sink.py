"""A sink for Parquet files that publishes each batch exactly once.

Each attempt at a batch writes its files to its own staging directory. The files count as published once the manifest
names them, and readers read no others.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from milepost.errors import RecordUnreadable, UnsafeQuery
from milepost.job_record import KIND, Abandoned, JobRecord, published_by_files
from milepost.spark.driver.calls import describe
from milepost.spark.output.file_systems import SCHEME, HadoopFiles, LocalFiles
from milepost.spark.output.manifest import (
    DIRECTORY,
    Page,
    PageLink,
    PublishedBatch,
    chain,
    extended,
    link_from,
    link_json,
    up_to,
)
from milepost.spark.output.schemas import united
from milepost.spark.publishing import BatchContext, attempts_of, evaluated_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT_HEADS = 8
"""The number of replaced pages that are kept, for readers that read the job record before the replacement."""

_ATTEMPT = re.compile(r"e(?P<epoch>\d+)-(?P<unique>[0-9a-f]+)\Z")
_PAGE = re.compile(r"batch-(?P<batch>\d+)-e(?P<epoch>\d+)-(?P<unique>[0-9a-f]+)\.json\Z")
_LOCAL = re.compile(r"local(?:\[.*\])?")
"""The pattern of Spark masters with which tasks run in the driver's own JVM."""
_MOST = 64
_OWN_DISKS = (
    "executors have disks of their own there; give job.files a directory that they and all drivers have in common, "
    "such as one in an object store or on a disk that is mounted everywhere"
)
_PART = re.compile(r"part-(?P<partition>\d+)-")
_ANOTHER_NAME = (
    "cast it to the type it had, or give it another name; if that type was published by mistake, milepost jobs restore "
    "takes the job back to a batch from before"
)
TROUBLE = (OSError, Py4JError)
"""The exceptions of the file operations of `LocalFiles` and `HadoopFiles`."""
_log = logging.getLogger(__name__)


Transform = Callable[["DataFrame", BatchContext], "DataFrame"]
"""A function that turns the frame of a batch into the frame to write."""


class FilesSink:
    """The publisher of `Job.files`: it writes a batch's files, and a page that lists them, under ``output``.

    The JSON that it returns for the job record is the manifest: a link to that page.
    """

    def __init__(self, hadoop: HadoopFiles, output: str, transform: Transform | None = None) -> None:
        self._transform = transform
        self._output = hadoop.qualified(output)
        self._files = LocalFiles() if self._output.startswith(SCHEME) else hadoop
        self._newest: tuple[PageLink, Page] | None = None
        self._began = False
        self._replaced: deque[str] = deque()
        self._abandoned: tuple[Abandoned, ...] = ()
        self._first = 0

    def check(self, record: JobRecord) -> None:
        """Raise `UnsafeQuery` if the job of this ``record`` has published in another way than `Job.files`. The first
        batch checks whether the job publishes into the same output as before.
        """
        published_page(record.manifest, record.published, first=record.first_output)
        self._abandoned, self._first = record.abandoned, record.first_output

    def publish(self, frame: DataFrame, context: BatchContext) -> dict[str, Any]:
        """Write the rows of a batch to new files, and then a page that lists them; return the manifest for the job
        record. Readers do not see the new files before the batch is published.
        """
        if self._transform is None:
            # Not cached: the write itself evaluates every partition to its end, exactly once.
            return self._write(frame, context)
        with evaluated_once(frame) as kept:
            return self._write(self._transform(kept, context), context)

    def _write(self, frame: DataFrame, context: BatchContext) -> dict[str, Any]:
        if "batch" in (column.lower() for column in frame.columns):
            raise UnsafeQuery(
                "the output has a column named batch, a name that the sink uses for the number of the batch; rename it"
            )
        if not self._began:
            self._begin(frame, context)
        schema = frame.schema.json()
        columns = united("" if self._newest is None else self._newest[1].columns, schema, _ANOTHER_NAME)
        staging = context.staging(self._output)
        _stage(frame, staging)
        files = tuple(self._files.files(staging))
        _check_written(files, staging)
        published = PublishedBatch(context.batchId, staging.removeprefix(f"{self._output}/"), files, schema)
        page = extended(self._newest, published, columns)
        self._retire(page)
        content = page.encode()
        unique = f"{attempts_of(context.job)}{uuid.uuid4().hex[:20]}"
        name = f"{DIRECTORY}/batch-{context.batchId}-e{context.epoch}-{unique}.json"
        self._files.write_new(f"{self._output}/{name}", content)
        self._newest = page.link(name, content), page
        return {"kind": KIND, "output": self._output, "page": link_json(self._newest[0])}

    def _begin(self, frame: DataFrame, context: BatchContext) -> None:
        """Read the last published page, which the next one continues, and delete files that attempts of earlier drivers
        left behind.
        """
        link = published_page(context.previous_manifest, context.batchId - 1, self._output, first=self._first)
        if isinstance(self._files, LocalFiles):
            _check_common(frame.sparkSession, self._files, context.staging(self._output))
        if link is not None:
            try:
                self._newest = up_to(link, self._read, context.batchId - 1, context.timeline, _columns)
            except FileNotFoundError as error:
                raise RecordUnreadable(f"{self._output}/{error}, which lists the output so far, is gone") from error
        self._sweep_all(context)
        self._began = True

    def _read(self, file: str) -> bytes | None:
        return self._files.read(f"{self._output}/{file}")

    def _sweep_all(self, context: BatchContext) -> None:
        """Delete what attempts of earlier drivers left behind, as `_sweep` and `_sweep_pages` do.

        What restores have abandoned stays, since a later restore may return to it. If its pages cannot be read, nothing
        is deleted.
        """
        kept: set[str] = set()
        first, batches = 0, {context.batchId}
        if self._newest is not None:
            link, page = self._newest
            newest = [link] if page.previous is None else [link, page.previous]
            kept = {*(each.file for each in newest), page.batches[-1].directory}
            first = newest[-1].first
            batches.add(page.batches[-1].batch)
        try:
            kept |= self._abandoned_since(first)
        except (RecordUnreadable, FileNotFoundError, *TROUBLE) as error:
            _log.warning(
                "pages of what restores have abandoned in %s could not be read, what dead attempts left stays for now: "
                "%s",
                self._output,
                describe(error),
            )
            return
        for batch in batches:
            self._sweep(batch, context, kept)
        self._sweep_pages(context, first, kept)

    def _abandoned_since(self, first: int) -> set[str]:
        """Return the pages, and the directories of the batches that they list, of all that restores have abandoned; of
        each only what covers the batch ``first`` or later ones.
        """
        found: set[str] = set()
        for each in self._abandoned:
            for link, page in chain(published_page(each.manifest, each.published), self._read, first):
                found |= {link.file, *(batch.directory for batch in page.batches)}
        return found

    def _sweep(self, batch: int, context: BatchContext, keep: Collection[str]) -> None:
        """Delete the staging directories of ``batch`` that drivers of older epochs of this job wrote, except those in
        ``keep``.

        Directories of newer epochs stay: a newer driver may lead by now, although this driver does not know that yet.
        """
        for name in self._names(f"batch={batch}"):
            if _is_older(_ATTEMPT.match(name), context) and f"batch={batch}/{name}" not in keep:
                self._clear(f"batch={batch}/{name}")

    def _sweep_pages(self, context: BatchContext, first: int, kept: Collection[str]) -> None:
        """Delete pages of older epochs of this job that are not in ``kept``: replaced pages, and pages that were never
        published.

        Pages of batches before ``first`` are skipped, because earlier drivers have deleted the replaced ones among
        them.
        """
        for name in self._names(DIRECTORY):
            match, path = _PAGE.match(name), f"{DIRECTORY}/{name}"
            if match and int(match["batch"]) >= first and _is_older(match, context) and path not in kept:
                self._clear(path)

    def _retire(self, page: Page) -> None:
        """Record that ``page`` replaces the newest page, and delete replaced pages beyond the last `KEPT_HEADS`. If
        ``page`` links to the newest page, or a restore has abandoned batches of that page, do nothing: that page stays.
        """
        if self._newest is None or page.previous == self._newest[0]:
            return
        link, newest = self._newest
        if link.last != newest.batches[-1].batch:
            return
        self._replaced.append(self._newest[0].file)
        while len(self._replaced) > KEPT_HEADS:
            self._clear(self._replaced.popleft())

    def _names(self, directory: str) -> list[str]:
        """List a directory of the output; return an empty list on failure, because no batch should fail for it."""
        try:
            return self._files.names(f"{self._output}/{directory}")
        except TROUBLE as error:
            _log.warning(
                "what dead attempts left in %s/%s could not be listed, it stays for now: %s",
                self._output,
                directory,
                describe(error),
            )
            return []

    def _clear(self, path: str) -> None:
        """Delete a path under the output that is no longer needed. A failure is only logged: no batch should fail for
        it.
        """
        try:
            self._files.delete(f"{self._output}/{path}")
        except TROUBLE as error:
            _log.warning(
                "%s/%s is not needed any more but could not be deleted, it stays for now: %s",
                self._output,
                path,
                describe(error),
            )


def _columns(previous: Page | None, page: Page) -> str:
    """Return all columns of a page's batches and of the page before it, each with its latest type."""
    columns = "" if previous is None else previous.columns
    for batch in page.batches:
        columns = united(columns, batch.schema, _ANOTHER_NAME) if batch.schema else columns
    return columns


def _stage(frame: DataFrame, directory: str) -> None:
    """Write all rows into ``directory``. For this, Spark evaluates every partition to its end, including empty ones."""
    frame.write.parquet(directory)


def _check_written(files: Iterable[tuple[str, int]], directory: str) -> None:
    """Raise `UnsafeQuery` if the file of the first partition is not among the ``files`` that the driver finds: Spark
    writes this file even without rows. If a file's name is not one that Spark gives, the check is skipped.

    Each executor of a cluster writes a ``file:`` path to the disk of its own machine, and Spark's write succeeds
    anyway. The driver, which lists the files of a batch, then finds only those of its own machine, or none.
    """
    parts = [_PART.match(path.rpartition("/")[2]) for path, _ in files]
    if not all(parts) or any(part is not None and int(part["partition"]) == 0 for part in parts):
        return
    raise UnsafeQuery(
        f"Spark has written {directory}, but the driver does not find there what the first task wrote: {_OWN_DISKS}"
    )


def _check_common(spark: SparkSession, files: LocalFiles, directory: str) -> None:
    """Raise `UnsafeQuery` if Spark's tasks do not see a file that the driver writes into ``directory``. The directory
    must be new, and is deleted afterwards.

    The check runs as many tasks as can run at once, so that every executor that has started by then gets some. The
    tasks need no Python.
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


def _is_older(match: re.Match[str] | None, context: BatchContext) -> bool:
    """Return whether the name of a page or a staging directory, in ``match``, belongs to this job and to an older epoch
    than the driver's.
    """
    own = match is not None and match["unique"].startswith(attempts_of(context.job))
    return match is not None and own and int(match["epoch"]) < context.epoch


def published_page(manifest: Any, published: int, output: str | None = None, *, first: int = 0) -> PageLink | None:
    """Return the link to the newest page from a job record's manifest; None before the first publication.

    ``published`` is the last published batch, and ``first`` the first one whose output may be the job's own
    (`JobRecord.first_output`): if such a batch was published but the manifest is None, a user's own function published
    it. Raises `UnsafeQuery` if the job published in another way, or into another directory than ``output``.
    """
    if manifest is None and published < first:
        return None
    if not published_by_files(manifest):
        raise UnsafeQuery(
            "this job did not publish by job.files so far; to publish files, begin a job under another name"
        )
    if output is not None and manifest["output"] != output:
        raise UnsafeQuery(f"this job publishes into {manifest['output']} and cannot go on in {output}")
    return link_from(manifest["page"])
