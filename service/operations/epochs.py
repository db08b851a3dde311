"""Operations on the epoch of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from milepost.errors import EpochHeld
from milepost.wire import Code
from service.basics.problems import problem
from service.journal import Journal
from service.journal.retries import MaySubmit
from service.operations.records import store_in
from service.replica.campaigns import CampaignPlace, Campaigns
from service.replica.leases import Leases
from service.replica.submitter import Caller, Reply, Submitter
from service.rules.answers import epoch_body, epoch_holder
from service.rules.decisions import Answer
from service.rules.records import Session
from service.rules.requests import Campaign, Resign

_LOOK_SECONDS = 5.0
"""A waiting caller looks this often by itself, should nobody call it."""


class EpochOperations:
    """Asking for the epoch of a store, giving it back, and reading it."""

    def __init__(
        self,
        journal: Journal,
        campaigns: Campaigns,
        leases: Leases,
        submitter: Submitter,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._campaigns = campaigns
        self._leases = leases
        self._submitter = submitter
        self._clock = clock

    async def campaign(
        self, caller: Caller, store: str, wait: float, gone: asyncio.Future[None] | None = None
    ) -> Reply:
        """Ask for the epoch, for ``wait`` seconds at most while another session holds it. ``gone`` ends when the
        caller hung up.

        A waiting caller is granted the epoch in its turn only, not once it is known to be gone, and only while its
        session was renewed within the last half of its TTL: the client counts from when it sent that renewal, so it
        trusts the session still, unless the renewal was on its way for the other half.
        """
        end = self._clock() + wait
        request = Campaign(caller.attempt, store)

        async def act(may_submit: MaySubmit) -> Reply:
            try:
                return await self._submitter.perform(request, may_submit)
            except EpochHeld as error:
                held = error
            if wait <= 0:
                raise held
            with self._campaigns.place(store, caller.session) as place:
                if gone is not None:
                    gone.add_done_callback(lambda _: place.wake())
                while await self._called(place, end, gone):
                    try:
                        return await self._submitter.perform(request, may_submit)
                    except EpochHeld as error:
                        held = error
                raise _still_held(place, held)

        return await self._submitter.attempted(caller, store, act)

    async def resign(self, caller: Caller, store: str) -> Reply:
        """Give the epoch back."""
        return await self._submitter.perform(Resign(caller.attempt, store))

    def current(self, store: str) -> Reply:
        """The epoch as it stands; 0 where there never was one. Raises a ``corrupt`` problem where it cannot be read."""
        reading = self._journal.read()
        body = epoch_body(reading.view, store_in(reading.view, store))
        return Reply(Answer(body), reading.revision, reading.term)

    async def _called(self, place: CampaignPlace, end: float, gone: asyncio.Future[None] | None) -> bool:
        """Whether it is time to ask again: the epoch is free, or the session has ended, which the rules answer. Not
        when the time is over, nor when the caller is gone.
        """
        while (left := end - self._clock()) > 0 and not (gone is not None and gone.done()):
            view = self._journal.read().view
            session = view.session(place.session)
            if not isinstance(session, Session) or session.ended:
                asked, place.asked_at_end = place.asked_at_end, True
                return not asked
            holder = epoch_holder(view, store_in(view, place.line.store))
            self._campaigns.held(place.line, holder.id if holder else "")
            if holder is None or holder.id == session.id:
                if self._leases.was_renewed_lately(session.id):
                    return True
                self._campaigns.pass_over(place)
            place.called = False
            await place.wait(min(left, _LOOK_SECONDS))
        return False


def _still_held(place: CampaignPlace, held: EpochHeld) -> EpochHeld:
    """As a rule another session holds the epoch; where it is free, say why the waiting caller did not get it."""
    if place.line.holder:
        return held
    detail = f"the epoch is free, but session {place.session!r} was not renewed lately, so it is not granted unasked"
    told = problem(Code.HELD, detail, extras=held.extras)
    assert isinstance(told, EpochHeld)
    return told
