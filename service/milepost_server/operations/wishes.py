"""The operations by which a person stops a job, hands it over to a standby, and starts it again."""

from __future__ import annotations

import asyncio
from typing import Final

from milepost.wire import STANDBY_SECONDS, Code
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal
from milepost_server.model.records import Session
from milepost_server.model.requests.wishes import HandOver, StartJob, StopJob
from milepost_server.operations.handles import store_in
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.leases import Leases
from milepost_server.replica.submitter import Reply, Submitter
from milepost_server.rules.answers import epoch_holder, wish_body

_LOOK_SECONDS: Final = 0.1


class WishOperations:
    """The operations on the wish of a person about the driver of a job. The driver that leads learns of it by the
    events of its store.
    """

    def __init__(self, journal: Journal, epoch_queues: EpochQueues, leases: Leases, submitter: Submitter) -> None:
        self._journal = journal
        self._epoch_queues = epoch_queues
        self._leases = leases
        self._submitter = submitter

    async def stop(self, request: StopJob) -> Reply:
        """Ask the driver to resign, and grant no further epoch. Raises the problems of `Submitter.perform`."""
        return await self._submitter.perform(request)

    async def start(self, request: StartJob) -> Reply:
        """Grant epochs of a stopped job again. Raises the problems of `Submitter.perform`."""
        return await self._submitter.perform(request)

    async def hand_over(self, request: HandOver, *, force: bool, to: str = "") -> Reply:
        """Ask the driver to resign, so that a standby leads: the one with the holder or the session ``to``, if it asks
        for the epoch soon after that is free; any other else.

        Raises a ``not-exist`` problem if a driver leads and none stands by that could take the epoch, unless ``force``,
        or if none called ``to`` does; and the problems of `Submitter.perform`.
        """
        job = request.store_name
        if to and self._is_led(job) and self._epoch_of(job) == request.ending:  # else nothing is asked
            chosen = await self._standby_called(job, to)
            reply = await self._submitter.perform(request)
            self._epoch_queues.reserve(job, chosen, request.ending)
            return reply
        if not (force or to or self._is_asked(job)) and self._is_led(job) and not await self._stands_by(job):
            raise problem(
                Code.NOT_EXIST,
                f"no driver stands by for {job!r}, so that none would lead; with force, the next that asks does",
            )
        return await self._submitter.perform(request)

    async def _stands_by(self, job: str) -> bool:
        """Return whether a session waits for the epoch that would be granted it, since it was renewed lately: a frozen
        standby waits, too.
        """
        await self._epoch_queues.standby_comes(job, STANDBY_SECONDS)
        return any(self._leases.was_renewed_lately(each) for each in self._epoch_queues.standbys(job))

    async def _standby_called(self, job: str, name: str) -> str:
        """Return the session of the standby with this holder or id. It is waited for, since a standby asks again and
        again, and waits for nothing in between. Raises a ``not-exist`` problem if there is none.
        """
        for _ in range(round(STANDBY_SECONDS / _LOOK_SECONDS)):
            view = self._journal.read().view
            holders = {each: view.session(each) for each in self._epoch_queues.standbys(job)}
            found = {each: record.holder for each, record in holders.items() if isinstance(record, Session)}
            for session, holder in found.items():
                if name in (holder, session) and self._leases.was_renewed_lately(session):
                    return session
            await asyncio.sleep(_LOOK_SECONDS)
        others = ", ".join(repr(holder or session) for session, holder in found.items()) or "none"
        raise problem(Code.NOT_EXIST, f"no driver called {name!r} stands by for {job!r}; those that do: {others}")

    def _epoch_of(self, job: str) -> int:
        return store_in(self._journal.read().view, job).epoch

    def _is_asked(self, job: str) -> bool:
        """Return whether a person asks the driver to resign already: a repeated wish is answered as the first."""
        view = self._journal.read().view
        return wish_body(view, store_in(view, job)) is not None

    def _is_led(self, job: str) -> bool:
        view = self._journal.read().view
        store = store_in(view, job)
        return store.stopped is None and epoch_holder(view, store) is not None
