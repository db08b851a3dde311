"""Define what is stored of a tree: one record for each path, and one for the tree as a whole."""

from __future__ import annotations

from typing import Final

import msgspec

from milepost_server.model.answered import STORED_AS, Answered, schema

MOST_RANGE_TOMBSTONES: Final = 64
"""So many directories may have been deleted whose files have not been dropped yet."""

MOST_SNAPSHOTS: Final = 256
"""So many snapshots are kept in a tree at most, however many queries there are: its record is written with each
batch.
"""

MOST_SAVEPOINTS: Final = 64
"""A tree has at most this many savepoints."""

MOST_ROLLBACKS: Final = 8
"""So many rollbacks may be on record of which not every path knows yet."""

MOST_KEPT_PATHS: Final = 16
"""A rollback may leave so many paths alone, with what is below them."""


class Entry(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """An entry is a file or a directory at a path, from ``created_revision`` until ``deleted_revision`` (0: until now).

    The bytes of a file are ``data`` if they are few, and else in the blob ``blob``: all of it, or, if ``start`` is not
    None, ``size`` bytes of it from there on, since small files share a blob once they are compacted. ``modified`` is
    for people and for Hadoop; nothing is compared with it. ``epoch`` is the one under which it was written, None in a
    store that never had one, and ``moved_from`` the path that it was renamed from, if it was. ``shared`` says that an
    entry of another path may name the same blob, since a snapshot shows the file under the name that it had before a
    rename.
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
        """Whether its bytes are all of a blob, and not in the record or in a blob with others."""
        return bool(self.blob) and self.start is None


class TreePath(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """The record of a path: all entries that it has, and those that it had and that a snapshot shows, the oldest first.

    A record without entries says that nothing is there any more, although a manifest still names the path.
    ``rolled_back`` is the revision of the last rollback that is in the entries already.
    """

    path: str
    entries: tuple[Entry, ...] = ()
    rolled_back: int = 0
    answered: tuple[Answered, ...] = ()
    evicted_answers_at: int = 0
    schema: int = msgspec.field(default_factory=schema)

    @property
    def newest(self) -> Entry | None:
        """The entry that was written last, if nobody has deleted it since (a range tombstone may have)."""
        return self.entries[-1] if self.entries and not self.entries[-1].deleted_revision else None

    @property
    def blobs(self) -> tuple[str, ...]:
        """The keys of all blobs that it names, each once."""
        return tuple(dict.fromkeys(entry.blob for entry in self.entries if entry.blob))

    @property
    def whole_blobs(self) -> dict[str, bool]:
        """The keys of all blobs that are one file of this path each, and whether another path may name them."""
        found: dict[str, bool] = {}
        for entry in self.entries:
            if entry.has_own_blob:
                found[entry.blob] = found.get(entry.blob, False) or entry.shared
        return found


class TreeSnapshot(msgspec.Struct, frozen=True, gc=False):
    """A snapshot is the tree at ``revision``, right after Spark committed ``batch`` of the query in ``directory``."""

    directory: str
    batch: int
    revision: int


class Savepoint(msgspec.Struct, frozen=True, gc=False):
    """A savepoint keeps the snapshot at ``revision`` under a ``name``, until it is dropped."""

    name: str
    directory: str
    batch: int
    revision: int


class Rollback(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """At revision ``at`` the tree became again what it was at revision ``to``, that of a snapshot or of a savepoint.

    So one small commit undoes any number of changes. It is dropped once each record of a path says itself what came of
    it. What is at the paths ``keep`` and below them is not undone.
    """

    to: int
    at: int
    keep: tuple[str, ...] = ()

    def keeps(self, path: str) -> bool:
        """Return whether this path stays as it is."""
        return any(path == kept or path.startswith(f"{kept}/") for kept in self.keep)


class RangeTombstone(msgspec.Struct, frozen=True, gc=False):
    """A directory was deleted with all that is in it: what lies below ``path`` and was created up to ``revision`` is
    deleted.

    So one small commit deletes any number of files. The range tombstone is dropped once each of their records says it
    itself.
    """

    path: str
    revision: int


class Manifest(msgspec.Struct, frozen=True, gc=False):
    """A manifest holds the records of many paths, in a blob: what `ManifestRows` reads."""

    blob: str
    size: int
    sha256: str
    rows: int


class Tree(msgspec.Struct, rename=STORED_AS, frozen=True, omit_defaults=True, gc=False):
    """The record of a tree as a whole: snapshots and savepoints, the oldest first; range tombstones and rollbacks that
    are not finished.

    The records of paths that have not changed for long are in ``manifests``, the oldest first. What a newer one says of
    a path counts, and what a record of the path itself says counts more. While the next one is being made, no record
    of a path goes: a row that was made of it would show the file again. ``compacting`` is the revision at which that
    began, 0 if none is made. ``stale`` says that the manifests have rows that were kept for a savepoint which is gone.

    ``passed_over`` are snapshots that came after the one that a rollback went back to, and what was there right before
    it. They are of a history that the query no longer continues, so nothing takes one of them for the newest snapshot;
    but each can be gone back to, which undoes the rollback.

    ``unsure`` is the last revision at which a damaged record of a path was deleted, 0 if none was: snapshots and
    savepoints before it may have shown what it said.
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
        """The revisions of all that is kept by the names of the snapshots: a savepoint's own, and ``@revision``."""
        snapshots = {f"@{revision}": revision for revision in self.kept}
        return snapshots | {savepoint.name: savepoint.revision for savepoint in self.savepoints}

    @property
    def kept(self) -> tuple[int, ...]:
        """The revisions of all snapshots and savepoints, the oldest first, with those that a rollback passed over."""
        snapshots = {snapshot.revision for snapshot in (*self.snapshots, *self.passed_over)}
        return tuple(sorted(snapshots | {savepoint.revision for savepoint in self.savepoints}))
