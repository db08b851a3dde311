"""A bench on which tests try the rules of trees, and maintenance's requests, one after the other."""

from __future__ import annotations

from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.records import Corrupt, Store, store_key
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef, Request
from milepost_server.model.requests.trees import (
    BeginCompaction,
    CompactTree,
    DeletePath,
    DropCompacted,
    OntoExisting,
    PutFile,
    RenamePath,
    TrimTree,
)
from milepost_server.model.trees import Entry, Tree
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, DecisionContext, Refused
from milepost_server.rules.trees.manifests import is_compactable, packed
from milepost_server.rules.trees.visibility import visible

STORE = "job"


class Bench:
    """The rules over a tree of epoch 1, and every change that was decided, in flight until it is committed."""

    def __init__(self, kept_snapshots: int = 2) -> None:
        self.kept_snapshots = kept_snapshots
        self.view = View(State())
        self.view.state.apply([(store_key(STORE), Store(STORE, epoch=1, granted=1))])
        self.revision = 1
        self.discards: list[str] = []

    def ask(self, request: Request) -> Accepted | Refused:
        """Decide a request and stage what it changes."""
        context = DecisionContext(
            self.revision + 1, "lineage", "2026-01-01T00:00:00.000Z", kept_snapshots=self.kept_snapshots
        )
        decision = decide(self.view, request, context)
        assert isinstance(decision, Accepted | Refused)
        if isinstance(decision, Accepted) and decision.changes:
            self.revision += 1
            self.view.stage(decision.changes, self.revision)
            self.discards += decision.discards
        return decision

    def put(self, path: str, *, overwrite: bool = False, data: bytes | None = None, key: str | None = None) -> str:
        """Put a file with a blob of its own; its key."""
        blob = f"blob of {path} at {self.revision}"
        attempt = LEADER if key is None else Attempt("", key)
        request = PutFile(attempt, STORE, path, 1, BlobRef(blob, 1, "d"), data, overwrite)
        assert isinstance(self.ask(request), Accepted)
        return blob

    def rename(self, source: str, target: str, onto: OntoExisting = OntoExisting.REFUSE) -> Accepted | Refused:
        """Rename a path under epoch 1."""
        return self.ask(RenamePath(LEADER, STORE, source, 1, target, onto))

    def delete(self, path: str, *, recursive: bool = False) -> Accepted | Refused:
        """Delete a path under epoch 1."""
        return self.ask(DeletePath(LEADER, STORE, path, 1, recursive))

    def trim(self) -> None:
        """Drop what may be dropped, as maintenance does."""
        tree = self.tree()
        self.ask(
            TrimTree(LEADER, STORE, tuple(record.path for record in self.view.paths(STORE, "")), tree.range_tombstones)
        )
        self.ask(TrimTree(LEADER, STORE, (), (), tree.rollbacks))

    def begin_compaction(self) -> int:
        """Begin to compact; the revision at which that was committed."""
        begun = self.ask(BeginCompaction(LEADER, STORE))
        assert isinstance(begun, Accepted)
        return int(begun.answer.body["begun"])

    def tree(self) -> Tree:
        """The tree's own record."""
        tree = self.view.tree(STORE) or Tree(STORE)
        assert isinstance(tree, Tree)
        return tree

    def made(self) -> tuple[CompactTree, tuple[str, ...]]:
        """Begin to compact, and make a manifest of all that may be; what lets the tree name it, and its paths."""
        begun = self.begin_compaction()
        self.commit()
        found = [each for each in self.view.state.own_paths(STORE) if is_compactable(each, self.revision, self.tree())]
        records, _ = packed(found, f"pack at {begun}")
        rows = ManifestRows.of(records)
        manifest = rows.manifest(f"manifest at {begun}")
        self.view.state.hold(manifest.blob, rows)
        return CompactTree(LEADER, STORE, (), manifest, begun), tuple(record.path for record in records)

    def compact(self) -> tuple[str, ...]:
        """Compact all records that may be; their paths."""
        request, paths = self.made()
        assert isinstance(self.ask(request), Accepted)
        self.ask(DropCompacted(LEADER, STORE, paths))
        self.commit()
        return paths

    def visible(self, path: str) -> Entry | Corrupt | None:
        """What is at a path."""
        store = self.view.store(STORE)
        assert isinstance(store, Store)
        return visible(self.view, store, self.tree(), path)

    def commit(self) -> None:
        """Commit everything that is in flight."""
        self.view.commit(self.revision)
