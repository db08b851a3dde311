"""Define the requests about the tree of a store: about paths, snapshots and savepoints, and for maintenance."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec

from milepost_server.model.requests.base import NO_BLOB, BlobRef, Keeper, Request, StoreRequest, fingerprint_of
from milepost_server.model.requests.handles import Add, Replace
from milepost_server.model.trees import Manifest, RangeTombstone, Rollback, Savepoint, TreeSnapshot


class TreeRequest(StoreRequest, frozen=True, gc=False):
    """A request about one path of a store's tree. It needs no session; the current ``epoch`` permits it."""

    needs_session: ClassVar[bool] = False
    fenced: ClassVar[bool] = True
    keeper: ClassVar[Keeper] = Keeper.NONE

    path: str = ""
    epoch: int | None = None

    def fingerprint(self) -> str:
        return fingerprint_of(type(self).__name__, self.path)


class Begun(msgspec.Struct, frozen=True, gc=False):
    """The deepest existing directory above a file at the time when its bytes began to come, with its creation revision:
    the empty path and 0 for the root, which always exists.

    If that directory was deleted or replaced before the file is published, the put is refused. With ``parents``, the
    put creates missing directories below that directory; without, no directory may be missing.
    """

    directory: str = ""
    created_revision: int = 0
    parents: bool = True


NOW = Begun()
"""The value of `Begun` for a put that does not depend on the time when its bytes came: the root always exists."""


class PutFile(TreeRequest, frozen=True, gc=False):
    """Put a complete file at a path: its bytes are ``data`` or, if that is None, in the blob."""

    keeper: ClassVar[Keeper] = Keeper.PATH
    remembered: ClassVar[bool] = True

    blob: BlobRef = NO_BLOB
    data: bytes | None = None
    overwrite: bool = False
    begun: Begun = NOW

    def fingerprint(self) -> str:
        only_new = () if self.overwrite else ("only new",)
        return fingerprint_of("PutFile", self.path, str(self.blob.size), self.blob.sha256, *only_new)


class MakeDirectory(TreeRequest, frozen=True, gc=False):
    """Create a directory, with all directories above it."""

    remembered: ClassVar[bool] = True


class OntoExisting(Enum):
    """What a rename does if its target exists: refuse, replace the target, or follow Hadoop's older rename.

    Hadoop's older rename moves the source *into* a target that is a directory, and otherwise answers that nothing was
    renamed.
    """

    REFUSE = "refuse"
    REPLACE = "replace"
    ANSWER_FALSE = "answer false"


class RenamePath(TreeRequest, frozen=True, gc=False):
    """Rename the file or directory at a path to ``target``, atomically."""

    target: str = ""
    onto: OntoExisting = OntoExisting.REFUSE

    def fingerprint(self) -> str:
        return fingerprint_of("RenamePath", self.path, self.target)


class DeletePath(TreeRequest, frozen=True, gc=False):
    """Delete a file or a directory; a directory that is not empty only if ``recursive``."""

    remembered: ClassVar[bool] = True

    recursive: bool = False

    def fingerprint(self) -> str:
        return fingerprint_of("DeletePath", self.path, *(("recursive",) if self.recursive else ()))


class RollBack(TreeRequest, frozen=True, gc=False):
    """Roll the tree back to ``revision``, which must be that of a kept snapshot or of a savepoint.

    The paths ``keep`` and everything below them stay unchanged. With ``replace``, the same commit replaces the state of
    a handle: either both are done, or neither. The session of ``replace`` is that of the rollback.
    """

    keeper: ClassVar[Keeper] = Keeper.TREE

    revision: int = 0
    keep: tuple[str, ...] = ()
    replace: Replace | None = None

    def fingerprint(self) -> str:
        # the empty string ends the paths, since no path in ``keep`` is empty
        replaced = () if self.replace is None else ("", self.replace.fingerprint())
        return fingerprint_of("RollBack", self.revision, *self.keep, *replaced)


