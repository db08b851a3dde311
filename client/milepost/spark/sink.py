"""A sink for Parquet files that is exactly once: staged per attempt, published by manifest, read by manifest only."""

from __future__ import annotations

import logging
import re
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from milepost.errors import RecordUnreadable, UnsafeQuery
from milepost.spark.context import BatchContext, attempts_of
from milepost.spark.hadoop import HadoopFiles
from milepost.spark.local import SCHEME, LocalFiles
from milepost.spark.manifest import (
    DIRECTORY,
    KIND,
    Page,
    PageLink,
    PublishedBatch,
    extended,
    link_from,
    link_json,
    load,
    published_by_files,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT_HEADS = 8
"""So many superseded versions of a page stay, for readers on the way."""

_ATTEMPT = re.compile(r"e(?P<epoch>\d+)-(?P<unique>[0-9a-f]+)\Z")
_PAGE = re.compile(r"batch-(?P<batch>\d+)-e(?P<epoch>\d+)-(?P<unique>[0-9a-f]+)\.json\Z")
_TROUBLE = (OSError, Py4JError)
_log = logging.getLogger(__name__)


class FilesSink:
    """The publishing function of `Job.files`: writes one batch under ``output`` and says which files it is made of."""

    def __init__(self, hadoop: HadoopFiles, output: str) -> None:
        self._output = hadoop.qualified(output)
        self._files = LocalFiles() if self._output.startswith(SCHEME) else hadoop
        self._head: tuple[PageLink, Page] | None = None
        self._began = False
        self._superseded: deque[str] = deque()

    def __call__(self, frame: DataFrame, context: BatchContext) -> dict[str, Any]:
        if "batch" in (column.lower() for column in frame.columns):
            raise UnsafeQuery("the output has a column named batch, which readers get from the sink; rename it")
        if not self._began:
            self._begin(context)
        staging = context.staging(self._output)
        _stage(frame, staging)
        published = PublishedBatch(
            context.batchId, staging.removeprefix(f"{self._output}/"), tuple(self._files.files(staging))
        )
        page = extended(self._head, published, frame.schema.json())
        self._retire(page)
        content = page.encode()
        unique = f"{attempts_of(context.job)}{uuid.uuid4().hex[:20]}"
        name = f"{DIRECTORY}/batch-{context.batchId}-e{context.epoch}-{unique}.json"
        self._files.write_new(f"{self._output}/{name}", content)
        self._head = page.link(name, content), page
        return {"kind": KIND, "output": self._output, "page": link_json(self._head[0])}

    def _begin(self, context: BatchContext) -> None:
        """Go on from the page that the last publication left, and clear away what dead attempts left."""
        link = published_page(context.previousManifest, self._output)
        if link is not None:
            try:
                self._head = link, load(link, lambda file: self._files.read(f"{self._output}/{file}"))
            except FileNotFoundError as error:
                raise RecordUnreadable(f"{self._output}/{link.file}, which lists the output so far, is gone") from error
            last = self._head[1].batches[-1]
            self._sweep(last.batch, context, keep=last.directory)
        self._sweep(context.batchId, context)
        self._sweep_pages(context)
        self._began = True

    def _sweep(self, batch: int, context: BatchContext, keep: str = "") -> None:
        """Delete this job's attempts of older epochs at ``batch``; a newer one's never, this driver may be fenced."""
        for name in self._names(f"batch={batch}"):
            if _is_older(_ATTEMPT.match(name), context) and f"batch={batch}/{name}" != keep:
                self._clear(f"batch={batch}/{name}")

    def _sweep_pages(self, context: BatchContext) -> None:
        """Delete this job's pages of older epochs that no page leads to: superseded ones, and those never published.

        Those before the two newest pages were left by nobody who swept.
        """
        kept: set[str] = set()
        first = 0
        if self._head is not None:
            link, page = self._head
            newest = [link] if page.previous is None else [link, page.previous]
            kept, first = {each.file for each in newest}, newest[-1].first
        for name in self._names(DIRECTORY):
            match, path = _PAGE.match(name), f"{DIRECTORY}/{name}"
            if match and int(match["batch"]) >= first and _is_older(match, context) and path not in kept:
                self._clear(path)

    def _retire(self, page: Page) -> None:
        """The head so far, which is published, is superseded soon, unless the new page leans on it."""
        if self._head is None or page.previous == self._head[0]:
            return
        self._superseded.append(self._head[0].file)
        while len(self._superseded) > KEPT_HEADS:
            self._clear(self._superseded.popleft())

    def _names(self, directory: str) -> list[str]:
        """What lies in a directory of the output; nothing where that cannot be told: no batch fails for it."""
        try:
            return self._files.names(f"{self._output}/{directory}")
        except _TROUBLE as error:
            _log.warning("what dead attempts left in %s/%s stays for now: %s", self._output, directory, error)
            return []

    def _clear(self, path: str) -> None:
        """Delete what nobody needs under the output. If it cannot be had, it stays: no batch fails for it."""
        try:
            self._files.delete(f"{self._output}/{path}")
        except _TROUBLE as error:
            _log.warning("%s/%s, which nobody needs, stays for now: %s", self._output, path, error)


def _stage(frame: DataFrame, directory: str) -> None:
    """Write all rows. Spark runs every partition to its end for it, also one that turns out to be empty."""
    frame.write.parquet(directory)


def _is_older(match: re.Match[str] | None, context: BatchContext) -> bool:
    """Whether a name is one of the same job and of an epoch before this one."""
    own = match is not None and match["unique"].startswith(attempts_of(context.job))
    return match is not None and own and int(match["epoch"]) < context.epoch


def published_page(manifest: Any, output: str | None = None) -> PageLink | None:
    """The newest page that a job record's manifest names, None before the first publication.

    Raises `UnsafeQuery` when the job published something else, or into another directory than ``output``.
    """
    if manifest is None:
        return None
    if not published_by_files(manifest):
        raise UnsafeQuery("this job did not publish by job.files so far; begin the files under another job's name")
    if output is not None and manifest["output"] != output:
        raise UnsafeQuery(f"this job publishes into {manifest['output']} and cannot go on in {output}")
    return link_from(manifest["page"])
