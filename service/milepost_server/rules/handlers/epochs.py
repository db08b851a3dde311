"""Grant and resign epochs, the fencing tokens of drivers. Only the next grant changes the number."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.rules import replays
from milepost_server.rules.answers import epoch_body, epoch_holder
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers, Refused
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import store_key
from milepost_server.rules.requests import Campaign, Resign


def campaign(view: View, request: Campaign, context: DecisionContext) -> Decision:
    """Grant the next epoch if nobody holds the current one.

    The holder gets the same answer again, unless its epoch is from before a restore: nothing may be written under that.
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
    granted = replace(
        store,
        epoch=max(store.epoch, context.epoch_floor) + 1,
        epoch_session=session.id,
        epoch_session_created=session.created_revision,
        epoch_since=context.wall,
        granted=context.revision,
    )
    answer = Answer(epoch_body(view, granted), created=True)
    kept = replays.remember(granted, request, context, answer)
    return Accepted(answer, {store_key(store.name): kept})


def resign(view: View, request: Resign, context: DecisionContext) -> Decision:
    """Give the epoch back; its number stays current until the next is granted."""
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
    answer = Answer()
    resigned = replace(store, epoch_session=None, epoch_session_created=0, epoch_since=None)
    return Accepted(answer, {store_key(store.name): replays.remember(resigned, request, context, answer)})


HANDLERS: Final[Handlers] = {
    Campaign: campaign,
    Resign: resign,
}
