"""Guards around trees, each of which can be taken out. See `tests.simulation.guards.guards`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal.attempts import Attempts
from milepost_server.memory.view import View
from milepost_server.model.records import Corrupt, Store
from milepost_server.model.requests.base import Request
from milepost_server.model.requests.trees import OntoExisting, PutFile, TreeRequest
from milepost_server.model.trees import Entry, Tree, TreePath
from milepost_server.operations.trees import At, TreeOperations
from milepost_server.rules import decide
from milepost_server.rules.decisions import Decision, DecisionContext, Refused
from milepost_server.rules.trees import handlers, maintenance, tree_change
from milepost_server.rules.trees.visibility import visible
from tests.simulation.guards.guards import Patch


def epoch_at_publication(patch: Patch) -> None:
    """The epoch of a put is checked when its client is sent to a data node, and not again when the bytes are there."""

    def put(view: View, request: PutFile, context: DecisionContext) -> Decision:
        store = view.store_or_new(request.store_name)
        return handlers.change_path(view, replace(request, epoch=store.epoch) if request.key else request, context)

    _pass_fence(patch, lambda _, request: isinstance(request, PutFile) and request.key is not None)
    kind: type[Request] = PutFile
    patch.setitem(decide.HANDLERS, kind, put)


def fence_in_the_grant(patch: Patch) -> None:
    """A grant leaves the fence of the tree where it is: the first write under the new epoch moves it."""

    def moves_it(view: View, request: TreeRequest) -> bool:
        store = view.store_or_new(request.store_name)
        entries = [entry for record in view.paths(store.name, "") for entry in record.entries]
        fence = max((entry.epoch or 0 for entry in entries), default=store.epoch)
        return request.epoch is not None and fence <= request.epoch <= store.epoch

    _pass_fence(patch, moves_it)


def _pass_fence(patch: Patch, passes: Callable[[View, TreeRequest], bool]) -> None:
    """Do not refuse these requests for their epoch."""
    real = decide._refusal

    def refusal(
        view: View, request: Request, name: str, store: Store | Corrupt | None, context: DecisionContext
    ) -> Refused | None:
        refused = real(view, request, name, store, context)
        fenced = refused is not None and refused.code is Code.FENCED
        return None if fenced and isinstance(request, TreeRequest) and passes(view, request) else refused

    patch.setattr(decide, "_refusal", refusal)


def rename_refuses_atomically(patch: Patch) -> None:
    """What is at the target of a rename is looked at when the request comes in, and not again when it is decided."""
    real, rename_for_real = handlers._TreeHandler._in_the_way, TreeOperations.rename

    def in_the_way(
        self: handlers._TreeHandler, entry: Entry, target: str, there: Entry | None, onto: OntoExisting
    ) -> Refused | None:
        return real(self, entry, target, there, OntoExisting.REPLACE if onto is OntoExisting.REFUSE else onto)

    async def rename(self: TreeOperations, at: At, target: str, epoch: int | None, onto: OntoExisting) -> bool:
        view = self._journal.read().view.state
        store, tree = view.store(at.store) or Store(at.store), view.tree(at.store) or Tree(at.store)
        assert isinstance(store, Store)
        assert isinstance(tree, Tree)
        there = visible(view, store, tree, target)
        made = isinstance(there, Entry) and there.moved_from == at.path
        if onto is OntoExisting.REFUSE and there is not None and not made:
            raise problem(Code.ALREADY_EXISTS, f"{target} already exists")
        return await rename_for_real(self, at, target, epoch, onto)

    patch.setattr(handlers._TreeHandler, "_in_the_way", in_the_way)
    patch.setattr(TreeOperations, "rename", rename)


def cuts_keep_blobs(patch: Patch) -> None:
    """A blob goes with the entry that named it last, whatever a snapshot shows."""
    real = tree_change.unnamed

    def unnamed(view: View, store: str, changed: dict[str, TreePath], replaced: dict[str, TreePath]) -> tuple[str, ...]:
        dead = (
            entry.blob
            for record in changed.values()
            for entry in record.entries
            if entry.deleted_revision and not entry.shared
        )
        return (*real(view, store, changed, replaced), *(blob for blob in dead if blob))

    patch.setattr(tree_change, "unnamed", unnamed)
    patch.setattr(maintenance, "unnamed", unnamed)


def cuts_keep_entries(patch: Patch) -> None:
    """An entry is dropped when it ends, whatever a snapshot shows."""
    patch.setattr(tree_change, "is_shown", lambda *_: False)
    patch.setattr(maintenance, "is_shown", lambda *_: False)


def tombstones_over_manifests(patch: Patch) -> None:
    """Of a path where nothing is any more no record is kept, although a manifest has a row of it."""

    def is_kept(view: View, tree: Tree, path: str) -> bool:
        del view, path
        return bool(tree.compacting)

    patch.setattr(tree_change, "is_kept", is_kept)
    patch.setattr(maintenance, "is_kept", is_kept)


def nothing_goes_while_compacting(patch: Patch) -> None:
    """Records of paths go while a manifest is made of them."""

    def is_kept(view: View, tree: Tree, path: str) -> bool:
        return view.compacted(tree.name, path) is not None

    patch.setattr(tree_change, "is_kept", is_kept)
    patch.setattr(maintenance, "is_kept", is_kept)


def only_the_same_is_dropped(patch: Patch) -> None:
    """Records that were to be compacted are dropped, whatever became of them since."""
    patch.setattr(maintenance, "_spans", lambda _record: ())


def newest_put_stands(patch: Patch) -> None:
    """A file is published by every attempt that comes in, also by one that a newer attempt has overtaken."""
    patch.setattr(Attempts, "check_newest", lambda *_: None)
    patch.setattr(Attempts, "applied", lambda *_: None)
