"""Decide requests about the epoch of a store: grant and resign it, and the wishes of people that its driver stops,
hands over, or starts again.

The epoch of a store is the fencing token of its driver. Only the next grant changes the number.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.history import (
    HAND_OVER_REQUESTED,
    HANDED_OVER,
    RESIGNED,
    SAVEPOINT_MADE,
    STARTED,
    STOP_REQUESTED,
    STOPPED,
    HistoryEntry,
)
from milepost_server.model.records import Corrupt, Store, tree_key
from milepost_server.model.requests.handles import Campaign, Resign
from milepost_server.model.requests.wishes import HandOver, StartJob, StopJob, WishRequest
from milepost_server.model.trees import Savepoint, Tree
from milepost_server.model.wishes import HAND_OVER, STOP, Wish
from milepost_server.rules import history, replays
from milepost_server.rules.answers import epoch_body, epoch_holder, job_body, wish_body
from milepost_server.rules.decisions import Accepted, Answer, Changes, Decision, DecisionContext, Handlers, Refused
from milepost_server.rules.trees.snapshots import about_savepoint, savepoint_in


def campaign(view: View, request: Campaign, context: DecisionContext) -> Decision:
    """Grant the next epoch if no session holds the current one, and no person has stopped the job.

    The holder gets the same answer again, unless its epoch was granted before a restore from a backup, since no write
    may use such an epoch.
    """
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    holder = epoch_holder(view, store)
    if holder is not None and not (holder.id == session.id and store.epoch <= context.epoch_floor):
        if holder.id == session.id:
            return Accepted(Answer(epoch_body(view, store)))
        return Refused(
            Code.HELD,
            f"session {holder.id!r} ({holder.holder}) holds epoch {store.epoch}",
            {"holder": holder.holder, "epoch": store.epoch},
        )
    if store.stopped is not None and not request.if_stopped:
        by = f"{store.stopped.person} at {store.stopped.at}"
        return Refused(
            Code.HELD,
            f"{store.name!r} was stopped by {by}, until milepost jobs start {store.name}",
            {"holder": None, "epoch": store.epoch, "stopped": wish_body(view, store)},
        )
    granted = store.moving(
        None,  # the session of a move that did not end has lost the epoch, and so the job is frozen no more
        epoch=max(store.epoch, context.epoch_floor) + 1,
        epoch_session=session.id,
        epoch_session_created=session.created_revision,
        epoch_since=context.wall,
        granted=context.revision,
        wish=store.stopped,
    )
    entered = history.epoch_granted(view, granted, session, context)
    return replays.accepted(granted, request, context, Answer(epoch_body(view, granted), created=True), changes=entered)


def resign(view: View, request: Resign, context: DecisionContext) -> Decision:
    """Resign the epoch; its number stays current until the next epoch is granted.

    If the driver was asked to stop with a savepoint, the same commit makes it, of the newest snapshot. What prevents a
    savepoint does not prevent the resignation: the client that asked for it repeats its wish, and gets the refusal.
    """
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    holder = epoch_holder(view, store)
    if holder is None:
        return Accepted(Answer())
    if holder.id != session.id:
        return Refused(
            Code.FENCED,
            f"epoch {store.epoch} of {store.name!r} is held by another session",
            {"current": store.epoch, "holder": holder.holder},
        )
    wish = store.wish if store.wish is not None and store.wish.epoch == store.epoch else None
    how = RESIGNED if wish is None else STOPPED if wish.stops else HANDED_OVER
    made = None if wish is None or not wish.savepoint else _savepoint(view, store, wish.savepoint)
    changes: Changes = {}
    also: list[HistoryEntry] = []
    if wish is not None and isinstance(made, tuple):
        tree, savepoint = made
        if savepoint not in tree.savepoints:
            changes = _with_savepoint(tree, savepoint)
            about = {**about_savepoint(savepoint), "holder": wish.who, "by": wish.by}
            also.append(HistoryEntry(context.wall, context.revision, SAVEPOINT_MADE, **about))
    resigned = store.moving(None, epoch_session=None, epoch_session_created=0, epoch_since=None, wish=store.stopped)
    entered = history.epoch_ended(view, store, holder, how, context, request.attempt.name, also)
    return replays.accepted(resigned, request, context, Answer(), changes={**changes, **entered})


def stop(view: View, request: StopJob, context: DecisionContext) -> Decision:
    """Ask the driver that leads to resign, and bar the next epoch. A repeated stop is answered as the first.

    If no driver leads, a savepoint is made in the same commit, else once the driver resigns.
    """
    store = view.store_or_new(request.store_name)
    if unknown := _is_no_job(view, store):
        return unknown
    held = 0 if epoch_holder(view, store) is None else store.epoch
    old = store.stopped if store.stopped is not None and held in (0, store.stopped.epoch) else None
    if old is not None and request.savepoint in ("", old.savepoint) and (held or not request.savepoint):
        return Accepted(Answer(job_body(view, store)))
    changes: Changes = {}
    made: Savepoint | None = None
    if request.savepoint:
        if held and old is not None and old.savepoint:
            detail = f"{store.name!r} is stopping already, with the savepoint {old.savepoint!r}"
            return Refused(Code.ALREADY_EXISTS, detail)
        found = _savepoint(view, store, request.savepoint)
        if isinstance(found, Refused):
            if not held or found.code is not Code.NOT_EXIST:  # a driver may still commit its first batch
                return found
        elif held and any(each.name == request.savepoint for each in found[0].savepoints):
            return Refused(Code.ALREADY_EXISTS, f"{store.name!r} has a savepoint {request.savepoint!r} already")
        elif not held:
            tree, made = found
            if made in tree.savepoints and old is not None:
                return Accepted(Answer(job_body(view, store)))
            changes = {} if made in tree.savepoints else _with_savepoint(tree, made)
    first = old or _wish(STOP, held, request, context)
    stopped = replace(store, wish=replace(first, savepoint=first.savepoint or request.savepoint))
    acts = {STOP_REQUESTED: _about(request, held, request.savepoint)}
    if changes and made is not None:
        acts[SAVEPOINT_MADE] = {**about_savepoint(made), "holder": request.who}
    entered = history.acts(view, request, acts, context)
    return replays.accepted(stopped, request, context, Answer(job_body(view, stopped)), changes={**changes, **entered})


def hand_over(view: View, request: HandOver, context: DecisionContext) -> Decision:
    """Ask the driver that leads to resign, so that a standby leads. Nothing is asked if no driver leads, if the epoch
    that shall end has ended, if the driver is asked already, or if the job is stopped, so that no standby may lead.
    """
    store = view.store_or_new(request.store_name)
    if unknown := _is_no_job(view, store):
        return unknown
    if request.ending > store.epoch:
        detail = f"epoch {request.ending} of {store.name!r} was never granted: the current one is {store.epoch}"
        return Refused(Code.FENCED, detail, {"current": store.epoch})
    if (
        epoch_holder(view, store) is None
        or request.ending not in (0, store.epoch)
        or wish_body(view, store) is not None
    ):
        return Accepted(Answer(job_body(view, store)))
    asked = replace(store, wish=_wish(HAND_OVER, store.epoch, request, context))
    entered = history.acts(view, request, {HAND_OVER_REQUESTED: _about(request, store.epoch)}, context)
    return replays.accepted(asked, request, context, Answer(job_body(view, asked)), changes=entered)


def start(view: View, request: StartJob, context: DecisionContext) -> Decision:
    """Take a wish to stop back, so that a driver is granted the next epoch. Nothing changes if there is no such wish.

    A driver that has begun to stop ends all the same.
    """
    store = view.store_or_new(request.store_name)
    if store.stopped is None and (unknown := _is_no_job(view, store)):
        return unknown
    if store.stopped is None:
        return Accepted(Answer(job_body(view, store)))
    started = replace(store, wish=None)
    entered = history.acts(view, request, {STARTED: _about(request, 0)}, context)
    return replays.accepted(started, request, context, Answer(job_body(view, started)), changes=entered)


def _is_no_job(view: View, store: Store) -> Refused | None:
    tree = view.tree(store.name)
    if store.is_dropped:
        return Refused(Code.NOT_EXIST, f"the job {store.name!r} was dropped")
    if store.epoch or isinstance(tree, Corrupt) or (tree is not None and tree.snapshots):
        return None
    return Refused(Code.NOT_EXIST, f"there is no job {store.name!r}: no driver ever led it, and it has no snapshot")


def _wish(kind: str, epoch: int, request: WishRequest, context: DecisionContext) -> Wish:
    return Wish(kind, epoch, context.wall, request.attempt.name, request.who, request.reason)


def _about(request: WishRequest, epoch: int, savepoint: str = "") -> dict[str, object]:
    """Return the members of an entry of the history about a wish."""
    return {"epoch": epoch, "holder": request.who, "reason": request.reason, "savepoint": savepoint}


def _savepoint(view: View, store: Store, name: str) -> tuple[Tree, Savepoint] | Refused:
    """Return the tree of a store, and the savepoint of its newest snapshot, which may be there already."""
    tree = view.tree(store.name)
    if isinstance(tree, Corrupt):
        return Refused(Code.CORRUPT, f"the record of the tree of {store.name!r} is damaged: {tree.reason}")
    tree = tree or Tree(store.name)
    savepoint = savepoint_in(tree, name)
    return savepoint if isinstance(savepoint, Refused) else (tree, savepoint)


def _with_savepoint(tree: Tree, savepoint: Savepoint) -> Changes:
    return {tree_key(tree.name): replace(tree, savepoints=(*tree.savepoints, savepoint))}


HANDLERS: Final[Handlers] = {
    Campaign: campaign,
    Resign: resign,
    StopJob: stop,
    HandOver: hand_over,
    StartJob: start,
}
