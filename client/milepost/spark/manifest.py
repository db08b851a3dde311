"""Which files are published: a chain of pages beside the output, whose newest one the job record names.

A page lists the batches since the page before it. While it is young, each batch writes it anew with one more entry;
once it is full it stays, and the next page names it. So the record stays small for ever, a batch costs one small
file, and all batches are read with one request per `PAGE_BATCHES` of them. Every link carries a digest.
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
PAGE_BYTES = 256 * 1024
DIRECTORY = "_milepost"
"""Directory of the pages, under the output; Spark's readers pass over names with an underscore."""
KIND = "files"
"""What tells the manifest of `Job.files` from one that a publishing function of the user's returned."""


@dataclass(frozen=True)
class PublishedBatch:
    """One batch's output: ``files`` with their sizes in bytes, under ``directory`` (relative to the output)."""

    batch: int
    directory: str
    files: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PageLink:
    """Where a page lies (relative to the output), the digest of its bytes, and which batches it covers."""

    file: str
    sha256: str
    first: int
    last: int


@dataclass(frozen=True)
class Page:
    """A page: batches in ascending order. ``frame`` is the schema of the newest one, as Spark writes it in JSON."""

    frame: str
    batches: tuple[PublishedBatch, ...]
    previous: PageLink | None = None

    def encode(self) -> bytes:
        """The bytes of the page's file."""
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
        """The link to this page, written as ``content`` to ``file``."""
        return PageLink(file, hashlib.sha256(content).hexdigest(), self.batches[0].batch, self.batches[-1].batch)


def published_by_files(manifest: Any) -> bool:
    """Whether a job record's manifest is one of `Job.files`."""
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def extended(head: tuple[PageLink, Page] | None, batch: PublishedBatch, frame: str) -> Page:
    """The page that names ``batch`` as well as everything that ``head`` (the newest page, with its link) does."""
    if head is None:
        return Page(frame, (batch,))
    link, page = head
    if len(page.batches) >= PAGE_BATCHES or len(page.encode()) >= PAGE_BYTES:
        return Page(frame, (batch,), link)
    return replace(page, frame=frame, batches=(*page.batches, batch))


def pages(head: PageLink | None, read: Callable[[str], bytes | None], since: int = 0) -> Iterator[Page]:
    """The pages that cover batches from ``since`` on, newest first. Raises as `load` does."""
    while head is not None and head.last >= since:
        page = load(head, read)
        yield page
        head = page.previous


def load(link: PageLink, read: Callable[[str], bytes | None]) -> Page:
    """The page behind ``link``; ``read`` gives the bytes of a file, None if it is not there.

    Raises FileNotFoundError for the latter, and `RecordUnreadable` when the bytes are not those that were published.
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
    """A link as JSON."""
    return {"file": link.file, "sha256": link.sha256, "first": link.first, "last": link.last}


def link_from(raw: Mapping[str, Any]) -> PageLink:
    """The link in its JSON."""
    return PageLink(str(raw["file"]), str(raw["sha256"]), int(raw["first"]), int(raw["last"]))
