"""Operations on trees: list, rename and delete files. The bytes of files go through data nodes (`files`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import BlobStore
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import problem
from milepost_server.blobs.delivery import bytes_of_small
from milepost_server.journal import Journal
from milepost_server.memory.lookup import Lookup
from milepost_server.memory.state import State
from milepost_server.model.paths import SNAPSHOTS, ancestors_of, snapshot_of
from milepost_server.model.records import Corrupt
from milepost_server.model.requests.base import LEADER, NO_BLOB, Attempt
from milepost_server.model.requests.trees import (
    Begun,
    DeletePath,
    MakeDirectory,
    OntoExisting,
    PutFile,
    RenamePath,
    TreeRequest,
)
from milepost_server.model.trees import Entry, Tree
from milepost_server.operations.handles import store_in
from milepost_server.replica.submitter import Reply, Submitter
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.answers import entry_body
from milepost_server.rules.trees.visibility import shown


class At(msgspec.Struct, frozen=True, gc=False):
    """A path of a store's tree."""

    store: str
    path: str


@dataclass(frozen=True, slots=True)
class FilePage:
    """A page of the files in a directory, sorted by name.

    ``next`` is the name after which the next page begins, None on the last page. ``now`` is the current time by the
    clock that the files' modification times come from.
    """

    files: list[dict[str, Any]]
    next: str | None
    now: str
    revision: int
    term: int


@dataclass(slots=True)
class Summary:
    """How many files and directories there are below a path, and how many bytes the files have."""

    files: int = 0
    directories: int = 0
    bytes: int = 0

    def add(self, entry: Entry) -> None:
        """Count an entry: a directory, or a file with its bytes."""
        self.files += not entry.directory
        self.directories += entry.directory
        self.bytes += entry.size


