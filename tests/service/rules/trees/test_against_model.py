"""Trees against a plain dictionary of paths, under hypothesis' choice of requests.

The model knows nothing of entries, range tombstones or lazily dropped records. Groups are staged, committed and lost
under it; each snapshot that is kept must show the dictionary of its moment, and each blob must be named as long as
something shows it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import ancestors_of, commit_of, is_below, is_temporary, parent_of
from milepost_server.model.records import Handle, Session, Store, Stored, decode, encode, session_key
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef, Request, with_id
from milepost_server.model.requests.handles import Add, Campaign, Replace, Resign
from milepost_server.model.requests.trees import (
    BeginCompaction,
    CompactTree,
    DeletePath,
    DropBlobs,
    DropCompacted,
    DropSavepoint,
    MakeDirectory,
    MakeSavepoint,
    OntoExisting,
    PutFile,
    RenamePath,
    RollBack,
    TrimTree,
)
from milepost_server.model.trees import MOST_ROLLBACKS, Entry, Manifest, Tree
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, Decision, DecisionContext, Refused
from milepost_server.rules.trees.manifests import is_compactable, merged, no_longer_named, packed
from milepost_server.rules.trees.visibility import visible, visible_at
from tests.service.rules import history

EXPLORED = int(os.environ.get("MILEPOST_EXPLORE", "0"))
"""So many examples, other ones each time; 0 stands for the same two hundred each time."""

STORE = "job"
RECORD = "record"
"""The handle that some rollbacks replace. Ann holds a lock on it, and Bob does not."""
KEPT_CUTS = 2
DIRECTORY = None
Files = dict[str, str | None]
"""What is at each path: the key of a file's blob, None for a directory."""

FILES = ("state/0", "state/1", "state/.2.tmp", "a", "a/b")
PATHS = st.sampled_from((*FILES, "state", "commits", "commits/0", "q/commits/0"))


@dataclass
class Moment:
    """The tree as the model has it: what is there now, and at each snapshot."""

    files: Files = field(default_factory=dict)
    snapshots: dict[tuple[str, int], tuple[int, Files]] = field(default_factory=dict)
    epoch: int = 0
    came_from: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What a path was renamed from, and under which epoch."""
    savepoints: dict[str, tuple[int, Files]] = field(default_factory=dict)
    passed_over: list[tuple[tuple[str, int], int, Files]] = field(default_factory=list)
    """The directory and the batch, the revision and the files of each snapshot that a rollback passed over."""
    forgotten: set[str] = field(default_factory=set)
    """Of these paths it may not be known any more what they were renamed from."""
    record: str = ""
    """The blob of the handle that some rollbacks replace."""

    def copy(self) -> Moment:
        """Another one, with the same content."""
        return Moment(
            dict(self.files),
            dict(self.snapshots),
            self.epoch,
            dict(self.came_from),
            dict(self.savepoints),
            list(self.passed_over),
            set(self.forgotten),
            self.record,
        )

    def below(self, directory: str) -> list[str]:
        """The paths below a directory."""
        return [path for path in self.files if is_below(path, directory)]

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory; the root is one."""
        return not path or (path in self.files and self.files[path] is DIRECTORY)

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        return self.files.get(path) is not None

    def make(self, directory: str) -> None:
        """Make a directory and those above it."""
        for each in [*ancestors_of(directory), directory]:
            self.files.setdefault(each, DIRECTORY)

    def put(self, path: str, blob: str, revision: int) -> None:
        """Put a file, and make a snapshot if it is a commit's."""
        for each in ancestors_of(path):
            self.files.setdefault(each, DIRECTORY)
        self.files[path] = blob
        self.came_from.pop(path, None)
        self.snapshot(path, revision)

    def snapshot(self, path: str, revision: int) -> None:
        """Keep the newest snapshots of each query."""
        committed = commit_of(path)
        if committed is None or not self.is_file(path):
            return
        self.snapshots.pop(committed, None)
        self.snapshots[committed] = (revision, self.files)  # the dictionary goes on to change: filled in by `settle`
        of_query = sorted(
            (key for key in self.snapshots if key[0] == committed[0]), key=lambda key: (self.snapshots[key][0], key[1])
        )
        for key in of_query[:-KEPT_CUTS]:
            del self.snapshots[key]
        if len(of_query) >= KEPT_CUTS:
            oldest = self.snapshots[of_query[-KEPT_CUTS]][0]
            self.passed_over = [each for each in self.passed_over if each[0][0] != committed[0] or each[1] > oldest]

    def kept(self) -> dict[int, Files]:
        """What each snapshot, each savepoint and each snapshot that was passed over shows, by revision."""
        over = {revision: files for _, revision, files in self.passed_over}
        return over | dict((*self.snapshots.values(), *self.savepoints.values()))

    def go_back(self, revision: int, now: int, files: Files, target: tuple[str, int]) -> None:
        """Let the files be these, as they were at one revision, whose snapshot is that of the batch ``target``. What
        was there right before ``now`` is passed over, as of the batch of the newest snapshot.
        """
        before = {path: blob for path, blob in self.files.items() if blob is None or not is_temporary(path)}
        snapshots = {at for at, _ in self.snapshots.values()} | {at for _, at, _ in self.passed_over}
        last = max(self.snapshots, key=lambda key: (self.snapshots[key][0], key[1]))
        here = [] if now - 1 in snapshots else [(last, now - 1, before)]
        shown = self.kept()[revision]
        self.passed_over = [each for each in self.passed_over if each[1] != revision]
        later = [(key, at, there) for key, (at, there) in self.snapshots.items() if at > revision]
        self.snapshots = {key: snapshot for key, snapshot in self.snapshots.items() if snapshot[0] <= revision}
        if all(at != revision for at, _ in self.snapshots.values()):
            if target in self.snapshots:
                self.passed_over.append((target, *self.snapshots.pop(target)))
            self.snapshots[target] = (revision, shown)
        self.passed_over += [*later, *here]
        self.files = files

    def settle(self, revision: int) -> None:
        """Fill in the snapshots of this revision with what is there at its end."""
        for key, (at, _) in self.snapshots.items():
            if at == revision:
                whole = {path: blob for path, blob in self.files.items() if blob is None or not is_temporary(path)}
                self.snapshots[key] = (at, whole)


