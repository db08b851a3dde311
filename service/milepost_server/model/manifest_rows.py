"""Read and write manifests: the records of many paths of a tree, sorted, in one blob.

A manifest is text. Its first line identifies the format, and each further line is the row of one path: the path, and
its entries. A manifest has no data that only a retry needs, such as answers: a record is compacted only when its last
change can no longer be retried.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from milepost_server.model.trees import Entry, Manifest, TreePath

_HEADER: Final = b'{"milepost":"manifest","schema":1}\n'


class _Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    path: str
    entries: tuple[_RowEntry, ...] = ()


class _RowEntry(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True, gc=False):
    """The stored form of an `Entry` in a row of a manifest. A directory has the size -1. ``start`` is -1 if the file is
    the whole blob.
    """

    created_revision: int
    deleted_revision: int
    modified: str
    epoch: int | None
    size: int
    sha256: str = ""
    blob: str = ""
    start: int = -1
    shared: bool = False


class _Path(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The path of a row of a manifest, which is the row's first value. A search decodes only this value of each row."""

    path: str


_ENCODER: Final = msgspec.json.Encoder()
_ROWS: Final = msgspec.json.Decoder(_Row)
_PATHS: Final = msgspec.json.Decoder(_Path)


class ManifestRows:
    """The rows of one manifest in memory: the stored bytes, and the position of each row.

    A row takes at most sixteen bytes more than its stored line. Raises ValueError for bytes that are not a manifest.
    """

    def __init__(self, content: bytes) -> None:
        if not content.startswith(_HEADER) or not content.endswith(b"\n"):
            raise ValueError("this is not a manifest of a tree, or one of an unknown schema")
        self.content = content
        self._starts = array("Q" if len(content) >= 2**32 else "I")
        self._named = array("Q")
        at = len(_HEADER)
        before = ""
        while at < len(content):
            self._starts.append(at)
            at = content.index(b"\n", at) + 1
            try:
                row = self._row(len(self._starts) - 1)
            except msgspec.MsgspecError as error:
                raise ValueError(f"row {len(self._starts)} of the manifest cannot be read: {error}") from error
            if row.path <= before and len(self._starts) > 1:
                raise ValueError(f"row {len(self._starts)} of the manifest is out of order")
            before = row.path
            self._named.extend(_hashed(entry.blob) for entry in row.entries if entry.blob)
        self._named = array("Q", sorted(set(self._named)))

    @classmethod
    def of(cls, records: Iterable[TreePath]) -> ManifestRows:
        """Build a manifest of these records, which must be sorted by their paths."""
        return cls(_HEADER + b"".join(_ENCODER.encode(_row_of(record)) + b"\n" for record in records))

    def manifest(self, blob: str) -> Manifest:
        """Return the reference to this manifest that the record of its tree keeps. ``blob`` is the key of the blob with
        the rows.
        """
        return Manifest(blob, len(self.content), hashlib.sha256(self.content).hexdigest(), len(self))

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[TreePath]:
        return (_record_of(self._row(number)) for number in range(len(self)))

    def get(self, path: str) -> TreePath | None:
        """Return the record of a path; None if the manifest has no row for it."""
        number = self._first_from(path)
        if number == len(self) or self._path(number) != path:
            return None
        return _record_of(self._row(number))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.get(path) is not None

    def after(self, path: str) -> str | None:
        """Return the path of the first row that sorts after ``path``; None if there is none. ``path`` itself need not
        have a row.
        """
        number = self._first_from(path)
        if number < len(self) and self._path(number) == path:
            number += 1
        return self._path(number) if number < len(self) else None

    def may_name(self, blob: str) -> bool:
        """Return whether a row names the blob. In very rare cases, returns True for a blob that no row names."""
        hashed = _hashed(blob)
        number = bisect_left(self._named, hashed)
        return number < len(self._named) and self._named[number] == hashed

    def _first_from(self, path: str) -> int:
        return bisect_left(range(len(self)), path, key=self._path)

    def _path(self, number: int) -> str:
        return _PATHS.decode(self._line(number)).path

    def _row(self, number: int) -> _Row:
        return _ROWS.decode(self._line(number))

    def _line(self, number: int) -> memoryview:
        begin = self._starts[number]
        last = number + 1 == len(self._starts)
        end = self.content.index(b"\n", begin) if last else self._starts[number + 1]
        return memoryview(self.content)[begin:end]


def _hashed(blob: str) -> int:
    return int.from_bytes(hashlib.blake2b(blob.encode(), digest_size=8).digest(), "big")


def _row_of(record: TreePath) -> _Row:
    return _Row(record.path, tuple(_row_entry_of(entry) for entry in record.entries))


def _row_entry_of(entry: Entry) -> _RowEntry:
    assert entry.data is None, "the bytes of small files are put into a blob before their record is compacted"
    return _RowEntry(
        entry.created_revision,
        entry.deleted_revision,
        entry.modified,
        entry.epoch,
        -1 if entry.directory else entry.size,
        entry.sha256,
        entry.blob,
        -1 if entry.start is None else entry.start,
        entry.shared,
    )


def _record_of(row: _Row) -> TreePath:
    return TreePath(row.path, tuple(_entry_of(entry) for entry in row.entries))


def _entry_of(row: _RowEntry) -> Entry:
    directory = row.size < 0
    return Entry(
        created_revision=row.created_revision,
        modified=row.modified,
        epoch=row.epoch,
        directory=directory,
        size=0 if directory else row.size,
        sha256=row.sha256,
        blob=row.blob,
        start=None if row.start < 0 else row.start,
        shared=row.shared,
        deleted_revision=row.deleted_revision,
    )
