"""Decide changes of a tree: put a file, make a directory, rename, delete. They follow Hadoop's FileSystem.

A client that repeats a request after a lost answer gets the same answer. A completed rename is recognized by the path
that the entry was renamed from; the other requests change nothing when they are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.paths import (
    SNAPSHOTS,
    ancestors_of,
    checked_path,
    is_below,
    moved,
    parent_of,
    snapshot_of,
)
from milepost_server.model.records import Corrupt, Store
from milepost_server.model.requests.trees import (
    NOW,
    Begun,
    DeletePath,
    MakeDirectory,
    OntoExisting,
    PutFile,
    RenamePath,
    TreeRequest,
)
from milepost_server.model.trees import MOST_RANGE_TOMBSTONES, Entry, Tree, TreePath
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Refused
from milepost_server.rules.trees.maintenance import trimmed_of
from milepost_server.rules.trees.tree_change import TreeChange
from milepost_server.rules.trees.visibility import (
    MOST_TOMBSTONES,
    ROOT,
    TooManyTombstones,
    is_temporary_file,
    visible,
    visible_below,
)

_RENAMED: Final = Answer({"renamed": True})
_NOT_RENAMED: Final = Accepted(Answer({"renamed": False}))

MOST_RENAMED = 256
"""The most paths below a directory that can be renamed, since a rename is one commit."""


def change_path(view: View, request: TreeRequest, context: DecisionContext) -> Decision:
    """Decide a request about one path: put a file, make a directory, or rename or delete a path."""
    store = view.store_or_new(request.store_name)
    record = view.tree(store.name)
    if type(record) is Corrupt:
        return Refused(Code.CORRUPT, f"the record of the tree of {store.name!r} is damaged: {record.reason}")
    for path in (request.path, request.target) if type(request) is RenamePath else (request.path,):
        if snapshot_of(path) is not None:
            return Refused(Code.FORBIDDEN, f"{_named(path)} cannot be written: {SNAPSHOTS} is read-only")
    handler = _TreeHandler(view, store, record or Tree(store.name), context)
    try:
        return _ACTS[type(request)](handler, request)
    except TooManyTombstones as error:
        return handler.too_many_tombstones(request, error.tombstones)


class _TreeHandler:
    def __init__(self, view: View, store: Store, tree: Tree, context: DecisionContext) -> None:
        self._view = view
        self._store = store
        self._tree = tree
        self._context = context
        self._change = TreeChange(view, store, tree, context)

    def put(self, request: PutFile) -> Decision:
        old = self._at(request.path)
        if type(old) is Refused:
            return old
        if old is not None and old.directory:
            return Refused(Code.ALREADY_EXISTS, f"{_named(request.path)} is a directory")
        if old is not None and not request.overwrite:
            return Refused(Code.ALREADY_EXISTS, f"{_named(request.path)} already exists")
        if refused := self._make_parents(request.path, request.epoch, request.begun):
            return refused
        blob = request.blob.key if request.data is None else ""
        entry = self._change.entry(
            epoch=request.epoch, size=request.blob.size, sha256=request.blob.sha256, blob=blob, data=request.data
        )
        self._change.begin(request.path, entry)
        made = Answer(version=str(entry.created_revision), created=old is None)
        return self._change.accepted(request, made)

    def make_directory(self, request: MakeDirectory) -> Decision:
        there = self._at(request.path)
        if type(there) is Refused:
            return there
        if there is not None:
            if there.directory:
                return Accepted(Answer())
            return Refused(Code.NOT_DIRECTORY, f"{_named(request.path)} is a file")
        if refused := self._make_parents(request.path, request.epoch):
            return refused
        self._change.begin(request.path, self._change.entry(epoch=request.epoch, directory=True))
        return self._change.accepted(request, Answer(created=True))

    def delete(self, request: DeletePath) -> Decision:
        there = self._view.path(self._store.name, request.path) if request.path else None
        if not isinstance(there, Corrupt):  # a path with a damaged record is deleted without further checks
            entry = visible(self._view, self._store, self._tree, request.path)
            if entry is None:
                return Accepted(Answer({"deleted": False}))
            assert isinstance(entry, Entry)
            if entry.directory and not request.recursive and (refused := self._all_readable(request.path)):
                return refused
        try:
            below = next(visible_below(self._view, self._store, self._tree, request.path), None)
        except TooManyTombstones:
            if not request.recursive:
                raise
            # too many deleted entries to read: assume a visible one, since an unnecessary range tombstone does no harm
            below = (request.path, ROOT)
        if below is None and request.recursive and self._view.damaged_path(self._store.name) is not None:
            # an unreadable record may be that of a file below; a range tombstone deletes it even if it is put back
            # later
            below = (request.path, ROOT)
        if below is not None:
            if not request.recursive:
                return Refused(Code.NOT_EMPTY, f"{_named(request.path)} is not empty: it has {below[0]!r}")
            if len(self._tree.range_tombstones) >= MOST_RANGE_TOMBSTONES:
                return self._too_many_range_tombstones()
            self._change.tombstone(request.path)
        if request.path:
            self._change.end(request.path)
        return self._change.accepted(request, Answer({"deleted": True}))

    def rename(self, request: RenamePath) -> Decision:
        source, target, asks = request.path, request.target, request.onto is OntoExisting.ANSWER_FALSE
        entry, there = self._at(source), self._at(target)
        if type(entry) is Refused:
            return entry
        if type(there) is Refused:
            return there
        made = entry is None and _came_from(there, request)
        if asks and there is not None and there.directory and not made:
            target = f"{target}/{source.rpartition('/')[2]}" if target else source.rpartition("/")[2]
            inner = self._at(target)
            if type(inner) is Refused:
                return inner
            there = inner
        no = _NOT_RENAMED
        if entry is None:
            if _came_from(there, request):
                return Accepted(_RENAMED)
            return no if asks else Refused(Code.NOT_EXIST, f"{_named(source)} does not exist")
        if source == target and source:
            there_already = Refused(Code.ALREADY_EXISTS, f"{_named(source)} is the target already")
            return Accepted(_RENAMED) if asks else there_already
        if not source or is_below(target, source):
            return no if asks else Refused(Code.INVALID_REQUEST, f"{_named(source)} cannot become {_named(target)}")
        if refused := self._in_the_way(entry, target, there, request.onto):
            return no if asks else refused
        return self._renamed(request, entry, target)

    def _renamed(self, request: RenamePath, entry: Entry, target: str) -> Decision:
        moves = [(request.path, entry)]
        if entry.directory:
            if refused := self._all_readable(request.path):
                return refused
            for found in visible_below(self._view, self._store, self._tree, request.path):
                moves.append(found)
                if len(moves) > 1 + MOST_RENAMED:
                    detail = f"{_named(request.path)} has more than {MOST_RENAMED} files, too many for one rename"
                    return Refused(Code.NOT_SUPPORTED, detail)
        try:
            moving = [(path, old, checked_path(moved(path, request.path, target))) for path, old in moves]
        except ValueError as error:
            return Refused(Code.INVALID_NAME, f"{_named(request.path)} cannot be renamed: {error}")
        for path, old, goes_to in moving:
            shared = old.shared or not is_temporary_file(path, old)
            begun = replace(
                old, created_revision=self._context.revision, epoch=request.epoch, moved_from=path, shared=shared
            )
            self._change.end(path, shared=shared)
            self._change.begin(goes_to, begun)
        return self._change.accepted(request, _RENAMED)

    def _in_the_way(self, entry: Entry, target: str, there: Entry | None, onto: OntoExisting) -> Refused | None:
        """Return the refusal of a rename if something at ``target`` is in its way, or the directory above ``target``
        does not exist; None if the rename may be done.

        ``there`` is the entry at ``target``, None if there is none; ``onto`` says what the client wants if there is
        one.
        """
        if there is not None:
            if onto is not OntoExisting.REPLACE:
                return Refused(Code.ALREADY_EXISTS, f"{_named(target)} already exists")
            if there.directory is not entry.directory:
                return Refused(
                    Code.ALREADY_EXISTS, f"{_named(target)} is {'a directory' if there.directory else 'a file'}"
                )
            if there.directory and next(visible_below(self._view, self._store, self._tree, target), None) is not None:
                return Refused(Code.NOT_EMPTY, f"{_named(target)} is not empty")
            return None
        above = self._at(parent_of(target))
        if type(above) is Refused:
            return above
        if above is None:
            return Refused(Code.NOT_EXIST, f"{_named(parent_of(target))} does not exist")
        return None if above.directory else Refused(Code.NOT_DIRECTORY, f"{_named(parent_of(target))} is a file")

    def _make_parents(self, path: str, epoch: int | None, begun: Begun = NOW) -> Refused | None:
        for above in ancestors_of(path):
            there = visible(self._view, self._store, self._tree, above)
            if there is None:
                if not begun.parents or above == begun.directory or is_below(begun.directory, above):
                    return Refused(Code.NOT_EXIST, f"{_named(above)}, the directory for {_named(path)}, does not exist")
                self._change.begin(above, self._change.entry(epoch=epoch, directory=True))
            elif type(there) is Entry:
                if above == begun.directory and there.created_revision != begun.created_revision:
                    detail = f"{_named(above)} is another one than when the bytes of {_named(path)} began to come"
                    return Refused(Code.NOT_EXIST, detail)
                if not there.directory:
                    return Refused(Code.NOT_DIRECTORY, f"{_named(above)} is a file")
        return None

    def _all_readable(self, directory: str) -> Refused | None:
        """Refuse an operation on a directory while a record of the tree cannot be read, since that record may be of a
        file below the directory.
        """
        damaged = self._view.damaged_path(self._store.name)
        if damaged is None:
            return None
        detail = f"the record {damaged}, of a path that is not known, is damaged and may be of a file in there"
        return Refused(Code.CORRUPT, f"{_named(directory)} cannot be looked through: {detail}")

    def _too_many_range_tombstones(self) -> Refused:
        damaged = self._view.damaged_path(self._store.name)
        if damaged is None:
            detail = f"{MOST_RANGE_TOMBSTONES} deleted directories are not cleared away yet; try again later"
        else:
            kept = f"{MOST_RANGE_TOMBSTONES} deleted directories are on record"
            detail = f"{kept} because of the damaged record {damaged}: restore that record"
        return Refused(Code.TOO_MANY_REQUESTS, detail, until_trimmed=damaged is None)

    def too_many_tombstones(self, request: TreeRequest, tombstones: Sequence[TreePath]) -> Refused:
        """Refuse an operation that must look through a directory with too many ``tombstones``, at least until some of
        them are dropped.
        """
        droppable = any(trimmed_of(record, self._store, self._tree) != record for record in tombstones)
        why = (
            "are not cleared away yet there"
            if droppable
            else "are kept there, since a snapshot or a savepoint shows them"
        )
        detail = f"{_named(request.path)} cannot be looked through: {MOST_TOMBSTONES} paths that were deleted {why}"
        return Refused(Code.TOO_MANY_REQUESTS, detail, until_trimmed=droppable)

    def _at(self, path: str) -> Entry | Refused | None:
        found = visible(self._view, self._store, self._tree, path)
        if type(found) is Corrupt:
            return Refused(Code.CORRUPT, f"the record of {_named(path)} is damaged: {found.reason}")
        return found


def _came_from(there: Entry | None, request: RenamePath) -> bool:
    """Return whether the rename was done already: the entry at its target was renamed from its source under the same
    epoch.
    """
    return there is not None and there.moved_from == request.path and there.epoch == request.epoch


def _named(path: str) -> str:
    return repr(path or "/")


_ACTS: Final[Mapping[type[TreeRequest], Callable[[_TreeHandler, Any], Decision]]] = {
    PutFile: _TreeHandler.put,
    MakeDirectory: _TreeHandler.make_directory,
    RenamePath: _TreeHandler.rename,
    DeletePath: _TreeHandler.delete,
}


HANDLERS: Final[Handlers] = dict.fromkeys(_ACTS, change_path)
