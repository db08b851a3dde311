"""Verify that the bytes of all files of a tree are stored: those of the current files, and of each snapshot and
savepoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobStore, StorageUnavailable, UnsafeKey
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import gather_or_cancel, within
from milepost_server.blobs.delivery import blob_ref, bytes_of_small, check_bytes, stored_size, verify
from milepost_server.blobs.keys import prefix_of_store
from milepost_server.journal import Journal
from milepost_server.memory.state import State
from milepost_server.model.paths import path_key
from milepost_server.model.trees import Entry, Savepoint, TreePath, TreeSnapshot
from milepost_server.operations.handles import store_in
from milepost_server.operations.trees import tree_in
from milepost_server.rules.trees.visibility import visible_at, visible_in

log = logging.getLogger("milepost.blobs")
_AT_ONCE = 16
"""How many files are checked at the same time."""

_MOST_NAMED = 100
"""The most damaged files that a report names."""

_DAMAGE = (Code.CORRUPT, Code.BLOB_MISSING)

_LISTED_FROM: Final = 8
"""If fewer sizes of a store's blobs than this are needed, each is requested individually instead of listing the
blobs.
"""

_LISTED_FOR_EACH: Final = 50
"""A listing is stopped after this many blobs for each needed size, since requesting the other sizes individually is
then faster.
"""

_LISTING_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A file at ``path``, and the revisions of snapshots and savepoints at which it is visible; 0 means now."""

    path: str
    entry: Entry
    at: frozenset[int]


