"""The manifest of published files: a chain of pages beside the output; the job record names the newest page.

A page is a file that lists the batches since the page before it. A page never changes: while the newest page is not
full, each batch writes a copy of it with one more entry, under a new name, and the job record then names the copy. A
full page stays, and the next page links to it. So the job record stays small, each batch costs one small file, and a
reader of all batches reads one file for each page. Every link carries the digest of the page that it names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from milepost.errors import RecordUnreadable
from milepost.timeline import Timeline, contains

SCHEMA = 1
_EPOCH = re.compile(r"/e(\d+)-[^/]*\Z")
PAGE_BATCHES = 128
"""The number of batches that fill a page."""
PAGE_BYTES = 256 * 1024
"""The number of bytes that fill a page, however few batches it lists."""
DIRECTORY = "_milepost"
"""The directory of the pages, below the output; Spark's readers ignore names that begin with an underscore."""


@dataclass(frozen=True)
class PublishedBatch:
    """One batch's output: its ``files``, each with its path below ``directory`` and its size in bytes.

    ``directory`` is relative to the output. ``schema`` is the schema of the rows, in Spark's JSON; "" if the batch is
    of a release that did not store it.
    """

    batch: int
    directory: str
    files: tuple[tuple[str, int], ...]
    schema: str = ""

    @property
    def epoch(self) -> int | None:
        """The epoch under which the batch was published, from the name of the directory; None if it has none."""
        found = _EPOCH.search(self.directory)
        return None if found is None else int(found[1])

    def counts(self, published: int, timeline: Timeline) -> bool:
        """Return whether the batch counts for a job whose last published batch is ``published``.

        A page may also list what a restore has abandoned: batches above the published one, and those whose numbers
        batches without output, those of rescales, have got since.
        """
        known = self.epoch is None or contains(timeline, self.batch, self.epoch)
        return self.batch <= published and known


@dataclass(frozen=True)
class PageLink:
    """A link to a page: its file (relative to the output), the digest of its bytes, and the batches that it covers."""

    file: str
    sha256: str
    first: int
    last: int


@dataclass(frozen=True)
class Page:
    """A page of the manifest: batches in ascending order.

    ``columns`` are all columns published so far, each with its latest type, in Spark's JSON. ``previous`` links to the
    page before this one; None for the first page.
    """

    batches: tuple[PublishedBatch, ...]
    columns: str
    previous: PageLink | None = None

    @property
    def frame(self) -> str:
        """The schema of the newest batch."""
        return self.batches[-1].schema

    def encode(self) -> bytes:
        """Return the bytes of the page's file."""
        schemas = list(dict.fromkeys(b.schema for b in self.batches))  # each once: batches usually share a long schema
        place = {schema: number for number, schema in enumerate(schemas)}
        return json.dumps(
            {
                "schema": SCHEMA,
                "frame": self.frame,  # older releases read the newest batch's schema here
                "frames": schemas,
                "frame_of": [place[b.schema] for b in self.batches],
                "columns": self.columns,
                "batches": [[b.batch, b.directory, [list(file) for file in b.files]] for b in self.batches],
                "previous": None if self.previous is None else link_json(self.previous),
            },
            separators=(",", ":"),
        ).encode()

    def link(self, file: str, content: bytes) -> PageLink:
        """Return the link to this page, which was written as ``content`` to ``file``."""
        return PageLink(file, hashlib.sha256(content).hexdigest(), self.batches[0].batch, self.batches[-1].batch)


def extended(newest: tuple[PageLink, Page] | None, batch: PublishedBatch, columns: str) -> Page:
    """Return the page to write when ``batch`` is published: a copy of the newest page with one more entry, or a new
    page.

    ``newest`` is the page that the job record names, with the link to it; None if nothing was published yet. If the
    newest page is full, the new page lists only ``batch`` and links to the newest page. ``columns`` are all columns
    published so far, including those of ``batch``.
    """
    if newest is None:
        return Page((batch,), columns)
    link, page = newest
    full = len(page.batches) >= PAGE_BATCHES or len(page.encode()) >= PAGE_BYTES
    if full and link.last == page.batches[-1].batch:  # else the file of the page lists batches that count no more
        return Page((batch,), columns, link)
    return replace(page, batches=(*page.batches, batch), columns=columns)


def pages(newest: PageLink | None, read: Callable[[str], bytes | None], since: int = 0) -> Iterator[Page]:
    """Yield, newest first, every page that lists the batch ``since`` or a later one; the last yielded page may list
    older batches, too.

    ``read`` is as in `load`, whose errors this raises.
    """
    for _, page in chain(newest, read, since):
        yield page


