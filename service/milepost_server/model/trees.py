"""Define the stored data of a tree: one record for each path, and one for the tree as a whole."""

from __future__ import annotations

from typing import Final, final

import msgspec

from milepost_server.model.answered import STORED_AS, Answered, schema

MOST_RANGE_TOMBSTONES: Final = 64
"""The most deleted directories of a tree whose files have not been dropped yet."""

MOST_SNAPSHOTS: Final = 256
"""The most snapshots of a tree, for all of its queries together: the tree's record is written with each batch."""

MOST_SAVEPOINTS: Final = 64
"""The most savepoints of a tree."""

MOST_ROLLBACKS: Final = 8
"""The most rollbacks of a tree that the records of some paths do not reflect yet."""

MOST_KEPT_PATHS: Final = 16
"""The most paths that one rollback may leave unchanged, each with everything below it."""


class Entry(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """A file or a directory at a path, from ``created_revision`` until ``deleted_revision`` (0: until now).

    A small file has its bytes in ``data``, any other in the blob ``blob``. The file is the whole blob, or, if ``start``
    is not None, ``size`` bytes from there on, since small files share a blob once they are compacted. ``modified`` is
    shown to users and to Hadoop; Milepost makes no decision by it. ``epoch`` is the epoch under which the entry was
    written, None in a store that never had one. ``moved_from`` is the path that the entry was renamed from, if it was
    renamed. ``shared``: an entry of another path may name the same blob, because the file was renamed and a snapshot
    shows it under the old path.
    """

    created_revision: int
    modified: str
    epoch: int | None = None
    directory: bool = False
    size: int = 0
    sha256: str = ""
    blob: str = ""
    start: int | None = None
    data: bytes | None = None
    shared: bool = False
    moved_from: str = ""
    deleted_revision: int = 0

    @property
    def has_own_blob(self) -> bool:
        """Whether the file's bytes are a whole blob, rather than in the record or in a blob with other files."""
        return bool(self.blob) and self.start is None


@final
class TreePath(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """The record of a path: its current entry, and older entries that a snapshot or savepoint shows, the oldest first.

    A record without entries means that the path does not exist any more, although a manifest still names it.
    ``rolled_back`` is the revision of the last rollback that the entries already reflect.
    """

    path: str
    entries: tuple[Entry, ...] = ()
    rolled_back: int = 0
    answered: tuple[Answered, ...] = ()
    evicted_answers_at: int = 0
    schema: int = msgspec.field(default_factory=schema)

    @property
    def newest(self) -> Entry | None:
        """The last entry; None if there is none, or if it states its own deletion. A range tombstone may still have
        deleted the returned entry.
        """
        return self.entries[-1] if self.entries and not self.entries[-1].deleted_revision else None

    @property
    def blobs(self) -> tuple[str, ...]:
        """The keys of all blobs that the entries name, each once."""
        if len(self.entries) == 1:
            blob = self.entries[0].blob
            return (blob,) if blob else ()
        return tuple(dict.fromkeys(entry.blob for entry in self.entries if entry.blob))

    @property
    def whole_blobs(self) -> dict[str, bool]:
        """The keys of the blobs that contain nothing but one file of this path. The value is True if an entry of
        another path may name the blob too.
        """
        found: dict[str, bool] = {}
        for entry in self.entries:
            if entry.has_own_blob:
                found[entry.blob] = found.get(entry.blob, False) or entry.shared
        return found


class TreeSnapshot(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A snapshot: the tree at ``revision``, right after Spark committed ``batch`` of the query in ``directory``.

    ``taken`` is the time at which the batch was committed. It is empty if a release that did not store the time took
    the snapshot, and after a rollback to a savepoint whose snapshot was dropped. It is shown to users; Milepost makes
    no decision by it.
    """

    directory: str
    batch: int
    revision: int
    taken: str = ""


class Savepoint(msgspec.Struct, frozen=True, gc=False):
    """A savepoint: the snapshot at ``revision``, kept under a ``name`` until the savepoint is dropped."""

    name: str
    directory: str
    batch: int
    revision: int


class Rollback(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A rollback: at revision ``at``, the tree returned to revision ``to``, that of a snapshot or of a savepoint.

    One small commit thus undoes any number of changes. The rollback is dropped once the records of all paths reflect
    it. The paths ``keep`` and everything below them stay unchanged.
    """

    to: int
    at: int
    keep: tuple[str, ...] = ()

    def keeps(self, path: str) -> bool:
        """Return whether the rollback leaves this path unchanged."""
        return any(path == kept or path.startswith(f"{kept}/") for kept in self.keep)


class RangeTombstone(msgspec.Struct, frozen=True, gc=False):
    """The deletion of a directory: every entry below ``path`` that was created up to ``revision`` is deleted.

    One small commit thus deletes any number of files. The range tombstone is dropped once the records of all these
    files reflect it.
    """

    path: str
    revision: int


class Manifest(msgspec.Struct, frozen=True, gc=False):
    """A reference to a manifest: a blob with the records of many paths, which `ManifestRows` reads."""

    blob: str
    size: int
    sha256: str
    rows: int


class Tree(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """The record of a tree as a whole: its snapshots and savepoints, the oldest first, and its unfinished range
    tombstones and rollbacks.

    ``manifests`` has the records of paths that have not changed for long, the oldest manifest first. A newer manifest
    overrides an older one, and the path's own record overrides all manifests. While the next manifest is being made, no
    record of a path is dropped, since a row made of that record would show the file again. ``compacting`` is the
    revision at which that manifest was begun, 0 if none is being made. ``stale``: the manifests have rows that were
    kept for a savepoint which was dropped.

    ``passed_over`` has the snapshots that came after the target of a rollback, and the state right before the rollback.
    The query no longer continues from them, so none of them counts as the newest snapshot. But each can be the target
    of another rollback, which undoes the first.

    ``unsure`` is the last revision at which a damaged record of a path was deleted, 0 if none was: earlier snapshots
    and savepoints may have shown a file of that record.
    """

    name: str
    snapshots: tuple[TreeSnapshot, ...] = ()
    range_tombstones: tuple[RangeTombstone, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    compacting: int = 0
    stale: bool = False
    savepoints: tuple[Savepoint, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()
    passed_over: tuple[TreeSnapshot, ...] = ()
    unsure: int = 0
    answered: tuple[Answered, ...] = ()
    evicted_answers_at: int = 0
    schema: int = msgspec.field(default_factory=schema)

    @property
    def revisions(self) -> dict[str, int]:
        """The revisions of all snapshots and savepoints by name: a savepoint has its own name, a snapshot
        ``@revision``.
        """
        snapshots = {f"@{revision}": revision for revision in self.kept}
        return snapshots | {savepoint.name: savepoint.revision for savepoint in self.savepoints}

    @property
    def kept(self) -> tuple[int, ...]:
        """The revisions of all snapshots and savepoints, and of those that a rollback passed over, the oldest first."""
        snapshots = {snapshot.revision for snapshot in (*self.snapshots, *self.passed_over)}
        return tuple(sorted(snapshots | {savepoint.revision for savepoint in self.savepoints}))
