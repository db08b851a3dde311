"""Decide the content of manifests: which records may be compacted, and which manifests are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.trees import Entry, Tree, TreePath
from milepost_server.rules.trees.visibility import is_shown, is_temporary_file

_GROWTH: Final = 4
"""A manifest is merged with the newer ones only if it has less than this many times as many rows as they have together.

So each row is rewritten only a few times, even in a large tree. At most about a quarter of the rows in the oldest
manifest are invisible.
"""


def is_compactable(record: TreePath, until: int, tree: Tree) -> bool:
    """Return whether a record may be compacted: its last change can no longer be retried, and none of its entries will
    be dropped soon.

    A change after the revision ``until`` may still be retried, and the record has the answer for the retry. Files under
    temporary names, and deleted entries that a snapshot shows, are dropped soon; entries that only a savepoint shows
    may stay for long.
    """
    answered = max((answer.revision for answer in record.answered), default=0)
    snapshots = sorted(snapshot.revision for snapshot in (*tree.snapshots, *tree.passed_over))
    return answered <= until and all(
        entry.created_revision <= until
        and not is_temporary_file(record.path, entry)
        and not (entry.deleted_revision and is_shown(record.path, entry, entry.deleted_revision, snapshots))
        for entry in record.entries
    )


def packed(records: Iterable[TreePath], pack: str) -> tuple[list[TreePath], bytes]:
    """Return the records in compacted form, in which small files refer to parts of the blob ``pack``, and the bytes for
    that blob. Empty files refer to no blob, so no record names ``pack`` if it has no bytes.
    """
    compacted: list[TreePath] = []
    content = bytearray()
    for record in records:
        entries: list[Entry] = []
        for entry in record.entries:
            if entry.data is not None:
                where = {"blob": pack, "start": len(content)} if entry.data else {}
                content += entry.data
                entry = replace(entry, data=None, **where)
            entries.append(replace(entry, moved_from=""))
        compacted.append(TreePath(record.path, tuple(entries)))
    return compacted, bytes(content)


def first_to_merge(tree: Tree) -> int | None:
    """Return the index of the oldest manifest to merge, which is merged with all newer ones; None if no merge is due.
    If a savepoint was dropped, all manifests are merged, since they have rows that were kept for it.
    """
    manifests = tree.manifests
    if tree.stale and manifests:
        return 0
    first, rows = len(manifests) - 1, manifests[-1].rows if manifests else 0
    while first > 0 and manifests[first - 1].rows < _GROWTH * rows:
        first -= 1
        rows += manifests[first].rows
    return first if first < len(manifests) - 1 else None


def merged(several: Sequence[ManifestRows], tree: Tree, *, with_oldest: bool) -> Iterator[TreePath]:
    """Yield the records of several manifests, given the oldest first: for each path, the record of the newest.

    Entries that no reader can see are left out. If the tree's oldest manifest is merged too, a record without entries
    is left out, since it has no older row to override.
    """
    kept = tree.kept
    ranked = (_ranked(rows, -age) for age, rows in enumerate(several))
    for _, of_path in groupby(merge(*ranked, key=itemgetter(0, 1)), key=itemgetter(0)):
        record = next(of_path)[2]
        entries = tuple(
            entry
            for entry in record.entries
            if not entry.deleted_revision or is_shown(record.path, entry, entry.deleted_revision, kept)
        )
        if entries or not with_oldest:
            yield record if entries == record.entries else TreePath(record.path, entries)


def no_longer_named(several: Sequence[ManifestRows], instead: ManifestRows) -> tuple[str, ...]:
    """Return the blobs that the merged manifests ``several`` name, but ``instead``, the manifest that replaces them,
    does not.
    """
    named = {entry.blob for rows in several for record in rows for entry in record.entries if entry.blob}
    return tuple(sorted(named - {entry.blob for record in instead for entry in record.entries}))


def _ranked(rows: ManifestRows, rank: int) -> Iterator[tuple[str, int, TreePath]]:
    return ((record.path, rank, record) for record in rows)
