"""The manifest of published files: a chain of pages beside the output; the job record names the newest page.

A page is a file that lists the batches since the page before it. No such file is ever changed: while the newest page is
not full, each batch writes a copy of it with one more entry, under a new name, and the job record then names the copy.
A full page stays, and the next page links to it. So the job record stays small for ever, a batch costs one small file,
and reading all batches takes one request for each page. Every link carries the digest of the page that it names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from milepost.errors import RecordUnreadable

SCHEMA = 1
PAGE_BATCHES = 128
"""A page that lists so many batches is full."""
PAGE_BYTES = 256 * 1024
"""A page of so many bytes is full, too, however few batches it lists."""
DIRECTORY = "_milepost"
"""Directory of the pages, under the output; Spark's readers ignore names that begin with an underscore."""
KIND = "files"
"""The member ``kind`` of a job record's manifest that `Job.files` wrote.

A job record holds as ``manifest`` whatever the publishing function of its last batch returned, and that function may
also be a user's own.
"""


@dataclass(frozen=True)
class PublishedBatch:
    """One batch's output: its ``files``, each with its path below ``directory`` and its size in bytes.

    ``directory`` is relative to the output.
    """

    batch: int
    directory: str
    files: tuple[tuple[str, int], ...]


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

    ``frame`` is the schema that the DataFrame had in the newest of them, in Spark's JSON. ``previous`` links to the
    page before this one; None for the first page.
    """

    frame: str
    batches: tuple[PublishedBatch, ...]
    previous: PageLink | None = None

    def encode(self) -> bytes:
        """Return the bytes of the page's file."""
        return json.dumps(
            {
                "schema": SCHEMA,
                "frame": self.frame,
                "batches": [[b.batch, b.directory, [list(file) for file in b.files]] for b in self.batches],
                "previous": None if self.previous is None else link_json(self.previous),
            },
            separators=(",", ":"),
        ).encode()

    def link(self, file: str, content: bytes) -> PageLink:
        """Make the link to this page, which was written as ``content`` to ``file``."""
        return PageLink(file, hashlib.sha256(content).hexdigest(), self.batches[0].batch, self.batches[-1].batch)


def published_by_files(manifest: Any) -> bool:
    """Return whether a job record's manifest was written by `Job.files`; if not, a user's own function returned it,
    which may have a ``kind`` as well.
    """
    return (
        isinstance(manifest, dict)
        and manifest.get("kind") == KIND
        and isinstance(manifest.get("output"), str)
        and isinstance(manifest.get("page"), dict)
    )


def extended(newest: tuple[PageLink, Page] | None, batch: PublishedBatch, frame: str) -> Page:
    """Make the page that follows when ``batch`` is published: the newest page with one more entry, or a new one.

    ``newest`` is the page that the job record names, with the link to it; None if nothing was published yet. If that
    page is full, the new one lists ``batch`` alone and links to it.
    """
    if newest is None:
        return Page(frame, (batch,))
    link, page = newest
    if len(page.batches) >= PAGE_BATCHES or len(page.encode()) >= PAGE_BYTES:
        return Page(frame, (batch,), link)
    return replace(page, frame=frame, batches=(*page.batches, batch))


def pages(newest: PageLink | None, read: Callable[[str], bytes | None], since: int = 0) -> Iterator[Page]:
    """Yield, newest first, every page that lists a batch from ``since`` on; the last one may list older batches, too.

    Raises the errors of `load`.
    """
    link = newest
    while link is not None and link.last >= since:
        page = load(link, read)
        yield page
        link = page.previous


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
    return Page(
        frame=str(raw["frame"]),
        batches=tuple(
            PublishedBatch(b, d, tuple((str(name), int(size)) for name, size in f)) for b, d, f in raw["batches"]
        ),
        previous=None if raw["previous"] is None else link_from(raw["previous"]),
    )


def link_json(link: PageLink) -> dict[str, Any]:
    """Turn a link into JSON."""
    return {"file": link.file, "sha256": link.sha256, "first": link.first, "last": link.last}


def link_from(raw: Mapping[str, Any]) -> PageLink:
    """Read a link from its JSON."""
    return PageLink(str(raw["file"]), str(raw["sha256"]), int(raw["first"]), int(raw["last"]))