class TreeOperations:
    """The operations on the files of a store's tree. A write needs the driver's epoch, but no session."""

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        loop_time: LoopTimeBudget,
        submitter: Submitter,
        manifests: Manifests,
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._loop_time = loop_time
        self._submitter = submitter
        self._manifests = manifests

    async def each_store(
        self,
        visit: Callable[[str], object],
        after: str = "",
        most: int | None = None,
        shown: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Call ``visit`` with the names of the stores that come after ``after``, in turns of the event loop. At most
        ``most`` stores are visited, or all if it is None.

        ``shown`` says of a store whether the caller may see it; other stores are skipped as if they did not exist.
        """
        given = 0

        def add(name: str) -> bool:
            nonlocal given
            if shown(name):
                visit(name)
                given += 1
            return given == most

        await self._loop_time.each_after(lambda last: self._journal.state().stores(last), after, add)

    async def ready(self, store: str) -> None:
        """Wait until all manifests of a store's tree are in memory; the other operations need them.

        Raises `Problem`: ``corrupt``, ``storage-unavailable``, ``no-leader``.
        """
        await self._manifests.ready(store)

    def entry(self, at: At) -> Entry:
        """Return the entry at a path. Raises ``not-exist`` and ``corrupt`` problems."""
        found = self.find(at)
        if found is None:
            raise problem(Code.NOT_EXIST, absent_at(at))
        return found

    def find(self, at: At) -> Entry | None:
        """Return the entry at a path; None if there is none. Raises ``corrupt`` problems."""
        return found_in(self._journal.state(), at)

    async def children(self, at: At, after: str = "", most: int | None = None) -> list[tuple[str, Entry]]:
        """Return the names and entries of the children of a directory; for a file, its own entry under an empty name.

        They are sorted by name, begin after the name ``after``, and are at most ``most``.
        """
        found: list[tuple[str, Entry]] = []
        await self.each_child(at, lambda name, entry: found.append((name, entry)), after, most)
        return found

    async def each_child(
        self, at: At, visit: Callable[[str, Entry], object], after: str = "", most: int | None = None
    ) -> None:
        """Call ``visit`` with the name and the entry of each child of a directory, in turns of the event loop; for a
        file, with an empty name and its own entry.

        The names begin after the name ``after``, and are at most ``most``. A file that is renamed while a long
        directory is read may be missing, or appear under either name.
        """
        entry = self.entry(at)
        if not entry.directory:
            visit("", entry)
            return
        all_readable(self._journal.state(), at)
        given = 0
        before = len(at.path) + 1 if at.path else 0

        def add(path: str) -> bool:
            nonlocal given
            view = self._journal.state()
            there = shown(view, store_in(view, at.store), tree_in(view, at.store), path)
            if isinstance(there, Entry):
                visit(path[before:], there)
                given += 1
            return given == most

        def paths(last: str) -> Iterator[str]:
            return _children(self._journal.state(), at, last)

        await self._loop_time.each_after(paths, f"{at.path}/{after}" if at.path else after, add)
        if snapshot_of(at.path) is not None:
            # raise a problem if `at` is in a snapshot that was dropped meanwhile, since the result would be incomplete
            self.entry(at)

    async def summary(self, at: At) -> Summary:
        """Count the entry at a path and everything below it, in turns of the event loop. Raises ``not-exist`` and
        ``corrupt`` problems.

        A file that is renamed while a large directory is counted may be missing, or be counted twice.
        """
        found, entry = Summary(), self.entry(at)
        found.add(entry)
        if not entry.directory:
            return found
        all_readable(self._journal.state(), at)

        def add(path: str) -> None:
            view = self._journal.state()
            there = shown(view, store_in(view, at.store), tree_in(view, at.store), path)
            if isinstance(there, Entry):
                found.add(there)

        await self._loop_time.each_after(lambda last: _below(self._journal.state(), at, last), "", add)
        # raise a problem if `at` is in a snapshot that was dropped meanwhile, since the result would be incomplete
        self.entry(at)
        return found

    def readable(self, at: At) -> Entry:
        """Return the file at a path. Raises ``not-exist`` problems, also for a directory."""
        entry = self.entry(at)
        if entry.directory:
            raise problem(Code.NOT_EXIST, f"{at.path!r} is a directory")
        return entry

    async def bytes_of_small(self, entry: Entry) -> bytes:
        """Return the bytes of a file that has no blob of its own. Raises `Problem`: ``blob-missing``, ``corrupt``,
        ``storage-unavailable``.
        """
        return await bytes_of_small(self._blobs, entry)

    def may_put(self, at: At, epoch: int | None, *, overwrite: bool, parents: bool) -> Begun:
        """Refuse a put early, before any byte is sent, if the rules would refuse it now.

        Returns the directory that must still exist when the file is published. Without ``parents``, the put creates no
        directory. Raises `Problem` with the code of the refusal, such as ``fenced`` or ``already-exists``.
        """
        self._submitter.dry_run(
            PutFile(LEADER, at.store, at.path, epoch, NO_BLOB, b"", overwrite, Begun(parents=parents))
        )
        return self.begun(at, parents=parents)

    def begun(self, at: At, *, parents: bool) -> Begun:
        """Return the directory that must still exist when a file is published whose bytes begin to come now. Without
        ``parents``, the put creates no directory. Raises ``corrupt`` problems.
        """
        begun, state = Begun(parents=parents), self._journal.state()
        store, tree = store_in(state, at.store), tree_in(state, at.store)
        for above in reversed(ancestors_of(at.path)):
            there = _readable(shown(state, store, tree, above), above)
            if there is not None:
                return replace(begun, directory=above, created_revision=there.created_revision)
        return begun

    async def page(self, at: At, after: str, limit: int) -> FilePage:
        """Return a page of at most ``limit`` `children` of a directory, whose names come after ``after``.

        For a store that does not exist, the page is empty. Raises ``not-exist`` problems, and ``not-directory`` for a
        file.
        """
        if not self.entry(at).directory:
            raise problem(Code.NOT_DIRECTORY, f"{at.path!r} is a file")
        found = await self.children(at, after, limit + 1)
        before = f"{at.path}/" if at.path else ""
        reading = self._journal.read()
        return FilePage(
            [entry_body(before + name, entry) for name, entry in found[:limit]],
            found[limit - 1][0] if len(found) > limit else None,
            self._journal.context(reading.revision).wall,
            reading.revision,
            reading.term,
        )

    async def make_directory(self, at: At, epoch: int | None) -> None:
        """Create a directory, with all directories above it. Raises `Problem` with the code of the refusal, such as
        ``fenced``.
        """
        await self.make_directory_once(at, epoch, LEADER)

    async def make_directory_once(self, at: At, epoch: int | None, attempt: Attempt) -> Reply:
        """Create a directory, with all directories above it, unless a newer attempt of the same request has begun: then
        raise an ``outcome-unknown`` problem. In the answer, ``created`` is whether the directory did not exist before.
        """
        return await self._perform(MakeDirectory(attempt, at.store, at.path, epoch))

    async def rename(self, at: At, target: str, epoch: int | None, onto: OntoExisting) -> bool:
        """Rename a file or a directory, and return whether it was renamed. ``onto`` says what to do if the target
        exists. Raises `Problem` with the code of the refusal, such as ``fenced`` or ``not-exist``.
        """
        reply = await self._submitter.perform(RenamePath(LEADER, at.store, at.path, epoch, target, onto))
        return bool(reply.answer.body["renamed"])

    async def delete(self, at: At, epoch: int | None, *, recursive: bool) -> bool:
        """Delete a file or a directory, and return whether it existed. Raises `Problem` with the code of the refusal,
        such as ``fenced`` or ``not-empty``.
        """
        reply = await self.delete_once(at, epoch, LEADER, recursive=recursive)
        return bool(reply.answer.body["deleted"])

    async def delete_once(self, at: At, epoch: int | None, attempt: Attempt, *, recursive: bool) -> Reply:
        """Delete a file or a directory, unless a newer attempt of the same request has begun: then the path may have
        another file by now, and an ``outcome-unknown`` problem is raised.
        """
        return await self._perform(DeletePath(attempt, at.store, at.path, epoch, recursive))

    async def _perform(self, request: TreeRequest) -> Reply:
        """Submit a request. If it was already committed under its key, return the first answer again; if a newer
        attempt has begun, raise an ``outcome-unknown`` problem.

        In both cases the path may now have another file than at the first attempt, so the request must not be applied
        again.
        """
        if request.key is None:
            return await self._submitter.perform(request)
        attempts = self._journal.attempts
        attempts.begin(request)
        if (applied := attempts.applied(request)) is not None:
            applied.check_same(request)
            reading = self._journal.read()
            return Reply(applied.answer, reading.revision, reading.term)
        return await self._submitter.perform(request, attempts.check_newest)


def found_in(state: State, at: At) -> Entry | None:
    """Return the entry at a path; None if there is none. Raises ``corrupt`` problems."""
    return _readable(shown(state, store_in(state, at.store), tree_in(state, at.store), at.path), at.path)


def _readable(found: Entry | Corrupt | None, path: str) -> Entry | None:
    """Return what was found at a path. Raises a ``corrupt`` problem if the record of the path cannot be read."""
    if isinstance(found, Corrupt):
        raise problem(Code.CORRUPT, f"the record of {path!r} is damaged: {found.reason}")
    return found


def few_children(state: State, at: At, most: int) -> list[tuple[str, Entry]] | None:
    """Return the names and entries of the children of a directory, as `TreeOperations.children` does; None if the path
    is no directory, or if there may be more than ``most`` children. Raises ``corrupt`` problems.
    """
    entry = found_in(state, at)
    if entry is None or not entry.directory:
        return None
    all_readable(state, at)
    store, tree, before = store_in(state, at.store), tree_in(state, at.store), len(at.path) + 1 if at.path else 0
    paths = list(islice(_children(state, at, at.path and f"{at.path}/"), most + 1))
    if len(paths) > most:
        return None
    found = ((path[before:], shown(state, store, tree, path)) for path in paths)
    return [(name, there) for name, there in found if isinstance(there, Entry)]


def absent_at(at: At) -> str:
    """Return what the problem for a path at which there is no entry says."""
    return f"{at.path!r} does not exist in the tree of {at.store!r}"


def tree_in(view: Lookup, store: str) -> Tree:
    """Return the record of a store's tree. Raises a ``corrupt`` problem if it cannot be read."""
    record = view.tree(store)
    if isinstance(record, Corrupt):
        raise problem(Code.CORRUPT, f"the record of the tree of {store!r} is damaged: {record.reason}")
    return record or Tree(store)


def _children(view: State, at: At, after: str) -> Iterator[str]:
    """Yield the paths that may be children of a directory, sorted, beginning after the path ``after``; some may not be
    visible. Snapshots are children of `SNAPSHOTS` only.
    """
    inside = snapshot_of(at.path)
    if inside is None:
        yield from view.children(at.store, at.path, after)
        return
    snapshot, inner = inside
    if not snapshot:
        names = (f"{SNAPSHOTS}/{name}" for name in sorted(tree_in(view, at.store).revisions))
        yield from (path for path in names if path > after)
        return
    before = f"{SNAPSHOTS}/{snapshot}/"
    for path in view.children(at.store, inner, after.removeprefix(before)):
        yield f"{before}{path}"


def _below(view: State, at: At, after: str) -> Iterator[str]:
    """Yield the paths that may be below a directory, beginning after the path ``after``; some may not be visible. For
    the directory `SNAPSHOTS`, these are the paths of one snapshot after another.
    """
    inside = snapshot_of(at.path)
    if inside is None:
        yield from view.paths(at.store, at.path, after)
        return
    snapshot, inner = inside
    reached, last = snapshot_of(after) or ("", "")
    for name in (snapshot,) if snapshot else sorted(tree_in(view, at.store).revisions):
        if name < reached:
            continue
        if not snapshot and name != reached:
            yield f"{SNAPSHOTS}/{name}"
        for path in view.paths(at.store, inner, last if name == reached else ""):
            yield f"{SNAPSHOTS}/{name}/{path}"


def all_readable(state: State, at: At) -> None:
    """Refuse to list a directory while a record of the tree cannot be read: the path of that record is unknown, and may
    be missing in the list.

    A driver that does not see its newest commit would run that batch again. Raises a ``corrupt`` problem.
    """
    damaged = next(state.damaged_paths(at.store), None)
    if damaged is not None:
        detail = f"{at.path or '/'!r} cannot be listed: the record {damaged}, of a path that is not known, is damaged"
        raise problem(Code.CORRUPT, detail)
