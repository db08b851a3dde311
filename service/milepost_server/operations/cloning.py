"""Clone the files of a job: fill the tree of another job with copies of the files in a snapshot or a savepoint.

The two jobs share no blob, so that each can continue, and be deleted, independently. The copies are stored and listed
in one manifest first. Then a single commit adds the manifest to the tree, so a clone that fails leaves the tree empty.
The same commit may add a handle, and some files may have other bytes than the original: so a clone begins with a record
that fits its files.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from milepost.errors import Problem
from milepost.wire import Code, Outcome, is_state_metadata
from milepost_backends.contract import BlobStore
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import gather_or_cancel
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.delivery import DeliveryCut, blob_ref, bytes_of_small, deliver
from milepost_server.blobs.intake import Incoming, take_in
from milepost_server.blobs.keys import blob_key, file_key
from milepost_server.journal import Journal
from milepost_server.journal.attempts import MaySubmit, Superseded
from milepost_server.memory.state import State
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.requests.base import BlobRef, fingerprint_of
from milepost_server.model.requests.handles import Add
from milepost_server.model.requests.trees import CloneTree
from milepost_server.model.trees import Entry, Savepoint, TreePath, TreeSnapshot
from milepost_server.operations.handles import store_in
from milepost_server.operations.trees import At, all_readable, tree_in
from milepost_server.replica.submitter import Caller, Reply, Submitter, reply_of
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.decisions import Accepted, Refused
from milepost_server.rules.trees.manifests import packed
from milepost_server.rules.trees.visibility import visible_at

_AT_ONCE = 8
"""How many files are copied at the same time."""

_PACK_BYTES = 8 * 1024 * 1024
"""About how many bytes of small files are collected in memory before they are put into one blob."""


@dataclass(frozen=True, slots=True)
class NewHandle:
    """A handle that a clone begins with."""

    name: str
    state: bytes = field(repr=False)
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CloneSource:
    """The snapshot ``snapshot`` of the job ``job``, and the bytes that files have in a clone in place of the original
    ones, in ``written`` by path.
    """

    job: str
    snapshot: str
    written: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """A digest over the bytes in ``written``, and their paths; empty if there are none."""
        parts = [part for path in sorted(self.written) for part in (path, _sha256(self.written[path]))]
        return fingerprint_of(*parts) if parts else ""


@dataclass(slots=True)
class _Copies:
    """The files of one clone that were copied so far: ``records`` by path, and ``blobs``, the keys of the blobs that
    were put for the clone.

    The bytes of small files are collected in ``small``, until there are enough of them for a blob. Files in ``written``
    have these bytes in place of the original ones.
    """

    caller: Caller
    source: str
    store: str
    revision: int
    term: int
    written: Mapping[str, bytes]
    records: list[TreePath] = field(default_factory=list)
    small: list[TreePath] = field(default_factory=list)
    small_bytes: int = 0
    blobs: list[str] = field(default_factory=list)

    @property
    def original(self) -> bytes:
        """The beginning of the absolute paths that Spark writes into the files of the source, as bytes; a copy must not
        contain it.
        """
        return f"/jobs/{self.source}/".encode()

    def add(self, path: str, entry: Entry) -> None:
        """Add the record of a copied file or directory."""
        kept = self.records if entry.data is None else self.small
        kept.append(TreePath(path, (entry,)))
        self.small_bytes += len(entry.data or b"")

    def take_small(self) -> list[TreePath]:
        """Return the small files that were collected since the last call, and begin to collect anew."""
        taken, self.small, self.small_bytes = self.small, [], 0
        return taken


class Cloning:
    """Clones trees. Long work is divided into turns of the event loop, so that other tasks can run in between."""

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        deletions: DeletionQueue,
        loop_time: LoopTimeBudget,
        submitter: Submitter,
        manifests: Manifests,
        inline_below: int,
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._deletions = deletions
        self._loop_time = loop_time
        self._submitter = submitter
        self._manifests = manifests
        self._inline_below = inline_below

    async def clone(self, caller: Caller, store: str, source: CloneSource, handle: NewHandle | None = None) -> Reply:
        """Fill the empty tree of ``store`` with copies of the files of ``source``. With ``handle``, the same commit
        adds this handle.

        Spark's metadata of state contains absolute paths of files, which are changed to the paths of the copies. If any
        other file contains the path of the source's directory, the clone is refused, since the copy would still refer
        to the source.

        Raises `Problem`, for example ``not-empty``, ``not-exist`` or ``fenced``; with ``handle`` also
        ``already-exists``.
        """
        for tree in (source.job, store):
            await self._manifests.ready(tree)
        original = f"{source.job}/{source.snapshot}"
        request = CloneTree(
            caller.attempt,
            store,
            "",
            caller.epoch,
            original,
            written=source.digest,
            add=None if handle is None else self._add(caller, store, handle),
        )
        dry_run = await self._submitter.dry_run_once_trimmed(request)
        if isinstance(dry_run, Accepted) and dry_run.answer.replayed:
            return await self._submitter.perform(request)
        generation, term = self._journal.generation, self._journal.term

        async def attempt(may_submit: MaySubmit) -> Reply:
            found = self._found(source.job, source.snapshot)
            copies = _Copies(caller, source.job, store, found.revision, term, source.written)
            if request.add is None or handle is None or request.add.data is not None:
                return await self._copied(copies, replace(request, snapshot=found), generation, may_submit)
            key = self._key(copies)
            stored = replace(request, snapshot=found, add=replace(request.add, blob=replace(request.add.blob, key=key)))
            return await self._copied(copies, stored, generation, may_submit, handle.state)

        return await self._submitter.deduplicated(caller, store, attempt)

    def _add(self, caller: Caller, store: str, handle: NewHandle) -> Add:
        """Return the request that adds a handle, without the key of the blob of a state that is not small."""
        data = handle.state if len(handle.state) < self._inline_below else None
        blob = BlobRef("", len(handle.state), _sha256(handle.state))
        return Add(caller.attempt, store, handle.name, caller.epoch, blob, handle.labels, None, data)

    def _found(self, source: str, snapshot: str) -> TreeSnapshot:
        tree = tree_in(self._state(), source)
        revision = tree.revisions.get(snapshot)
        kept: tuple[TreeSnapshot | Savepoint, ...] = (*tree.savepoints, *tree.snapshots, *tree.passed_over)
        for each in kept:
            if each.revision == revision:
                return TreeSnapshot(each.directory, each.batch, each.revision)
        raise problem(Code.NOT_EXIST, f"the tree of {source!r} has no snapshot {snapshot!r}")

    async def _copied(
        self, copies: _Copies, request: CloneTree, generation: int, may_submit: MaySubmit, state: bytes | None = None
    ) -> Reply:
        try:
            if state is not None and request.add is not None:
                await self._put(request.add.blob.key, state)
            rows, request = await self._prepared(copies, request)
        except BaseException:
            await self._discard(copies)
            raise
        assert request.manifest is not None
        with self._state().holding(request.manifest.blob, rows):
            try:
                served = await self._submitter.submit_and_wait(request, generation, may_submit)
            except Superseded:
                await self._discard(copies)
                raise
            except Problem as error:
                if error.outcome is Outcome.NOT_APPLIED:
                    await self._discard(copies)
                raise
        if isinstance(served.decision, Refused):
            await self._discard(copies)
        return reply_of(served)

    async def _prepared(self, copies: _Copies, request: CloneTree) -> tuple[ManifestRows, CloneTree]:
        """Copy all files of the snapshot, and put the manifest that lists the copies. Return the rows of this manifest,
        and the request completed with the manifest.
        """
        await self._copy_all(copies)
        blob = self._key(copies)
        rows, request = await asyncio.to_thread(_compacted, copies, blob, request)
        await self._put(blob, rows.content)
        return rows, request

    async def _copy_all(self, copies: _Copies) -> None:
        shown = await self._shown(copies)
        absent = copies.written.keys() - {path for path, entry in shown if not entry.directory}
        if absent:
            raise problem(Code.NOT_EXIST, f"the snapshot of {copies.source!r} has no file {min(absent)!r}")
        waiting = iter(shown)

        async def some() -> None:
            for path, entry in waiting:
                copies.add(path, await self._copy(copies, path, entry))
                if copies.small_bytes >= _PACK_BYTES:
                    await self._pack(copies)
                await asyncio.sleep(0)  # some copies need no waiting, so thousands of them could block the event loop

        await gather_or_cancel(some() for _ in range(_AT_ONCE))
        await self._pack(copies)

    async def _pack(self, copies: _Copies) -> None:
        """Put the collected bytes of small files into one blob, and set the blob in the records of these files."""
        small, pack = copies.take_small(), self._key(copies)
        compacted, content = await asyncio.to_thread(packed, small, pack)
        if content:
            await self._put(pack, content)
        copies.records += compacted

    async def _shown(self, copies: _Copies) -> list[tuple[str, Entry]]:
        found: list[tuple[str, Entry]] = []

        def add(path: str) -> None:
            state, source = self._state(), copies.source
            record = state.path(source, path)
            if record is not None and not isinstance(record, TreePath):
                raise problem(Code.CORRUPT, f"the record of {path!r} of {source!r} is damaged: {record.reason}")
            store, tree = store_in(state, source), tree_in(state, source)
            entry = None if record is None else visible_at(record, copies.revision, store, tree)
            if entry is not None:
                found.append((path, entry))

        await self._loop_time.each_after(lambda last: self._state().paths(copies.source, "", last), "", add)
        all_readable(self._state(), At(copies.source, ""))
        if copies.revision < tree_in(self._state(), copies.source).unsure:
            detail = f"a damaged record was deleted that the snapshot of {copies.source!r} may have shown"
            raise problem(Code.CORRUPT, f"{detail}: take a later one")
        if copies.revision not in tree_in(self._state(), copies.source).kept:
            detail = f"the snapshot of {copies.source!r} at revision {copies.revision} went while it was looked through"
            raise problem(Code.NOT_EXIST, f"{detail}: make a savepoint of it first")
        return found

    async def _copy(self, copies: _Copies, path: str, entry: Entry) -> Entry:
        """Copy a file or directory, and return the entry of the copy, which has the caller's epoch."""
        made = Entry(self._journal.read().revision, entry.modified, copies.caller.epoch, entry.directory)
        if entry.directory:
            return made
        if path in copies.written:
            return _with_bytes(made, copies.written[path])
        is_metadata = is_state_metadata(path, entry.size)
        if entry.has_own_blob and not is_metadata:
            ref = await self._copy_blob(copies, path, entry)
            return msgspec.structs.replace(made, size=ref.size, sha256=ref.sha256, blob=ref.key)
        data = await self._bytes(entry)
        if copies.original in data:
            if not is_metadata:
                raise _names(copies, path)
            data = data.replace(copies.original, f"/jobs/{copies.store}/".encode())
        return _with_bytes(made, data)

    async def _bytes(self, entry: Entry) -> bytes:
        if not entry.has_own_blob:
            return await bytes_of_small(self._blobs, entry)
        return b"".join([chunk async for chunk in await deliver(self._blobs, blob_ref(entry))])

    async def _copy_blob(self, copies: _Copies, path: str, entry: Entry) -> BlobRef:
        chunks = await deliver(self._blobs, blob_ref(entry))

        async def looked_through() -> AsyncIterator[bytes]:
            end = b""
            async for chunk in chunks:
                if copies.original in end + chunk:
                    raise _names(copies, path)
                end = (end + chunk)[-len(copies.original) :]
                yield chunk

        key = self._key(copies, file_key)
        try:
            return await take_in(self._blobs, key, Incoming(looked_through(), entry.size, entry.sha256), None)
        except DeliveryCut as error:
            raise problem(Code.CORRUPT, f"{path!r} of {copies.source!r} cannot be read: {error}") from error

    async def _put(self, key: str, content: bytes) -> None:
        await take_in(self._blobs, key, Incoming(stream_of(content)), None)

    def _key(self, copies: _Copies, fresh: Callable[[str, str, int], str] = blob_key) -> str:
        key = fresh(self._journal.deployment, copies.store, copies.term)
        copies.blobs.append(key)
        return key

    async def _discard(self, copies: _Copies) -> None:
        await self._loop_time.each(copies.blobs, lambda key: self._deletions.schedule(key, 0.0))

    def _state(self) -> State:
        return self._journal.state()


def _compacted(copies: _Copies, blob: str, request: CloneTree) -> tuple[ManifestRows, CloneTree]:
    """Return the rows of a manifest that lists the copies, and the request completed with this manifest; ``blob`` is
    the key of the blob for the rows.
    """
    rows = ManifestRows.of(sorted(copies.records, key=lambda record: record.path))
    sizes = [entry.size for record in copies.records for entry in record.entries if not entry.directory]
    return rows, replace(request, manifest=rows.manifest(blob), files=len(sizes), bytes=sum(sizes))


def _with_bytes(made: Entry, data: bytes) -> Entry:
    return msgspec.structs.replace(made, size=len(data), sha256=_sha256(data), data=data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _names(copies: _Copies, path: str) -> Exception:
    named = copies.original.decode()
    return problem(Code.INVALID_REQUEST, f"{path!r} of {copies.source!r} names {named!r}: its copy would lead there")
