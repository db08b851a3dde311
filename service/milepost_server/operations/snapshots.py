"""Operations on the snapshots of a tree: list them, make savepoints, verify their files, roll back, and clone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.intake import Incoming
from milepost_server.journal import Journal
from milepost_server.memory.lookup import Lookup, ManifestsNotLoaded
from milepost_server.model.paths import SNAPSHOTS
from milepost_server.model.records import Store
from milepost_server.model.requests.base import BlobRef, Request, UploadRef
from milepost_server.model.requests.handles import Replace
from milepost_server.model.requests.trees import RollBack
from milepost_server.model.trees import Entry, Savepoint, Tree, TreeSnapshot
from milepost_server.operations.cloning import CloneSource, Cloning, NewHandle
from milepost_server.operations.handles import store_in
from milepost_server.operations.states import StateOperations
from milepost_server.operations.trees import tree_in
from milepost_server.operations.verification import Verification
from milepost_server.replica.submitter import Caller, Reply, Submitter
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.decisions import Answer
from milepost_server.rules.trees.visibility import shown


@dataclass(frozen=True, slots=True)
class Replacement:
    """The new state of the handle ``name``, which must be at ``version``. If ``labels`` is None, its labels stay."""

    name: str
    version: str
    state: bytes = field(repr=False)
    labels: Mapping[str, str] | None = None


class SnapshotOperations:
    """The operations on the snapshots and savepoints of a store's tree."""

    def __init__(
        self,
        journal: Journal,
        submitter: Submitter,
        manifests: Manifests,
        verification: Verification,
        cloning: Cloning,
        states: StateOperations,
    ) -> None:
        self._journal = journal
        self._submitter = submitter
        self._manifests = manifests
        self._verification = verification
        self._cloning = cloning
        self._states = states

    async def kept(self, store: str) -> Reply:
        """Return the snapshots and savepoints of a tree, and the snapshots that rollbacks passed over, each list the
        oldest first.

        Raises `Problem`: ``corrupt`` if the content of the tree is unknown, ``storage-unavailable``, ``no-leader``.
        """
        await self._manifests.ready(store)
        reading = self._journal.read()
        record = store_in(reading.view, store)
        tree = tree_in(reading.view, store)

        def describe(snapshot: TreeSnapshot | Savepoint) -> dict[str, Any]:
            return snapshot_body(snapshot) | _commit(reading.view, record, tree, snapshot)

        body = {
            "snapshots": [describe(snapshot) for snapshot in tree.snapshots],
            "savepoints": [{"name": savepoint.name, **describe(savepoint)} for savepoint in tree.savepoints],
            "passedOver": [describe(snapshot) for snapshot in tree.passed_over],
        }
        return Reply(Answer(body), reading.revision, reading.term)

    async def verify(self, store: str, *, digests: bool) -> Reply:
        """Check that the bytes of all files are stored, now and at each snapshot and savepoint; with ``digests``, read
        them all.

        Raises `Problem`: ``corrupt`` if the content of the tree is unknown, ``storage-unavailable``, ``no-leader``.
        """
        await self._manifests.ready(store)
        report = await self._verification.verify(store, digests=digests)
        kept = await self.kept(store)
        return replace(kept, answer=Answer(report.body(kept.answer.body)))

    async def roll_back(
        self,
        caller: Caller,
        store: str,
        revision: int,
        keep: tuple[str, ...],
        replacement: Replacement | None = None,
    ) -> Reply:
        """Roll the tree back to the revision of a snapshot or a savepoint, under the caller's epoch. With
        ``replacement``, the same commit replaces the state of a handle.

        The paths ``keep`` and everything below them stay unchanged. Raises `Problem`, for example ``not-exist`` or
        ``fenced``; with ``replacement`` also ``version-mismatch`` and ``not-locked``.
        """
        await self._manifests.ready(store)
        rollback = RollBack(caller.attempt, store, "", caller.epoch, revision, keep)
        if replacement is None:
            return await self._submitter.perform(rollback)
        name, version, labels = replacement.name, replacement.version, replacement.labels

        def request(blob: BlobRef, data: bytes | None, upload: UploadRef | None) -> Request:
            of_handle = Replace(caller.attempt, store, name, caller.epoch, version, blob, labels, upload, data)
            return replace(rollback, replace=of_handle)

        incoming = Incoming(stream_of(replacement.state), len(replacement.state))
        return await self._states.put_and_submit(caller, store, incoming, request)

    async def clone(self, caller: Caller, store: str, source: CloneSource, handle: NewHandle | None = None) -> Reply:
        """Fill the empty tree of ``store`` with copies of the files of ``source``. With ``handle``, the same commit
        adds this handle.

        The files are copied first, which takes long if there are many. Raises `Problem`, for example ``not-empty``,
        ``not-exist`` or ``fenced``; with ``handle`` also ``already-exists``.
        """
        return await self._cloning.clone(caller, store, source, handle)


def snapshot_body(snapshot: TreeSnapshot | Savepoint) -> dict[str, Any]:
    """Return a snapshot or a savepoint as JSON."""
    return {"directory": snapshot.directory, "batch": snapshot.batch, "revision": snapshot.revision}


def taken_of(view: Lookup, store: Store, tree: Tree, snapshot: TreeSnapshot) -> str | None:
    """Return the time at which the batch of a snapshot was committed; None if it is unknown, or if a manifest that is
    not in memory has the file of the batch. No manifest is loaded.
    """
    if snapshot.taken:
        return snapshot.taken
    try:
        taken: str | None = _commit(view, store, tree, snapshot)["taken"]
    except ManifestsNotLoaded:
        return None
    return taken


def _commit(view: Lookup, store: Store, tree: Tree, snapshot: TreeSnapshot | Savepoint) -> dict[str, Any]:
    """Return, as JSON, when the batch of a snapshot was committed and under which epoch; null for each of the two that
    is unknown.
    """
    inside = f"{snapshot.directory}/" if snapshot.directory else ""
    commit = shown(view, store, tree, f"{SNAPSHOTS}/@{snapshot.revision}/{inside}commits/{snapshot.batch}")
    if not isinstance(commit, Entry):
        return {"taken": None, "epoch": None}
    return {"taken": commit.modified, "epoch": commit.epoch}