def state_write_of(request: Request) -> Add | Replace | None:
    """Return the part of a request that gives a handle a new state: the request itself, the replace in a rollback, or
    the add in a clone. Return None if the request gives no handle a new state.
    """
    if isinstance(request, RollBack):
        return request.replace
    if isinstance(request, CloneTree):
        return request.add
    return request if isinstance(request, (Add, Replace)) else None


class CloneTree(TreeRequest, frozen=True, gc=False):
    """Fill an empty tree with copies of another job's files, those of the snapshot ``original``.

    The manifest ``manifest`` lists the copies: ``files`` files with ``bytes`` bytes. After the clone, ``snapshot`` is
    the tree's only snapshot, and shows all copies. ``written`` is a digest over the files that have other bytes than
    the original; empty if there are none. With ``add``, the same commit adds a handle: either both are done, or
    neither. The session of ``add`` is that of the clone.
    """

    keeper: ClassVar[Keeper] = Keeper.TREE

    original: str = ""
    manifest: Manifest | None = None
    snapshot: TreeSnapshot | None = None
    files: int = 0
    bytes: int = 0
    written: str = ""
    add: Add | None = None

    def fingerprint(self) -> str:
        added = () if self.add is None else (self.add.fingerprint(),)
        written = (self.written,) if self.written else ()
        return fingerprint_of("CloneTree", self.original, *written, *added)


class MakeSavepoint(StoreRequest, frozen=True, gc=False):
    """Keep a snapshot under a name: the snapshot at ``revision``, or the newest one if that is 0. Needs no epoch."""

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.TREE

    savepoint: str = ""
    revision: int = 0

    def fingerprint(self) -> str:
        return fingerprint_of("PinCut", self.savepoint, self.revision)


class DropSavepoint(StoreRequest, frozen=True, gc=False):
    """Drop a savepoint."""

    needs_session: ClassVar[bool] = False
    keeper: ClassVar[Keeper] = Keeper.TREE

    savepoint: str = ""

    def fingerprint(self) -> str:
        return fingerprint_of("Unpin", self.savepoint)


class TrimTree(StoreRequest, frozen=True, gc=False):
    """Drop entries of these paths that no reader can see any more. Made by the leader itself.

    ``range_tombstones`` and ``rollbacks`` are dropped too: no record of a path must be changed for them any more.
    """

    by_leader: ClassVar[bool] = True

    paths: tuple[str, ...] = ()
    range_tombstones: tuple[RangeTombstone, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()


class BeginCompaction(StoreRequest, frozen=True, gc=False):
    """Begin a compaction: from now on until `CompactTree`, no record of a path of the tree is dropped. A compaction
    that began earlier can no longer be completed. Made by the leader itself.
    """

    by_leader: ClassVar[bool] = True


class CompactTree(StoreRequest, frozen=True, gc=False):
    """Give a tree this manifest, in place of the manifests in the blobs ``replaced``. Made by the leader itself.

    ``begun`` is the revision at which `BeginCompaction` was committed, 0 for a manifest that only replaces others. If
    entries that no reader can see were left out of the manifest, ``savepoints`` has the tree's savepoints at the time
    when the manifest was made; else None.
    """

    by_leader: ClassVar[bool] = True

    replaced: tuple[str, ...] = ()
    manifest: Manifest | None = None
    begun: int = 0
    savepoints: tuple[Savepoint, ...] | None = None


class DropBlobs(StoreRequest, frozen=True, gc=False):
    """Delete blobs that only rows of replaced manifests named, and that no record or manifest names now. Made by the
    leader itself.
    """

    by_leader: ClassVar[bool] = True

    blobs: tuple[str, ...] = ()


class DropCompacted(StoreRequest, frozen=True, gc=False):
    """Drop the records of these paths whose content is now in a manifest. Made by the leader itself."""

    by_leader: ClassVar[bool] = True

    paths: tuple[str, ...] = ()
