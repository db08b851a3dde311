"""Deletes published batches that are expired: their files, and the pages that list no other batches.

The job record says first that they are expired, so that no reader looks for what may be gone. Deletion then begins with
the oldest, and the pages that lead to it go last; so whoever deletes next finds what is left, wherever this one ended.
"""

from __future__ import annotations

from typing import Protocol

from milepost.spark.output.manifest import Page, PageLink, load


class Files(Protocol):
    """The file operations that this uses, of `HadoopFiles` or `LocalFiles`."""

    def read(self, path: str) -> bytes | None: ...
    def delete(self, path: str) -> None: ...
    def delete_empty(self, path: str) -> None: ...


def delete_expired(files: Files, output: str, newest: PageLink, before: int) -> None:
    """Delete what is there still of the batches below ``before``, which are expired. ``newest`` lists one that is not.

    Raises `RecordUnreadable` if a page is damaged.
    """
    for link, page in reversed(_chain(files, output, newest)):
        for batch in page.batches:
            if batch.batch < before:
                files.delete(f"{output}/{batch.directory}")
                files.delete_empty(f"{output}/{batch.directory.rpartition('/')[0]}")  # jobs may share an output
        if link.last < before:
            files.delete(f"{output}/{link.file}")


def _chain(files: Files, output: str, newest: PageLink) -> list[tuple[PageLink, Page]]:
    """Return all pages that are there still, newest first: the ones before a page that is gone are gone as well."""
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
