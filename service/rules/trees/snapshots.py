"""Keep what a tree was: pin a cut under a name, go back to a cut, and let another tree begin with it."""

from __future__ import annotations

from msgspec.structs import replace

from milepost.wire import Code
from service.rules import guards, replays
from service.rules.decisions import Accepted, Answer, Decision, DecisionContext, Refused
from service.rules.memory.view import View
from service.rules.records import Corrupt, Store, tree_key
from service.rules.requests import CloneTree, PinCut, RollBack, TreeRequest, Unpin
from service.rules.stored.paths import parent_of
from service.rules.stored.trees import MOST_CUTS, MOST_PINS, MOST_ROLLBACKS, Cut, Entry, Pin, Rollback, Tree, TreePath
from service.rules.trees.visibility import TooManyTombstones, visible, visible_at, visible_below


def decide(
    view: View, store: Store, request: PinCut | Unpin | RollBack | CloneTree, context: DecisionContext
) -> Decision:
    """Return what happens if the request is applied on top of ``view``."""
    record = view.tree(store.name)
    if isinstance(record, Corrupt):
        return Refused(Code.CORRUPT, f"the record of the tree of {store.name!r} is damaged: {record.reason}")
    if isinstance(request, TreeRequest) and (
        fenced := guards.epoch_is_current(store, request.epoch, context.epoch_floor)
    ):
        return fenced
    tree = record or Tree(store.name)
    match request:
        case PinCut():
            return _pin(store, tree, request, context)
        case Unpin():
            return _unpin(store, tree, request, context)
        case RollBack():
            return _roll_back(view, store, tree, request, context)
        case CloneTree():
            return _clone(view, store, tree, request, context)


def _pin(store: Store, tree: Tree, request: PinCut, context: DecisionContext) -> Decision:
    """Pin the cut at a revision, or the newest; a name that pins the same cut already is no error.

    What is pinned already may get another name.
    """
    pinned = [pin for pin in tree.pins if pin.revision == request.revision]
    passed_over = [cut for cut in tree.passed_over if cut.revision == request.revision]
    cuts: list[Cut | Pin] = [
        *pinned,
        *(cut for cut in tree.cuts if request.revision in (0, cut.revision)),
        *passed_over,
    ]
    if not cuts:
        detail = f"at revision {request.revision}" if request.revision else "yet"
        return Refused(Code.NOT_EXIST, f"the tree of {store.name!r} has no cut {detail}")
    cut = max(cuts, key=lambda each: each.revision)
    pin = Pin(request.pin, cut.directory, cut.batch, cut.revision)
    if any(each.name == pin.name for each in tree.pins):
        if pin in tree.pins:
            return Accepted(Answer({"revision": pin.revision}))
        return Refused(Code.ALREADY_EXISTS, f"{request.pin!r} pins another cut of {store.name!r}")
    if len(tree.pins) >= MOST_PINS:
        return Refused(Code.TOO_MANY_REQUESTS, f"{len(tree.pins)} cuts of {store.name!r} are pinned, which is the most")
    answer = Answer({"revision": pin.revision}, created=True)
    return _kept(store, replace(tree, pins=(*tree.pins, pin)), request, context, answer)


def _unpin(store: Store, tree: Tree, request: Unpin, context: DecisionContext) -> Decision:
    pins = tuple(pin for pin in tree.pins if pin.name != request.pin)
    if pins == tree.pins:
        return Refused(Code.NOT_EXIST, f"nothing is pinned as {request.pin!r} in the tree of {store.name!r}")
    return _kept(
        store, replace(tree, pins=pins, stale=bool(tree.manifests or tree.compacting)), request, context, Answer()
    )


