"""Operations on the epoch of a store."""

from __future__ import annotations

import asyncio

from milepost.errors import EpochHeld
from milepost.wire import Code
from service.campaigns import CampaignPlace
from service.journal.claims import MaySubmit
from service.leader import Replica
from service.operations.calls import Caller, Reply, attempted, perform
from service.operations.records import store_in
from service.problems import problem
from service.rules.answers import epoch_body, epoch_holder
from service.rules.decisions import Answer
from service.rules.records import Session
from service.rules.requests import Campaign, Resign

_LOOK_SECONDS = 5.0
"""Who waits looks so often by himself, should nobody call."""


async def campaign(
    replica: Replica, caller: Caller, store: str, wait: float, gone: asyncio.Future[None] | None = None
) -> Reply:
    """Ask for the epoch, for ``wait`` seconds at most while another holds it. ``gone`` ends when the caller hung up.

    Whoever waits is granted the epoch in its turn only, not once he is known to be gone, and only while his session
    was renewed within the last half of its TTL: the client counts from when it sent that renewal, so that it trusts the
    session still, unless the renewal was on its way for the other half.
    """
    end = replica.clock() + wait
    request = Campaign(caller.session, caller.key, caller.attempt, store)

    async def act(may_submit: MaySubmit) -> Reply:
        try:
            return await perform(replica, request, may_submit)
        except EpochHeld as error:
            held = error
        if wait <= 0:
            raise held
        with replica.campaigns.place(store, caller.session) as place:
            if gone is not None:
                gone.add_done_callback(lambda _: place.wake())
            while await _called(replica, place, end, gone):
                try:
                    return await perform(replica, request, may_submit)
                except EpochHeld as error:
                    held = error
            raise _still_held(place, held)

    return await attempted(replica, caller, store, act)


async def _called(replica: Replica, place: CampaignPlace, end: float, gone: asyncio.Future[None] | None) -> bool:
    """Whether it is time to ask again: the epoch is free, or the session has ended, which the rules tell him. Not when
    the time is over, nor when the caller is gone.
    """
    while (left := end - replica.clock()) > 0 and not (gone is not None and gone.done()):
        view = replica.journal.read().view
        session = view.session(place.session)
        if not isinstance(session, Session) or session.ended:
            asked, place.asked_at_end = place.asked_at_end, True
            return not asked
        holder = epoch_holder(view, store_in(view, place.line.store))
        replica.campaigns.held(place.line, holder.id if holder else "")
        if holder is None or holder.id == session.id:
            if replica.leases.was_renewed_lately(session.id):
                return True
            replica.campaigns.pass_over(place)
        place.called = False
        await place.wait(min(left, _LOOK_SECONDS))
    return False


def _still_held(place: CampaignPlace, held: EpochHeld) -> EpochHeld:
    """By somebody else as a rule; else the answer says why who waited did not get it."""
    if place.line.holder:
        return held
    detail = f"the epoch is free, but session {place.session!r} was not renewed lately, so it is not granted unasked"
    told = problem(Code.HELD, detail, extras=held.extras)
    assert isinstance(told, EpochHeld)
    return told


async def resign(replica: Replica, caller: Caller, store: str) -> Reply:
    """Give the epoch back."""
    return await perform(replica, Resign(caller.session, caller.key, caller.attempt, store))


def current(replica: Replica, store: str) -> Reply:
    """The epoch as it stands; 0 where there never was one. Raises a ``corrupt`` problem where it cannot be told."""
    reading = replica.journal.read()
    body = epoch_body(reading.view, store_in(reading.view, store))
    return Reply(Answer(body), reading.revision, reading.term)
