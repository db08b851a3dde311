"""The records of a job as they go to another cell: without what belongs to a cell, and with shifted revisions.

A lock belongs to a session, and a session to a cell, so locks stay behind; so do the answers to earlier requests.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from milepost_server.model.history import HistoryEntry, HistoryPage
from milepost_server.model.records import Handle
from milepost_server.model.trees import Entry, Savepoint, Tree, TreePath, TreeSnapshot


def of_handle(handle: Handle, shift: int) -> Handle:
    """Return a handle without its locks and answers, with each revision ``shift`` greater."""
    return replace(
        handle,
        created_revision=handle.created_revision + shift,
        changed=handle.changed + shift,
        locks=(),
        freed=(),
        answered=(),
        evicted_answers_at=0,
    )


def of_path(record: TreePath, shift: int) -> TreePath:
    """Return the record of a path without its answers, with each revision ``shift`` greater."""
    entries = tuple(_of_entry(entry, shift) for entry in record.entries)
    return TreePath(record.path, entries)


def _of_entry(entry: Entry, shift: int) -> Entry:
    return replace(
        entry,
        created_revision=entry.created_revision + shift,
        deleted_revision=_shifted(entry.deleted_revision, shift),
    )


def of_tree(tree: Tree, shift: int) -> Tree:
    """Return the snapshots and savepoints of a tree, with each revision ``shift`` greater. What range tombstones,
    rollbacks and manifests say of a path is in the record of the path as it goes to the other cell.
    """

    def snapshots(kept: tuple[TreeSnapshot, ...]) -> tuple[TreeSnapshot, ...]:
        return tuple(replace(each, revision=each.revision + shift) for each in kept)

    savepoints: tuple[Savepoint, ...] = tuple(replace(each, revision=each.revision + shift) for each in tree.savepoints)
    return Tree(
        tree.name,
        snapshots=snapshots(tree.snapshots),
        savepoints=savepoints,
        passed_over=snapshots(tree.passed_over),
        unsure=_shifted(tree.unsure, shift),
    )


def of_page(page: HistoryPage, shift: int) -> HistoryPage:
    """Return a page of a history, with each revision ``shift`` greater."""
    return replace(page, entries=tuple(_of_history(entry, shift) for entry in page.entries))


def _of_history(entry: HistoryEntry, shift: int) -> HistoryEntry:
    return replace(
        entry,
        revision=entry.revision + shift,
        snapshot=_shifted(entry.snapshot, shift),
        previous=_shifted(entry.previous, shift),
    )


def _shifted(revision: int, shift: int) -> int:
    """Return a revision that is ``shift`` greater; 0 stands for none, and stays."""
    return revision + shift if revision else 0


def as_json(record: msgspec.Struct) -> dict[str, Any]:
    """Return a record as JSON; bytes are in base64."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found