def _roll_back(view: View, store: Store, tree: Tree, request: RollBack, context: DecisionContext) -> Decision:
    """Let the tree be what it was. Pins stay, and no manifest that is being made is used.

    Cuts that came later are passed over, and so is what is there now, which becomes a snapshot of its own: nothing of
    it is dropped before the query has made as many new cuts as are kept. What is to be kept must be there, and have a
    directory to be in.
    """
    if request.revision not in tree.kept:
        return Refused(Code.NOT_EXIST, f"the tree of {store.name!r} has no cut and no pin at {request.revision}")
    if tree.range_tombstones or len(tree.rollbacks) >= MOST_ROLLBACKS:
        damaged = view.damaged_path(store.name)
        why = "is still being cleared away; try again later"
        if damaged is not None:
            why = f"is kept in mind for the damaged record {damaged}: put it back"
        detail = f"what was deleted or rolled back before {why}"
        return Refused(Code.TOO_MANY_REQUESTS, detail, until_trimmed=damaged is None)
    for path in request.keep:
        parent = parent_of(path)
        record = view.path(store.name, parent)
        directory = visible_at(record, request.revision, store, tree) if isinstance(record, TreePath) else None
        if not isinstance(visible(view, store, tree, path), Entry) or (
            parent and not (directory and directory.directory)
        ):
            return Refused(
                Code.NOT_EXIST, f"{path!r} cannot be kept: it is not there, or had no directory at {request.revision}"
            )
    rollback = Rollback(request.revision, context.revision, request.keep)
    cuts = tuple(cut for cut in tree.cuts if cut.revision <= request.revision)
    later = tuple(cut for cut in tree.cuts if cut.revision > request.revision)
    back = replace(
        tree,
        rollbacks=(*tree.rollbacks, rollback),
        cuts=cuts,
        passed_over=(*tree.passed_over, *later, *_as_it_is(tree, context.revision - 1))[-MOST_CUTS:],
        compacting=0,
    )
    return _kept(store, back, request, context, Answer({"revision": request.revision}))


def _as_it_is(tree: Tree, revision: int) -> tuple[Cut, ...]:
    """Return a snapshot of what is there at a revision, under the last batch before it; none where a cut shows it.

    A pin does not count, which may be dropped.
    """
    if any(cut.revision == revision for cut in (*tree.cuts, *tree.passed_over)):
        return ()
    kept: tuple[Cut | Pin, ...] = (*tree.cuts, *tree.pins, *tree.passed_over)
    last = max(kept, key=lambda each: each.revision)
    return (Cut(last.directory, last.batch, revision),)


def _clone(view: View, store: Store, tree: Tree, request: CloneTree, context: DecisionContext) -> Decision:
    """Let the tree begin with the files that a manifest names. They were all born before, and make a cut now."""
    path = next((record.path for record in view.paths(store.name, "")), None)
    if path is not None or tree.manifests or tree.kept or tree.range_tombstones or tree.rollbacks:
        there = f": it has {path!r}" if path is not None else ", or was not a short while ago"
        detail = f"the tree of {store.name!r} is not empty{there}; a clone begins one"
        return Refused(Code.NOT_EMPTY, detail, until_trimmed=_is_dead(view, store, tree))
    begun = replace(
        tree,
        manifests=() if request.manifest is None else (request.manifest,),
        cuts=() if request.cut is None else (replace(request.cut, revision=context.revision),),
    )
    answer = Answer({"files": request.files, "bytes": request.bytes}, created=True)
    return _kept(store, begun, request, context, answer)


def _is_dead(view: View, store: Store, tree: Tree) -> bool:
    """Return whether all that there is in a tree is dead and can be dropped: no cut, pin or manifest has it."""
    if tree.manifests or tree.kept or view.damaged_path(store.name) is not None:
        return False
    try:
        return next(visible_below(view, store, tree, ""), None) is None
    except TooManyTombstones:
        return True


def _kept(
    store: Store, tree: Tree, request: PinCut | Unpin | RollBack | CloneTree, context: DecisionContext, answer: Answer
) -> Accepted:
    return Accepted(answer, {tree_key(store.name): replays.remember(tree, request, context, answer)})