@dataclass(slots=True)
class Report:
    """The result of a verification: the number of current files and bytes, and the damaged files with their reasons."""

    files: int = 0
    bytes: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)
    """The revisions at which a damaged file is visible; 0 means now. If a damaged record was deleted, also the
    revisions at which its file may have been visible.
    """

    def body(self, kept: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
        """Return the report as JSON. ``kept`` has lists of snapshots by kind, such as savepoints; each snapshot is
        returned with a member that says whether it is intact.
        """
        named = sorted(self.damaged)[:_MOST_NAMED]
        return {
            "files": self.files,
            "bytes": self.bytes,
            "intact": 0 not in self.broken,
            "damaged": [{"path": path, "reason": self.damaged[path]} for path in named],
            "damagedCount": len(self.damaged),
            **{
                kind: [{**snapshot, "intact": snapshot["revision"] not in self.broken} for snapshot in snapshots]
                for kind, snapshots in kept.items()
            },
        }


class Verification:
    """Verifies trees. Long work is divided into turns of the event loop, so that other tasks can run in between."""

    def __init__(self, journal: Journal, blobs: BlobStore, loop_time: LoopTimeBudget) -> None:
        self._journal = journal
        self._blobs = blobs
        self._loop_time = loop_time

    async def verify(self, store: str, *, digests: bool) -> Report:
        """Check that each file is stored with its full size; with ``digests``, also read each file.

        Files that change during the check count as they are at the end. A damaged file that is visible only at
        snapshots which a rollback passed over counts as damage to these snapshots, but not to the job, which may have
        rolled back because of that damage. Raises ``storage-unavailable`` problems if the check cannot be completed.
        """
        files = await self._shown(store)
        report = Report()

        def count(shown: Shown) -> None:
            if 0 in shown.at:
                report.files += 1
                report.bytes += shown.entry.size

        await self._loop_time.each(files, count)
        waiting, sizes = iter(files), _Sizes(self._blobs, self._loop_time)
        found: dict[Shown, str] = {}
        if not digests:
            await sizes.learn(shown.entry.blob for shown in files if shown.entry.data is None)

        async def look() -> None:
            for shown in waiting:
                if (reason := await self._damage(shown, sizes, digests)) is not None:
                    found[shown] = reason
                await asyncio.sleep(0)  # some checks need no waiting, so thousands of them could block the event loop

        await gather_or_cancel(look() for _ in range(_AT_ONCE))

        tree = tree_in(self._lookup(), store)
        kept: tuple[TreeSnapshot | Savepoint, ...] = (*tree.snapshots, *tree.savepoints)
        wanted = {0, *(each.revision for each in kept)}

        def note(shown: Shown) -> None:
            at = self._at(store, shown)
            report.broken |= at
            if at & wanted:
                report.damaged[shown.path] = found[shown]

        await self._loop_time.each(found, note)
        tree = tree_in(self._lookup(), store)
        report.broken.update(revision for revision in tree.kept if revision < tree.unsure)
        return report

    async def _shown(self, store: str) -> list[Shown]:
        files: list[Shown] = []
        await self._loop_time.each_after(
            lambda last: self._lookup().paths(store, "", last), "", lambda path: files.extend(self._files(store, path))
        )
        state = self._lookup()
        named = {path_key(store, shown.path) for shown in files if shown.entry.created_revision == 0}
        for key in state.damaged_paths(store):
            if key not in named:
                files.extend(self._files(store, key))
        return files

    def _files(self, store: str, path: str) -> Iterator[Shown]:
        """Yield each different file that a path has now or had at a kept snapshot or savepoint."""
        view = self._lookup()
        record, of_store, tree = view.path(store, path), store_in(view, store), tree_in(view, store)
        if not isinstance(record, TreePath):
            # a damaged record counts as one damaged file, visible now and at every snapshot
            yield Shown(path, Entry(0, "", blob=path), frozenset({0, *tree.kept}))
            return
        shown: dict[Entry, set[int]] = {}
        for revision in (0, *tree.kept):
            entry = visible_in(record, of_store, tree) if not revision else visible_at(record, revision, of_store, tree)
            if entry is not None and not entry.directory:
                shown.setdefault(entry, set()).add(revision)
        yield from (Shown(path, entry, frozenset(at)) for entry, at in shown.items())

    def _at(self, store: str, damaged: Shown) -> frozenset[int]:
        """Return the revisions at which the damaged file is still visible, since files may have changed during the
        check; 0 means now.
        """
        same = (damaged.entry.blob, damaged.entry.start, damaged.entry.sha256)
        for shown in self._files(store, damaged.path):
            if (shown.entry.blob, shown.entry.start, shown.entry.sha256) == same:
                return shown.at
        return frozenset()

    async def _damage(self, shown: Shown, sizes: _Sizes, digests: bool) -> str | None:
        """Return the reason why the stored bytes of a file are damaged; None if they are intact. With ``digests``, the
        bytes are read; otherwise only their size is checked.
        """
        entry = shown.entry
        try:
            if entry.created_revision == 0:
                return "its record is damaged"
            if entry.data is not None:
                if digests:
                    check_bytes(entry.data, entry.sha256)
            elif entry.start is not None and digests:
                await bytes_of_small(self._blobs, entry)
            elif entry.start is not None:
                await sizes.check(entry.blob, entry.start + entry.size, at_least=True)
            elif entry.blob and digests:
                await verify(self._blobs, blob_ref(entry))
            elif entry.blob:
                await sizes.check(entry.blob, entry.size)
        except Problem as error:
            if error.code not in _DAMAGE:
                raise problem(Code.STORAGE_UNAVAILABLE, f"cannot look at {shown.path!r}: {error.detail}") from error
            return error.detail
        return None

    def _lookup(self) -> State:
        return self._journal.state()


class _Sizes:
    """The sizes of blobs, each requested from the blob store once. A blob that is missing in a listing may have been
    put after the listing began, so its size is requested individually.
    """

    def __init__(self, blobs: BlobStore, loop_time: LoopTimeBudget) -> None:
        self._blobs = blobs
        self._loop_time = loop_time
        self._known: dict[str, int | Problem] = {}

    async def learn(self, keys: Iterable[str]) -> None:
        """Get the sizes of these blobs from a listing of the blob store, which is stopped after half a minute."""
        wanted: dict[str, set[str]] = defaultdict(set)

        def want(key: str) -> None:
            if (prefix := prefix_of_store(key)) is not None:
                wanted[prefix].add(key)

        await self._loop_time.each(keys, want)
        for prefix, several in wanted.items():
            if len(several) >= _LISTED_FROM:
                try:
                    await within(_LISTING_SECONDS, self._list(prefix, several))
                except (StorageUnavailable, UnsafeKey, TimeoutError) as error:
                    log.info("the blobs below %s cannot be listed, so each is asked for: %s", prefix, error)

    async def check(self, key: str, size: int, *, at_least: bool = False) -> None:
        """Check that a blob has this size, or, with ``at_least``, this size or more.

        Raises `Problem`: ``blob-missing``, ``corrupt``, ``storage-unavailable``.
        """
        if key not in self._known:
            try:
                self._known[key] = await stored_size(self._blobs, key)
            except Problem as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, Problem):
            raise problem(found.code, found.detail) from found
        if found < size or (found > size and not at_least):
            raise problem(Code.CORRUPT, f"{found} bytes are stored, but the record says {size}")

    async def _list(self, prefix: str, wanted: set[str]) -> None:
        rest = len(wanted) * _LISTED_FOR_EACH
        async for info in self._blobs.list(prefix, 0.0):
            if info.key in wanted:
                self._known[info.key] = info.size
            rest -= 1
            if not rest:
                return
