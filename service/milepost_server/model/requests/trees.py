"""Define what is asked about the tree of a store: about paths, about what is kept, and what maintenance asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from milepost_server.model.requests.base import NO_BLOB, BlobRef, Keeper, StoreRequest, fingerprint_of
from milepost_server.model.trees import Manifest, RangeTombstone, Rollback, Savepoint, TreeSnapshot


@dataclass(frozen=True, slots=True)
class TreeRequest(StoreRequest):
    """This request is about one path of a store's tree. It needs no session: the ``epoch`` is what allows it."""

    needs_session: ClassVar[bool] = False
    fenced: ClassVar[bool] = True
    keeper: ClassVar[Keeper] = Keeper.NONE

    path: str = ""
    epoch: int | None = None

    def fingerprint(self) -> str:
        return fingerprint_of(type(self).__name__, self.path)


@dataclass(frozen=True, slots=True)
class Begun:
    """What was there when the bytes of a file began to come: the deepest directory above it, and since which revision.

    The root, which is always there, has none. If another directory has taken its place, or none, the file belongs to
    what was deleted. With ``parents``, directories below it that are missing are made; without, none may be missing.
    """

    directory: str = ""
    created_revision: int = 0
    parents: bool = True


NOW = Begun()
"""The bytes are there already, so nothing can have been deleted since they began to come."""


@dataclass(frozen=True, slots=True)
class PutFile(TreeRequest):
    """Let a file be at a path, whole: its bytes are ``data`` or, if that is None, in the blob."""

    keeper: ClassVar[Keeper] = Keeper.PATH
    remembered: ClassVar[bool] = True

    blob: BlobRef = NO_BLOB
    data: bytes | None = None
    overwrite: bool = False
    begun: Begun = NOW

    def fingerprint(self) -> str:
        only_new = () if self.overwrite else ("only new",)
        return fingerprint_of("PutFile", self.path, self.blob.size, self.blob.sha256, *only_new)


@dataclass(frozen=True, slots=True)
class MakeDirectory(TreeRequest):
    """Let there be a directory, with those above it."""

    remembered: ClassVar[bool] = True


class OntoExisting(Enum):
    """What a rename does about what is at its target: refuse, replace it, or answer that nothing was renamed.

    The third also moves *into* a directory that is there, as Hadoop's first rename did.
    """

    REFUSE = "refuse"
    REPLACE = "replace"
    ANSWER_FALSE = "answer false"


@dataclass(frozen=True, slots=True)
class RenamePath(TreeRequest):
    """Let what is at a path be at ``target`` instead, in one act."""

    target: str = ""
    onto: OntoExisting = OntoExisting.REFUSE

    def fingerprint(self) -> str:
        return fingerprint_of("RenamePath", self.path, self.target)


@dataclass(frozen=True, slots=True)
class DeletePath(TreeRequest):
    """Delete a file or a directory; one that is not empty only if ``recursive``."""

    remembered: ClassVar[bool] = True

    recursive: bool = False

    def fingerprint(self) -> str:
        return fingerprint_of("DeletePath", self.path, *(("recursive",) if self.recursive else ()))


@dataclass(frozen=True, slots=True)
class RollBack(TreeRequest):
    """Let the tree be again what it was at ``revision``, that of a snapshot that is kept, or of a savepoint.

    What is at the paths ``keep`` and below them stays as it is now.
    """

    keeper: ClassVar[Keeper] = Keeper.TREE

    revision: int = 0
    keep: tuple[str, ...] = ()

    def fingerprint(self) -> str:
        return fingerprint_of("RollBack", self.revision, *self.keep)


@dataclass(frozen=True, slots=True)
class CloneTree(TreeRequest):
    """Let a tree in which there is nothing begin with copies of another job's files, those of ``original``, a snapshot.

    A manifest names the copies; they are ``files`` of ``bytes`` bytes, and make the one ``snapshot``.
    """

    keeper: ClassVar[Keeper] = Keeper.TREE

    original: str = ""
    manifest: Manifest | None = None
    snapshot: TreeSnapshot | None = None
    files: int = 0
    bytes: int = 0

    def fingerprint(self) -> str:
        return fingerprint_of("CloneTree", self.original)


@dataclass(frozen=True, slots=True)
class MakeSavepoint(StoreRequest):
    """Keep a snapshot under a name: the one at ``revision``, or the newest if that is 0. It needs no epoch."""

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.TREE

    savepoint: str = ""
    revision: int = 0

    def fingerprint(self) -> str:
        return fingerprint_of("PinCut", self.savepoint, self.revision)


@dataclass(frozen=True, slots=True)
class DropSavepoint(StoreRequest):
    """Drop a savepoint."""

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.TREE

    savepoint: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of("Unpin", self.savepoint)


@dataclass(frozen=True, slots=True)
class TrimTree(StoreRequest):
    """Drop entries of these paths that nothing shows any more; a request of the leader's own.

    ``range_tombstones`` and ``rollbacks`` are finished: no record of a path has to be changed for them any more.
    """

    by_leader: ClassVar[bool] = True

    paths: tuple[str, ...] = ()
    range_tombstones: tuple[RangeTombstone, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginCompaction(StoreRequest):
    """Let no record of a path of the tree go from now on, until `CompactTree`; a request of the leader's own.

    A manifest that somebody began to make before is not taken any more.
    """

    by_leader: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class CompactTree(StoreRequest):
    """Let a tree have this manifest, in the place of those in the blobs ``replaced``; a request of the leader's own.

    ``begun`` is the revision at which `BeginCompaction` was committed, 0 for a manifest that only takes the place of
    others. ``savepoints`` were the tree's savepoints when it was made, if what nothing shows was left out of it, else
    None.
    """

    by_leader: ClassVar[bool] = True

    replaced: tuple[str, ...] = ()
    manifest: Manifest | None = None
    begun: int = 0
    savepoints: tuple[Savepoint, ...] | None = None


@dataclass(frozen=True, slots=True)
class DropBlobs(StoreRequest):
    """Discard blobs that rows of former manifests named, unless something names them still; of the leader's own."""

    by_leader: ClassVar[bool] = True

    blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropCompacted(StoreRequest):
    """Drop the records of these paths of which a manifest says the same; a request of the leader's own."""

    by_leader: ClassVar[bool] = True

    paths: tuple[str, ...] = ()