def chain(
    newest: PageLink | None, read: Callable[[str], bytes | None], since: int = 0
) -> Iterator[tuple[PageLink, Page]]:
    """Yield what `pages` yields, each page with the link to it."""
    link = newest
    while link is not None and link.last >= since:
        page = load(link, read)
        yield link, page
        link = page.previous


def up_to(
    newest: PageLink,
    read: Callable[[str], bytes | None],
    last: int,
    timeline: Timeline,
    columns: Callable[[Page | None, Page], str],
) -> tuple[PageLink, Page]:
    """Return the newest page that lists the batch ``last`` or an earlier one, with the link to it.

    After a restore of the job, the page that the job record names may list batches that count no more
    (`PublishedBatch.counts`). They are left out of the returned page, whose ``columns`` are then those that
    ``columns(previous, page)`` returns.

    Raises the errors of `load`, and `RecordUnreadable` if no page lists such a batch.
    """
    found = chain(newest, read)
    for link, page in found:
        kept = tuple(batch for batch in page.batches if batch.counts(last, timeline))
        if kept == page.batches:
            return link, page
        if kept:
            previous = next(found, None)
            shorter = replace(page, batches=kept)
            return link, replace(shorter, columns=columns(previous and previous[1], shorter))
    raise RecordUnreadable(f"no page that {newest.file} leads to lists batch {last}")


def load(link: PageLink, read: Callable[[str], bytes | None]) -> Page:
    """Read the page that ``link`` names. ``read`` returns the bytes of a file, or None if it does not exist.

    Raises FileNotFoundError if there is no such file, and `RecordUnreadable` if its bytes are not those that were
    published, or are of a schema that this version does not know.
    """
    content = read(link.file)
    if content is None:
        raise FileNotFoundError(link.file)
    if hashlib.sha256(content).hexdigest() != link.sha256:
        raise RecordUnreadable(f"{link.file} is not the file that was published: its digest differs")
    raw = json.loads(content)
    if raw["schema"] != SCHEMA:
        raise RecordUnreadable(f"{link.file} has schema {raw['schema']!r}, this version knows {SCHEMA}")
    newest = str(raw["frame"])
    schemas = [str(raw["frames"][at]) for at in raw["frame_of"]] if "frames" in raw else _of_newest(newest, raw)
    return Page(
        batches=tuple(
            PublishedBatch(b, d, tuple((str(name), int(size)) for name, size in f), schema)
            for (b, d, f), schema in zip(raw["batches"], schemas, strict=True)
        ),
        columns=str(raw.get("columns", newest)),
        previous=None if raw["previous"] is None else link_from(raw["previous"]),
    )


class Files(Protocol):
    """The file operations that `delete_expired` uses; `HadoopFiles` and `LocalFiles` have them."""

    def read(self, path: str) -> bytes | None: ...
    def delete(self, path: str) -> None: ...
    def delete_empty(self, path: str) -> None: ...


def delete_expired(files: Files, output: str, newest: PageLink, before: int) -> None:
    """Delete the remaining files of the batches below ``before``, which are expired, and each page that lists no
    others.

    Before this call, the job record must list the batches as expired, so that no reader looks for their files. The
    oldest files are deleted first, and each page after the files that it lists, so that a later call can continue an
    interrupted one.

    Raises `RecordUnreadable` if a page is damaged.
    """
    for link, page in reversed(_chain(files, output, newest)):
        for batch in page.batches:
            if batch.batch < before:
                files.delete(f"{output}/{batch.directory}")
                files.delete_empty(f"{output}/{batch.directory.rpartition('/')[0]}")  # kept if another job uses it
        if link.last < before:
            files.delete(f"{output}/{link.file}")


def _chain(files: Files, output: str, newest: PageLink) -> list[tuple[PageLink, Page]]:
    """Return all pages that still exist, newest first: if a page is gone, those before it are gone as well."""
    found: list[tuple[PageLink, Page]] = []
    link: PageLink | None = newest
    while link is not None:
        try:
            page = load(link, lambda file: files.read(f"{output}/{file}"))
        except FileNotFoundError:
            return found
        found.append((link, page))
        link = page.previous
    return found


def _of_newest(frame: str, raw: Mapping[str, Any]) -> list[str]:
    """Return the schema of each batch of a page that an older release wrote: ``frame`` for the newest batch, and ""
    (unknown) for all others, whose schemas the page does not contain.
    """
    return [""] * (len(raw["batches"]) - 1) + [frame]


def link_json(link: PageLink) -> dict[str, Any]:
    """Convert a link to JSON."""
    return {"file": link.file, "sha256": link.sha256, "first": link.first, "last": link.last}


def link_from(raw: Mapping[str, Any]) -> PageLink:
    """Read a link from its JSON."""
    return PageLink(str(raw["file"]), str(raw["sha256"]), int(raw["first"]), int(raw["last"]))
