"""The committed history of trees: whatever begins or ends at a path must have been asked for, under the current epoch.

Each group that is committed is read from its records alone. A file is known by its digest, for no two puts have the
same bytes. With groups of one request each it is known exactly what a snapshot has to show; in larger groups a path may
show either of the two states that it had before and after the group.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from milepost_backends.contract import BlobMissing
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import ancestors_of, commit_of, is_below, is_temporary
from milepost_server.model.records import Record, Store, store_of
from milepost_server.model.requests.trees import (
    DeletePath,
    MakeDirectory,
    OntoExisting,
    PutFile,
    RenamePath,
    TreeRequest,
)
from milepost_server.model.trees import Entry, Tree, TreePath, TreeSnapshot
from milepost_server.rules.trees.visibility import is_temporary_file, visible, visible_at
from tests.simulation.callers.calls import Call
from tests.simulation.callers.tree_calls import DIRECTORY, WholeFile
from tests.simulation.checks.chronicle import Chronicle
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.world.blobs import BlobService
from tests.simulation.world.timeline import Timeline

Place = tuple[str, str]
"""A store, and a path of its tree."""


class TreeChronicle:
    """What is in each tree, what was asked of it, and what has been committed of that."""

    def __init__(self, chronicle: Chronicle, blobs: BlobService, tally: Counter[str]) -> None:
        self.lines: dict[Place, Timeline[str | None]] = defaultdict(lambda: Timeline(None))
        """What was at each path: the digest of a file, `DIRECTORY`, or None."""
        self.applied: dict[Call, int] = {}
        """Puts that have been committed."""
        self.renamed: dict[tuple[str, str, str], int] = {}
        """Renames that have been committed: store, source, target."""
        self.visible: dict[Place, Entry] = {}
        self._chronicle = chronicle
        self._blobs = blobs
        self._tally = tally
        self._state = State()
        self._view = View(self._state)
        self._puts: dict[str, Call] = {}
        self._redirects: dict[str, Call] = {}
        self._asked: dict[Place, list[Call]] = defaultdict(list)
        self._at: dict[str, Place] = {}
        self._shown: dict[tuple[str, TreeSnapshot], dict[str, set[str | None]]] = {}
        self._names: dict[Place, set[str]] = {}
        inspected = blobs.deleted

        def deleted(blob: str) -> None:
            inspected(blob)
            self._deleted(blob)

        blobs.deleted = deleted

    def asked(self, call: Call) -> None:
        """A client is about to ask."""
        ask = call.ask
        if isinstance(ask, TreeRequest):
            self._asked[ask.store_name, ask.path].append(call)
            if isinstance(ask, RenamePath):
                self._asked[ask.store_name, ask.target].append(call)
            if isinstance(ask, PutFile):
                self._puts[hashlib.sha256(call.content).hexdigest()] = call
                self._redirects[ask.key or ""] = call

    def named(self) -> set[str]:
        """The keys of all blobs that records name, or rows of manifests."""
        own = {blob for record in self._state.records.values() if isinstance(record, TreePath) for blob in record.blobs}
        rows = {entry.blob for held in self._state.held.values() for row in held for entry in row.entries}
        return own | rows | set(self._state.held)

    def needed(self) -> set[str]:
        """The keys of all blobs without which a path, or a kept snapshot, does not show what it should."""
        return {blob for names in self._names.values() for blob in names} | set(self._state.held)

    def may_be_hidden(self, call: Call) -> bool:
        """Whether a rename may have been committed without a trace: of two requests for its target in one group, the
        records show the second only. Such a second one has landed since the rename was asked for.
        """
        ask = call.ask
        assert isinstance(ask, RenamePath)
        near = (
            other for above in (*ancestors_of(ask.target), ask.target) for other in self._asked[ask.store_name, above]
        )
        return any(other is not call and self._ended(other, ask.target, call.floor) for other in near)

    def _ended(self, call: Call, path: str, floor: int) -> bool:
        """Whether a request may have ended what was at a path, after the revision ``floor``."""
        match call.ask:
            case DeletePath() as ask:
                return _ends(ask, path, gone=True)
            case PutFile() as ask if _ends(ask, path, gone=False):
                return self.applied.get(call, 0) > floor
            case RenamePath() as ask if _ends(ask, path, gone=False):
                return self.renamed.get((ask.store_name, ask.path, ask.target), 0) > floor
        return False

    # -- a group is committed
    # ---------------------------------------------------------------------------------------------

    def committed(self, since: int, at: int, changed: dict[str, Record | None]) -> None:
        """A group that leads from revision ``since`` to ``at`` has been committed."""
        stores = {store_of(key) or "" for key, record in changed.items() if _is_of_tree(key, record)}
        self._state.apply(changed.items())
        for store in sorted(stores):
            for record in changed.values():
                if isinstance(record, TreePath):
                    self._answered(record, since)
            self._hold_manifests(store)
            self._look(store, since, at, changed)

    def _answered(self, record: TreePath, since: int) -> None:
        for kept in record.answered:
            if kept.revision > since and (call := self._redirects.get(kept.key)) is not None:
                self._applied(call, kept.revision)

    def _applied(self, call: Call, at: int) -> None:
        if call.denied:
            raise Violation(
                Invariant.TRUTHFUL_NO, f"{call} was told as not applied, and was committed at revision {at}"
            )
        if (before := self.applied.setdefault(call, at)) != at:
            raise Violation(Invariant.ONCE, f"{call} was applied at revision {before} and again at {at}")

    def _hold_manifests(self, store: str) -> None:
        for manifest in self._state.unloaded(store):
            self._tally["manifests"] += 1
            content = self._bytes(manifest.blob, f"the tree of {store}")
            if hashlib.sha256(content).hexdigest() != manifest.sha256:
                raise Violation(Invariant.BLOB_THERE, f"{manifest} is not what the tree of {store} says")
            self._state.hold(manifest.blob, ManifestRows(content))

    def _look(self, store: str, since: int, at: int, changed: dict[str, Record | None]) -> None:
        record, tree = self._view.store(store), self._view.tree(store) or Tree(store)
        assert isinstance(record, Store) and isinstance(tree, Tree)  # noqa: PT018 - nothing damages records here
        for key, path_record in changed.items():
            if isinstance(path_record, TreePath):
                self._at[key] = store, path_record.path
        if any(isinstance(each, Store | Tree) for each in changed.values()):
            known = {path for of, path in self.visible if of == store}
            paths: Iterable[str] = sorted({*self._state.paths(store, ""), *known})
        else:
            paths = sorted({path for key in changed if key in self._at for of, path in [self._at[key]] if of == store})
        begun: list[str] = []
        for path in paths:
            entry = visible(self._view, record, tree, path)
            assert entry is None or isinstance(entry, Entry)
            if self._path_seen((store, path), entry, since, at):
                begun.append(path)
        self._snapshots_seen(store, tree, since, at, begun)
        for path in paths:
            self._path_shown(store, path, record, tree)

    # -- what is there now -----------------------------------------------------------------------------------------

    def _path_seen(self, place: Place, new: Entry | None, since: int, at: int) -> bool:
        """Judge what is at a path after the group; whether a file began there."""
        old = self.visible.get(place)
        if new is None and old is None:
            return False
        if new is None:
            self._may_end(place, self.visible.pop(place), None, since, at)
            self.lines[place].note(at, None)
            return False
        begins = old is None or (old.created_revision, old.sha256) != (new.created_revision, new.sha256)
        if begins or old is None or (old.blob, old.start) != (new.blob, new.start):
            self._whole(place, new)
        self.visible[place] = new
        if not begins:
            return False
        if old is not None:
            self._may_end(place, old, new, since, at)
        if not since < new.created_revision <= at:
            raise Violation(Invariant.FILE_KEPT, f"{place} shows {new} again, at revision {at}")
        self._may_begin(place, new)
        self.lines[place].note(at, DIRECTORY if new.directory else new.sha256)
        return not new.directory

    def _may_begin(self, place: Place, new: Entry) -> None:
        store, path = place
        epoch = self._epoch(store, new.created_revision)
        if new.epoch != epoch:
            raise Violation(Invariant.STALE_EPOCH, f"{place} has {new}, written while {epoch} was the epoch")
        if new.directory:
            calls = [
                call for (of, at), calls in self._asked.items() if of == store and _leads_to(at, path) for call in calls
            ]
            self._must(place, new, [call.ask for call in calls if isinstance(call.ask, PutFile | MakeDirectory)], epoch)
            return
        put = self._puts.get(new.sha256)
        if put is None:
            raise Violation(Invariant.FILE_KEPT, f"{place} has {new}, which nobody put")
        assert isinstance(put.ask, PutFile)
        if not new.moved_from:
            if put.ask.path != path:
                raise Violation(Invariant.FILE_KEPT, f"{place} has {new}, which was put at {put.ask.path}")
            self._must(place, new, [put.ask], epoch)
            self._applied(put, new.created_revision)
            self._tally["files in one request"] += isinstance(put.ask, WholeFile)
            return
        calls = [call for call in self._asked[place] if isinstance(call.ask, RenamePath)]
        renames = [call for call in calls if _moves(call.ask, new.moved_from, path)]
        self._must(place, new, [call.ask for call in renames if isinstance(call.ask, RenamePath)], epoch)
        if put.ask.path != new.moved_from or (store, new.moved_from, path) in self.renamed:
            raise Violation(Invariant.RENAMED_ONCE, f"{place} has {new}, which {put} put")
        if all(call.denied for call in renames):
            raise Violation(
                Invariant.TRUTHFUL_NO, f"{renames} was told as not applied, and was committed at {new.created_revision}"
            )
        self._tally["renames"] += 1
        self.renamed[store, new.moved_from, path] = new.created_revision
        self.applied.setdefault(put, new.created_revision)

    def _must(self, place: Place, new: Entry, asks: Sequence[TreeRequest], epoch: int) -> None:
        if not any(ask.epoch == epoch for ask in asks):
            broken = Invariant.STALE_EPOCH if asks else Invariant.FILE_KEPT
            raise Violation(broken, f"{place} has {new} under epoch {epoch}, of those who asked: {asks}")

    def _may_end(self, place: Place, old: Entry, new: Entry | None, since: int, at: int) -> None:
        """Judge that what was at a path is there no more."""
        store, path = place
        epochs = {self._epoch(store, revision) for revision in (since + 1, at)}
        if is_temporary_file(path, old) and old.epoch != self._epoch(store, at):
            return  # it went with its epoch
        near = [call.ask for above in ("", *ancestors_of(path), path) for call in self._asked[store, above]]
        ending = [ask for ask in near if isinstance(ask, TreeRequest) and _ends(ask, path, gone=new is None)]
        if not any(ask.epoch in epochs for ask in ending):
            broken = Invariant.STALE_EPOCH if ending else Invariant.FILE_KEPT
            broken = Invariant.RENAMED_ONCE if new is not None and new.moved_from else broken
            raise Violation(broken, f"{place} had {old}, now {new}, at revision {at}; to end it asked {ending}")

    def _whole(self, place: Place, entry: Entry) -> None:
        if entry.directory:
            return
        data = entry.data
        if data is None:
            data = self._bytes(entry.blob, str(place))
            data = data if entry.start is None else data[entry.start : entry.start + entry.size]
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise Violation(Invariant.FILE_KEPT, f"{place} has {entry}, and its bytes are others")

    def _bytes(self, blob: str, who: str) -> bytes:
        try:
            return self._blobs.get(blob)
        except BlobMissing as error:
            raise Violation(Invariant.BLOB_THERE, f"{who} names {blob}, which is missing") from error

    def _epoch(self, store: str, revision: int) -> int:
        epoch: int = self._chronicle.epochs[store].at(revision)["epoch"]
        return epoch

    # -- what snapshots show
    # --------------------------------------------------------------------------------------------

    def _snapshots_seen(self, store: str, tree: Tree, since: int, at: int, begun: list[str]) -> None:
        for known in [known for known in self._shown if known[0] == store and known[1] not in tree.snapshots]:
            del self._shown[known]
        for snapshot in tree.snapshots:
            if (store, snapshot) not in self._shown:
                self._tally["cuts of trees"] += 1
                if not since < snapshot.revision <= at:
                    raise Violation(Invariant.CUT_SHOWS, f"{snapshot} of {store} was made up at revision {at}")
                self._shown[store, snapshot] = dict(self._to_show(store, since, at))
        made = {snapshot.revision for snapshot in tree.snapshots}
        for path in begun:
            if at == since + 1 and commit_of(path) is not None and at not in made:
                raise Violation(Invariant.CUT_SHOWS, f"{path} of {store} was committed at {at} without a cut")

    def _to_show(self, store: str, since: int, at: int) -> Iterator[tuple[str, set[str | None]]]:
        first = at if at == since + 1 else since
        for (of, path), line in self.lines.items():
            if of == store:
                whats = set(line.between(first, at))
                yield path, {None if is_temporary(path) and what != DIRECTORY else what for what in whats}

    def _path_shown(self, store: str, path: str, record: Store, tree: Tree) -> None:
        """Compare what the kept snapshots show at a path with what they should; note the blobs that the path needs."""
        found = self._view.path(store, path)
        now = self.visible.get((store, path))
        names = {now.blob} if now is not None and now.blob else set()
        for snapshot in tree.snapshots:
            entry = visible_at(found, snapshot.revision, record, tree) if isinstance(found, TreePath) else None
            what = None if entry is None else DIRECTORY if entry.directory else entry.sha256
            should = self._shown[store, snapshot].get(path, {None})
            if what not in should:
                raise Violation(
                    Invariant.CUT_SHOWS, f"{snapshot} of {store} shows {what} at {path}, should be {should}"
                )
            if entry is not None and entry.blob:
                names.add(entry.blob)
        self._names[store, path] = names

    def _deleted(self, blob: str) -> None:
        if blob in self._state.held:
            raise Violation(Invariant.BLOB_THERE, f"the manifest {blob} was deleted while a tree names it")
        for place, names in self._names.items():
            if blob in names:
                raise Violation(
                    Invariant.BLOB_THERE, f"{blob} was deleted while {place}, or a snapshot of it, shows it"
                )


def _is_of_tree(key: str, record: Record | None) -> bool:
    return isinstance(record, Store | Tree | TreePath) or "/files/" in key


def _leads_to(path: str, directory: str) -> bool:
    return path == directory or is_below(path, directory)


def _moves(ask: object, source: str, target: str) -> bool:
    return isinstance(ask, RenamePath) and (ask.path, ask.target) == (source, target)


def _ends(ask: TreeRequest, path: str, *, gone: bool) -> bool:
    """Whether a request, if it is granted, may end what is at a path; ``gone``: nothing has taken its place."""
    match ask:
        case DeletePath():
            return ask.path == path or (ask.recursive and is_below(path, ask.path))
        case PutFile():
            return ask.path == path and ask.overwrite and not gone
        case RenamePath():
            return ask.path == path or (ask.target == path and ask.onto is OntoExisting.REPLACE and not gone)
    return False
