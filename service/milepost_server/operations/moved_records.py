"""The records of a job as they go to another cell: without what belongs to a cell, and checked where they arrive.

A lock belongs to a session, and a session to a cell, so locks stay behind; so do the answers to earlier requests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from milepost.wire import NAME, Code
from milepost_server.basics.problems import problem
from milepost_server.model.history import HistoryPage, page_of
from milepost_server.model.paths import checked_path, path_key, snapshot_of
from milepost_server.model.records import Corrupt, Handle, Stored, decode, encode, handle_key, tree_key
from milepost_server.model.trees import Entry, Tree, TreePath

_KINDS: Final[dict[str, type[Handle] | type[HistoryPage] | type[Tree] | type[TreePath]]] = {
    "tree": Tree,
    "handle": Handle,
    "page": HistoryPage,
    "file": TreePath,
}
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")

BlobOf = Callable[[str], str]
"""Returns the key here of a blob, by its key in the old cell."""


def of_handle(handle: Handle) -> Handle:
    """Return a handle without its locks and answers."""
    return replace(handle, locks=(), freed=(), answered=(), evicted_answers_at=0)


def of_path(record: TreePath) -> TreePath:
    """Return the record of a path without its answers. ``moved_from`` only helps to answer a repeated rename."""
    return TreePath(record.path, tuple(replace(entry, moved_from="") for entry in record.entries))


def of_tree(tree: Tree) -> Tree:
    """Return the snapshots and savepoints of a tree. What range tombstones, rollbacks and manifests say of a path is in
    the record of the path as it goes to the other cell.
    """
    return Tree(
        tree.name,
        snapshots=tree.snapshots,
        savepoints=tree.savepoints,
        passed_over=tree.passed_over,
        unsure=tree.unsure,
    )


def as_json(record: msgspec.Struct) -> dict[str, Any]:
    """Return a record as JSON; bytes are in base64."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found


def arriving(job: str, kind: str, record: Mapping[str, Any], newest: int, blob_of: BlobOf) -> tuple[str, Stored]:
    """Return a record of the old cell as it is written here, with its key. No revision in it may be above ``newest``.

    Raises ``invalid-request`` problems for what no record of this cell can be, also after it was stored.
    """
    expected = _KINDS.get(kind)
    if expected is None:
        raise problem(Code.INVALID_REQUEST, f"there is no kind of records {kind[:40]!r}")
    try:
        found = msgspec.convert(record, expected)
        key, written = _checked(job, found, newest, blob_of)
        stored = decode(key, encode(key, written))
    except (ValueError, OverflowError) as error:
        raise problem(Code.INVALID_REQUEST, f"not a record of the kind {kind!r}: {error}") from error
    if isinstance(stored, Corrupt):
        raise problem(Code.INVALID_REQUEST, f"not a record of the kind {kind!r}: {stored.reason}")
    return key, written


def _checked(
    job: str, record: Handle | HistoryPage | Tree | TreePath, newest: int, blob_of: BlobOf
) -> tuple[str, Stored]:
    if isinstance(record, Handle):
        if not NAME.match(record.name) or record.removing or record.gone:
            raise ValueError("no handle in a listing")
        _check_revisions((record.created_revision, record.changed), newest)
        _check_bytes(record.size, record.sha256, record.data)
        blob = "" if record.data is not None else blob_of(record.blob)
        return handle_key(job, record.name), replace(of_handle(record), blob=blob)
    if isinstance(record, TreePath):
        if not record.path or checked_path(record.path) != record.path or snapshot_of(record.path) is not None:
            raise ValueError("no path of a file")
        entries = tuple(_entry(entry, newest, blob_of) for entry in record.entries)
        created = [entry.created_revision for entry in entries]
        if not entries or sorted({*created}) != created:
            raise ValueError("the entries of a path are not in order")
        return path_key(job, record.path), of_path(replace(record, entries=entries))
    if isinstance(record, HistoryPage):
        key = f"stores/{job}/history/{record.name}"
        if page_of(key) is None:
            raise ValueError("no page of a history")
        _check_revisions((entry.revision for entry in record.entries), newest)
        return key, record
    _check_revisions((*record.kept, record.unsure or 1), newest)
    return tree_key(job), replace(of_tree(record), name=job)


def _entry(entry: Entry, newest: int, blob_of: BlobOf) -> Entry:
    _check_revisions((entry.created_revision, entry.deleted_revision or entry.created_revision), newest)
    if entry.start is not None or 0 < entry.deleted_revision <= entry.created_revision:
        raise ValueError("no entry of a path")
    if entry.directory:
        return replace(entry, blob="", data=None, size=0, sha256="")
    _check_bytes(entry.size, entry.sha256, entry.data)
    return replace(entry, blob="" if entry.data is not None else blob_of(entry.blob))


def _check_revisions(revisions: Iterable[int], newest: int) -> None:
    if not all(1 <= revision <= newest for revision in revisions):
        raise ValueError(f"a revision is not within 1 and {newest}")


def _check_bytes(size: int, sha256: str, data: bytes | None) -> None:
    if size < 0 or not _SHA256.match(sha256):
        raise ValueError("no size or no digest")
    if data is not None and (len(data), hashlib.sha256(data).hexdigest()) != (size, sha256):
        raise ValueError("the bytes do not match their digest")