class TreesAgainstModel(RuleBasedStateMachine):
    """Requests go to the rules and to the model, and both must say the same and show the same."""

    @initialize()
    def begin(self) -> None:
        """Two sessions, and a handle of one of them."""
        self.state = State()
        self.view = View(self.state)
        self.revision = self.group = self.blobs = self.commits = 0
        self.model = Moment()
        self.committed = Moment()
        self.discarded: set[str] = set()
        self.in_doubt: list[str] = []
        self.newest_committed = 0
        self.compacting: int | None = None
        self.made: ManifestRows | None = None
        self.made_as: Manifest | None = None
        self.stored: dict[str, bytes] = {}
        self.packs: dict[str, bytes] = {}
        for name in ("ann", "bob"):
            self.state.apply([(session_key(name), Session(name, 10.0, created_revision=1))])
        self.revision = 1
        added = Add(Attempt("ann"), STORE, RECORD, None, BlobRef("record-0", 1, "d"))
        self.expect(self.ask(added), None)
        self.model.record = "record-0"
        self.commit_all()

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> Decision:
        """Decide a request, and stage what it changes as records that were stored and read again. Nobody who asks
        without a use for the changes may be told anything else.
        """
        context = DecisionContext(self.revision + 1, "lineage", "2026-01-01T00:00:00.000Z", kept_snapshots=KEPT_CUTS)
        named = with_id(request, f"{self.revision + 1}") if not request.key else request
        decision = decide(self.view, named, context)
        dry = decide(self.view, named, replace(context, dry=True))
        if isinstance(decision, Accepted) and isinstance(dry, Accepted):
            assert dry.answer == decision.answer
        else:
            assert dry == decision
        if isinstance(decision, Accepted) and decision.changes:
            self.revision += 1
            self.group += 1
            self.view.stage({key: _stored(key, record) for key, record in decision.changes.items()}, self.group)
            self.in_doubt.extend(decision.discards)
        return decision

    def epoch(self) -> int | None:
        """The epoch that may write."""
        return self.model.epoch or None

    def expect(self, decision: Decision, code: Code | None) -> bool:
        """Whether it was granted, which must be so unless there is a code."""
        if code is None:
            assert isinstance(decision, Accepted), decision
            return True
        assert isinstance(decision, Refused), (decision, code)
        assert decision.code is code, (decision, code)
        return False

    def first_file(self, path: str) -> str | None:
        """The first file among the directories above a path."""
        return next((above for above in ancestors_of(path) if self.model.is_file(above)), None)

    @rule(path=PATHS, overwrite=st.booleans(), inline=st.booleans())
    def put(self, path: str, overwrite: bool, inline: bool) -> None:
        """Put a file with a blob of its own, or with its bytes in the record."""
        self.blobs += 1
        key = f"blob-{self.blobs}"
        code = None
        if path in self.model.files and (self.model.is_directory(path) or not overwrite):
            code = Code.ALREADY_EXISTS
        elif self.first_file(path):
            code = Code.NOT_DIRECTORY
        data = key.encode() if inline else None
        request = PutFile(
            LEADER, STORE, path, self.epoch(), BlobRef("" if inline else key, len(key), "d"), data, overwrite
        )
        if self.expect(self.ask(request), code):
            self.model.put(path, key, self.revision)
            self.model.settle(self.revision)

    @rule(source=st.sampled_from(FILES), query=st.sampled_from(["", "q/"]))
    def commit(self, source: str, query: str) -> None:
        """As Spark does: a file under its name, then the next commit, by a rename. A snapshot shows both."""
        self.put(source, True, False)
        self.commits += 1
        temporary, target = f"{query}commits/.{self.commits}.tmp", f"{query}commits/{self.commits}"
        self.put(temporary, False, True)
        self.rename(temporary, target, OntoExisting.REFUSE)

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        """Make a directory."""
        blocked = self.model.is_file(path) or (path not in self.model.files and self.first_file(path))
        if self.expect(
            self.ask(MakeDirectory(LEADER, STORE, path, self.epoch())), Code.NOT_DIRECTORY if blocked else None
        ):
            self.model.make(path)

    def one_of_them(self, data: st.DataObject) -> str:
        """A path, which exists as a rule."""
        return data.draw(st.one_of(st.sampled_from(sorted(self.model.files) or FILES), PATHS))

    @rule(data=st.data(), recursive=st.booleans())
    def delete(self, data: st.DataObject, recursive: bool) -> None:
        """Delete what is there."""
        path = data.draw(st.one_of(st.just(self.one_of_them(data)), st.just("")))
        there = not path or path in self.model.files
        below = self.model.below(path)
        decision = self.ask(DeletePath(LEADER, STORE, path, self.epoch(), recursive))
        if self.expect(decision, Code.NOT_EMPTY if there and below and not recursive else None):
            assert isinstance(decision, Accepted)
            assert decision.answer.body == {"deleted": there}
            for each in [path, *below] if there else []:
                self.model.files.pop(each, None)
                self.model.came_from.pop(each, None)

    @rule(data=st.data(), becomes=PATHS, onto=st.sampled_from(OntoExisting))
    def rename_one(self, data: st.DataObject, becomes: str, onto: OntoExisting) -> None:
        """Rename what is there, or is not."""
        self.rename(self.one_of_them(data), becomes, onto)

    def rename(self, source: str, target: str, onto: OntoExisting) -> None:
        """Rename a file or a directory."""
        files, asks = self.model.files, onto is OntoExisting.ANSWER_FALSE
        decision = self.ask(RenamePath(LEADER, STORE, source, self.epoch(), target, onto))
        if source not in files and isinstance(decision, Accepted) and decision.answer.body == {"renamed": True}:
            assert self.model.came_from[target] == (source, self.model.epoch)  # it was renamed before
            assert not decision.changes
            return
        was_made = self.model.came_from.get(target) == (source, self.model.epoch) and source not in files
        if was_made and target not in self.model.forgotten:
            raise AssertionError("a rename that was made is not known any more")
        if asks and source in files and self.model.is_directory(target) and target in files:
            target = f"{target}/{source.rpartition('/')[2]}"
        if asks and source == target and source in files:
            assert isinstance(decision, Accepted)
            assert decision.answer.body == {"renamed": True}
            assert not decision.changes
            return
        code: Code | None = None
        if source not in files:
            code = Code.NOT_EXIST
        elif source == target:
            code = Code.ALREADY_EXISTS
        elif is_below(target, source):
            code = Code.INVALID_REQUEST
        elif target in files:
            if onto is not OntoExisting.REPLACE or self.model.is_file(source) is not self.model.is_file(target):
                code = Code.ALREADY_EXISTS
            elif self.model.below(target):
                code = Code.NOT_EMPTY
        elif parent_of(target) and parent_of(target) not in files:
            code = Code.NOT_EXIST
        elif self.model.is_file(parent_of(target)):
            code = Code.NOT_DIRECTORY
        if asks:
            assert isinstance(decision, Accepted)
            assert decision.answer.body == {"renamed": code is None}
            if code is not None:
                return
        if self.expect(decision, code):
            self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        files = self.model.files
        moves = {path: target + path[len(source) :] for path in [source, *self.model.below(source)]}
        gone = {path: files.pop(path) for path in moves}
        for path in moves:
            self.model.came_from.pop(path, None)
        for path, goes_to in moves.items():
            files[goes_to] = gone[path]
            self.model.came_from[goes_to] = path, self.model.epoch
            self.model.forgotten.discard(goes_to)
            self.model.snapshot(goes_to, self.revision)
        self.model.settle(self.revision)

    @rule(session=st.sampled_from(["ann", "bob"]))
    def next_epoch(self, session: str) -> None:
        """Grant the next epoch: temporary files of the old one are gone with it."""
        for each in ("ann", "bob"):
            self.ask(Resign(Attempt(each), STORE))
        decision = self.ask(Campaign(Attempt(session), STORE))
        assert isinstance(decision, Accepted)
        self.model.epoch += 1
        for path in [path for path in self.model.files if is_temporary(path) and self.model.is_file(path)]:
            del self.model.files[path]

    @precondition(lambda self: self.model.epoch > 0)
    @rule(path=PATHS, behind=st.integers(1, 3), none=st.booleans())
    def an_older_epoch_is_fenced(self, path: str, behind: int, none: bool) -> None:
        """Whatever it asks for, also what would be refused for another reason."""
        epoch = None if none else self.model.epoch - behind
        for request in (
            PutFile(LEADER, STORE, path, epoch, BlobRef("zombie", 1, "d"), None, True),
            MakeDirectory(LEADER, STORE, path, epoch),
            DeletePath(LEADER, STORE, path, epoch, True),
            RenamePath(LEADER, STORE, path, epoch, f"{path}x", OntoExisting.REPLACE),
        ):
            self.expect(self.ask(request), Code.FENCED)

    @rule()
    def trim(self) -> None:
        """What maintenance does: every path, and then the range tombstones that were there before."""
        tree = self.view.tree(STORE)
        range_tombstones = tree.range_tombstones if isinstance(tree, Tree) else ()
        paths = tuple(record.path for record in self.view.paths(STORE, ""))
        self.ask(TrimTree(LEADER, STORE, paths, range_tombstones))

    # -- what is kept ------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["x", "y"]), newest=st.booleans(), data=st.data())
    def savepoint(self, name: str, newest: bool, data: st.DataObject) -> None:
        """Make a savepoint of a snapshot: the newest, or any."""
        newest_snapshot = max(dict(self.model.snapshots.values()), default=0)
        revisions = self.model.kept()
        revision = 0 if newest or not revisions else data.draw(st.sampled_from(sorted(revisions)))
        kept = revision or newest_snapshot
        code: Code | None = None
        if not kept:
            code = Code.NOT_EXIST
        elif name in self.model.savepoints and self.model.savepoints[name][0] != kept:
            code = Code.ALREADY_EXISTS
        if self.expect(self.ask(MakeSavepoint(LEADER, STORE, name, revision)), code):
            self.model.savepoints[name] = kept, revisions[kept]

    @rule(name=st.sampled_from(["x", "y"]))
    def drop_savepoint(self, name: str) -> None:
        """Keep a snapshot no longer."""
        code = None if name in self.model.savepoints else Code.NOT_EXIST
        if self.expect(self.ask(DropSavepoint(LEADER, STORE, name)), code):
            del self.model.savepoints[name]

    @precondition(lambda self: self.model.kept())
    @rule(
        data=st.data(),
        keep=st.lists(PATHS, max_size=2, unique=True),
        replacing=st.sampled_from([None, None, "ann", "ann", "bob", "at another version"]),
    )
    def roll_back(self, data: st.DataObject, keep: list[str], replacing: str | None) -> None:
        """Go back to a snapshot or to a savepoint, unless what was deleted is still being cleared away; some paths
        may stay. Some of these requests replace a handle as well: then both are done, or neither.
        """
        kept = self.model.kept()
        revision = data.draw(st.sampled_from(sorted(kept)))
        then, now = dict(kept[revision]), self.model.files
        _, tree = self._records()
        refused = Code.TOO_MANY_REQUESTS if tree.range_tombstones or len(tree.rollbacks) == MOST_ROLLBACKS else None
        if not refused and not all(path in now and Moment(then).is_directory(parent_of(path)) for path in keep):
            refused = Code.NOT_EXIST

        def stays(path: str) -> bool:
            return any(path == each or path.startswith(f"{each}/") for each in keep)

        if not refused:
            refused = {"bob": Code.NOT_LOCKED, "at another version": Code.VERSION_MISMATCH}.get(replacing or "")
        request = RollBack(LEADER, STORE, "", self.epoch(), revision, tuple(keep))
        if replacing is not None:
            self.blobs += 1
            version = self._handle().version if replacing in ("ann", "bob") else "another"
            attempt, blob = Attempt("bob" if replacing == "bob" else "ann"), BlobRef(f"record-{self.blobs}", 1, "d")
            of_handle = Replace(attempt, STORE, RECORD, self.epoch(), version, blob)
            request = RollBack(attempt, STORE, "", self.epoch(), revision, tuple(keep), of_handle)
        if self.expect(self.ask(request), refused):
            self.model.record = self.model.record if request.replace is None else request.replace.blob.key
            files = {path: what for path, what in then.items() if not stays(path)}
            files |= {path: what for path, what in now.items() if stays(path)}
            at = next(each for each in self._records()[1].snapshots if each.revision == revision)
            self.model.go_back(revision, self.revision, files, (at.directory, at.batch))
            self.model.forgotten |= self.model.files.keys() | set(FILES)
            self.compacting = self.made = self.made_as = None

    @precondition(lambda self: self.group == self.newest_committed)
    @rule()
    def finish_rollbacks(self) -> None:
        """As maintenance does: every path, and then the rollbacks that were there before."""
        _, tree = self._records()
        paths = tuple(self.state.paths(STORE, ""))
        self.ask(TrimTree(LEADER, STORE, paths))
        self.ask(TrimTree(LEADER, STORE, (), (), tree.rollbacks))

    # -- manifests ---------------------------------------------------------------------------------------------------

    @rule()
    def begin_compaction(self) -> None:
        """The leader begins to make a manifest: from then on it reads what is committed."""
        decision = self.ask(BeginCompaction(LEADER, STORE))
        self.compacting = self.group if isinstance(decision, Accepted) else None
        self.begun = self.revision
        self.made = None

    @precondition(
        lambda self: self.compacting is not None and self.newest_committed >= self.compacting and self.made is None
    )
    @rule(some=st.integers(0, 4))
    def make_manifest(self, some: int) -> None:
        """It makes one of some committed records, or of all, which go on to change."""
        records = [
            record
            for number, record in enumerate(self.state.own_paths(STORE))
            if number % 4 != some and is_compactable(record, self.revision, self._records()[1])
        ]
        self.blobs += 1
        pack, manifest = f"pack-{self.blobs}", f"manifest-{self.blobs}"
        self.model.forgotten |= {record.path for record in records}
        self.committed.forgotten |= self.model.forgotten
        records, self.packs[pack] = packed(records, pack)
        self.made = ManifestRows.of(records)
        self.made_as = self.made.manifest(manifest)
        self._hold(self.made_as.blob, self.made)

    @precondition(lambda self: self.made is not None)
    @rule()
    def compact(self) -> None:
        """The manifest comes to the tree."""
        assert self.made_as is not None
        self.ask(CompactTree(LEADER, STORE, (), self.made_as, self.begun))
        self.compacting = self.made = self.made_as = None

    @rule()
    def drop_compacted(self) -> None:
        """What manifests say as well is dropped."""
        self.ask(DropCompacted(LEADER, STORE, tuple(record.path for record in self.state.own_paths(STORE))))

    @precondition(lambda self: self.compacting is None)
    @rule(drops=st.booleans())
    def compact_all(self, drops: bool) -> None:
        """All of that at once, of everything that may be compacted; what is left of it may be dropped later."""
        self.commit_all()
        self.begin_compaction()
        self.commit_all()
        if self.compacting is not None:
            self.make_manifest(4)
            self.compact()
            self.commit_all()
        if drops:
            self.drop_compacted()

    @precondition(lambda self: self.compacting is None)
    @rule(all_of_them=st.booleans())
    def merge(self, all_of_them: bool) -> None:
        """Some manifests become one."""
        _, tree = self._records()
        manifests = tree.manifests
        if self.group != self.newest_committed or len(manifests) < 2:
            return
        first = 0 if all_of_them else len(manifests) - 2
        several = self.state.manifests(STORE)[first:]
        rows = ManifestRows.of(merged(several, tree, with_oldest=first == 0))
        self.blobs += 1
        manifest = rows.manifest(f"manifest-{self.blobs}")
        self._hold(manifest.blob, rows)
        replaced = tuple(each.blob for each in manifests[first:])
        self.ask(CompactTree(LEADER, STORE, replaced, manifest, 0, tree.savepoints))
        self.ask(DropBlobs(LEADER, STORE, no_longer_named(several, rows)))

    @precondition(lambda self: self.group == self.newest_committed)
    @rule()
    def restart(self) -> None:
        """Another leader loads what is stored; without the manifests it knows of no path, and says so."""
        state = State()
        state.apply(self.state.records.items())
        self.state, self.view = state, View(state)
        if state.unloaded(STORE):
            refused = self.ask(DeletePath(LEADER, STORE, "never/was", self.epoch(), False))
            assert isinstance(refused, Refused)
            assert refused.code is Code.STORAGE_UNAVAILABLE
        for blob, content in self.stored.items():
            state.hold(blob, ManifestRows(content))

    def _hold(self, blob: str, rows: ManifestRows) -> None:
        self.stored[blob] = rows.content
        self.state.hold(blob, rows)

    # -- groups ------------------------------------------------------------------------------------------------------

    @rule()
    def commit_all(self) -> None:
        """All groups are committed; only now may a blob be discarded."""
        self.view.commit(self.group)
        self.newest_committed = self.group
        self.discarded.update(self.in_doubt)
        self.in_doubt.clear()
        self.committed = self.model.copy()

    @rule()
    def lose(self) -> None:
        """No group in flight is committed."""
        self.view.discard_in_flight()
        self.in_doubt.clear()
        self.newest_committed = self.group
        self.compacting = self.made = self.made_as = None
        self.model = self.committed.copy()

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def the_same_is_there(self) -> None:
        """Every path of the model, and no other."""
        store, tree = self._records()
        found: Files = {}
        for record in self.view.paths(STORE, ""):
            entry = visible(self.view, store, tree, record.path)
            if isinstance(entry, Entry):
                found[record.path] = self._content(entry)
        assert found == self.model.files
        assert self._handle().blob == self.model.record

    @invariant()
    def the_history_is_in_order(self) -> None:
        history.check(self.view, self._records()[0])

    @invariant()
    def cuts_show_what_was_there(self) -> None:
        """Each snapshot that is kept, at each path."""
        store, tree = self._records()
        assert {(snapshot.directory, snapshot.batch): snapshot.revision for snapshot in tree.snapshots} == {
            key: revision for key, (revision, _) in self.model.snapshots.items()
        }
        over = [(each.revision, (each.directory, each.batch)) for each in tree.passed_over]
        model = [(revision, key) for key, revision, _ in self.model.passed_over]
        assert [revision for revision, _ in over] == [revision for revision, _ in model]
        assert sorted(over) == sorted(model)
        for revision, files in self.model.kept().items():
            shown: Files = {}
            for record in self.view.paths(STORE, ""):
                entry = visible_at(record, revision, store, tree)
                if entry is not None:
                    shown[record.path] = self._content(entry)
            assert shown == files

    @invariant()
    def no_blob_is_discarded_that_something_shows(self) -> None:
        """Neither what is committed nor what is in flight."""
        for moment in (self.model, self.committed):
            shown = {blob for files in (moment.files, *moment.kept().values()) for blob in files.values()}
            assert not self.discarded & {*shown, moment.record}

    def _content(self, entry: Entry) -> str | None:
        if entry.directory:
            return DIRECTORY
        if entry.start is not None:
            assert entry.blob not in self.discarded
            return self.packs[entry.blob][entry.start : entry.start + entry.size].decode()
        return entry.blob or (entry.data or b"").decode()

    def _handle(self) -> Handle:
        handle = self.view.handle(STORE, RECORD)
        assert isinstance(handle, Handle)
        return handle

    def _records(self) -> tuple[Store, Tree]:
        store, tree = self.view.store(STORE), self.view.tree(STORE)
        return store if isinstance(store, Store) else Store(STORE), tree if isinstance(tree, Tree) else Tree(STORE)


def _stored(key: str, record: Stored | None) -> Any:
    """What is read again of a record that was stored."""
    if record is None:
        return None
    read = decode(key, encode(key, record))
    assert read == record
    return read


TestTreesAgainstModel = TreesAgainstModel.TestCase
TestTreesAgainstModel.settings = settings(
    max_examples=EXPLORED or 200, stateful_step_count=50, deadline=None, derandomize=not EXPLORED
)
