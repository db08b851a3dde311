"""Operations on the epoch of a store, which is the fencing token of its Spark job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from milepost.errors import EpochHeld, Problem
from milepost.wire import Code, Outcome
from milepost_server.basics.problems import problem, refusal
from milepost_server.journal import Journal
from milepost_server.journal.attempts import MaySubmit
from milepost_server.model.records import Session, Store
from milepost_server.model.requests.handles import Campaign
from milepost_server.operations.handles import store_in
from milepost_server.replica.epoch_queues import BARRED, CampaignPlace, EpochQueues
from milepost_server.replica.leases import Leases
from milepost_server.replica.submitter import Caller, Reply, Submitter
from milepost_server.rules.answers import epoch_body, epoch_holder, wish_body
from milepost_server.rules.decisions import Answer
from milepost_server.rules.guards import session_is_callers, session_lives

_LOOK_SECONDS = 5.0
"""The most seconds until a waiting caller checks the epoch again, even if nothing wakes it."""


class EpochOperations:
    """The operations that request the epoch of a store, resign it, and read it."""

    def __init__(
        self,
        journal: Journal,
        epoch_queues: EpochQueues,
        leases: Leases,
        submitter: Submitter,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._epoch_queues = epoch_queues
        self._leases = leases
        self._submitter = submitter
        self._clock = clock

    async def campaign(
        self,
        caller: Caller,
        store: str,
        wait: float,
        gone: asyncio.Future[None] | None = None,
        *,
        if_stopped: bool = False,
    ) -> Reply:
        """Request the epoch, and wait ``wait`` seconds at most while another session holds it, or while a person has
        stopped the job and ``if_stopped`` is false. A caller that waits when the job is stopped is told at once.

        ``gone`` ends when the caller has closed its connection. A waiting caller is granted the epoch only in its turn,
        not after it is known to be gone, and only if its session was renewed less than half of its TTL ago. This shows
        that the client still trusts its session: the client counts the TTL from when it sent the renewal, so half of
        the TTL is left for delays on the way.
        """
        end = self._clock() + wait
        request = Campaign(caller.attempt, store, if_stopped)

        async def attempt(may_submit: MaySubmit) -> Reply:
            try:
                self._check_reserved(store, caller.session)
                return await self._submitter.perform(request, may_submit)
            except EpochHeld as error:
                held = error
            if wait <= 0:
                raise held
            with self._epoch_queues.place(store, caller.session, if_stopped=if_stopped) as place:
                place.knows_of_stop = "stopped" in held.extras
                if gone is not None:
                    gone.add_done_callback(lambda _: place.wake())
                while await self._may_ask_again(place, end, gone):
                    try:
                        return await self._submitter.perform(request, may_submit)
                    except EpochHeld as error:
                        held = error
                    if "stopped" in held.extras and not place.knows_of_stop:
                        raise held
                raise _still_held(place, held)

        return await self._submitter.deduplicated(caller, store, attempt)

    def held(self, caller: Caller, store: str) -> Reply:
        """Return the current epoch if the caller's session holds it.

        Raises a ``fenced`` problem if the session does not hold it, and ``session-unknown`` or ``session-expired`` if
        the session does not live. For a retry, the problem's outcome is unknown rather than not applied: the session
        may have held the epoch at the first attempt.
        """
        try:
            return self._held(caller, store)
        except Problem as error:
            if caller.attempt.number == 1:
                raise
            raise problem(error.code, error.detail, outcome=Outcome.UNKNOWN, extras=error.extras) from error

    def _held(self, caller: Caller, store: str) -> Reply:
        reading = self._journal.read()
        view = reading.view
        context = self._journal.context(reading.revision)
        foreign = session_is_callers(view, caller.attempt, context)
        if refused := foreign or session_lives(view, caller.session, context):
            raise refusal(refused)
        record = store_in(view, store)
        holder = epoch_holder(view, record)
        if holder is None or holder.id != caller.session:
            detail = f"session {caller.session!r} does not hold the epoch of {store!r}"
            raise problem(Code.FENCED, detail, extras={"current": record.epoch})
        return Reply(Answer(epoch_body(view, record)), reading.revision, reading.term)

    def current(self, store: str) -> Reply:
        """Return the current epoch of a store, 0 if there never was one, and the wish about its driver.

        Raises a ``corrupt`` problem if the store's record cannot be read.
        """
        reading = self._journal.read()
        record = store_in(reading.view, store)
        body = {**epoch_body(reading.view, record), "wish": wish_body(reading.view, record)}
        return Reply(Answer(body), reading.revision, reading.term)

    def _check_reserved(self, store: str, session: str) -> None:
        """Raise `EpochHeld` if the epoch is free, and a person has handed it over to another session."""
        view = self._journal.read().view
        record = view.store(store)
        if not isinstance(record, Store) or epoch_holder(view, record) is not None:
            return
        if self._epoch_queues.must_wait(record, session, self._clock()):
            detail = f"epoch {record.epoch} of {store!r} has ended, and the next is handed over to another session"
            raise problem(Code.HELD, detail, extras={"holder": None, "epoch": record.epoch})

    async def _may_ask_again(self, place: CampaignPlace, end: float, gone: asyncio.Future[None] | None) -> bool:
        """Wait until the caller should request the epoch again, and return True.

        This is when the epoch is free and it is the caller's turn, or when the rules have something to report: its
        session has ended, or a person has stopped the job. Return False if the caller's time is over, or its connection
        is closed.
        """
        while (left := end - self._clock()) > 0 and not (gone is not None and gone.done()):
            view = self._journal.read().view
            session = view.session(place.session)
            if not isinstance(session, Session) or session.ended:
                asked, place.asked_at_end = place.asked_at_end, True
                return not asked
            record = store_in(view, place.queue.store)
            holder = epoch_holder(view, record)
            barred = holder is None and record.stopped is not None
            self._epoch_queues.held(place.queue, holder.id if holder else BARRED if barred else "")
            if barred and not place.if_stopped:
                if not place.knows_of_stop:
                    return True
                self._epoch_queues.pass_over(place)
            elif holder is None or holder.id == session.id:
                reserved = 0.0 if holder else self._epoch_queues.must_wait(record, session.id, self._clock())
                if not reserved and self._leases.was_renewed_lately(session.id):
                    return True
                self._epoch_queues.pass_over(place)
                left = min(left, reserved or left)
            place.called = False
            await place.wait(min(left, _LOOK_SECONDS))
        return False


def _still_held(place: CampaignPlace, held: EpochHeld) -> EpochHeld:
    """Return the error for a caller that has waited without being granted the epoch. If no session holds the epoch any
    more, the error says that the caller's own session was not renewed lately.
    """
    if place.queue.holder:
        return held
    detail = f"the epoch is free, but session {place.session!r} was not renewed lately: renew it and ask again"
    error = problem(Code.HELD, detail, extras=held.extras)
    assert isinstance(error, EpochHeld)
    return error
