"""Operations on the epoch of a store."""

from __future__ import annotations

from milepost.errors import EpochHeld
from service.journal.claims import MaySubmit
from service.leader import Replica
from service.operations.calls import Caller, Reply, attempted, perform
from service.operations.records import store_in
from service.rules.answers import epoch_body
from service.rules.decisions import Answer
from service.rules.requests import Campaign, Resign


async def campaign(replica: Replica, caller: Caller, store: str, wait: float) -> Reply:
    """Ask for the epoch, for ``wait`` seconds at most while another holds it."""
    end = replica.clock() + wait
    request = Campaign(caller.session, caller.key, caller.attempt, store)

    async def act(may_submit: MaySubmit) -> Reply:
        while True:
            try:
                return await perform(replica, request, may_submit)
            except EpochHeld:
                left = end - replica.clock()
                if left <= 0:
                    raise
                await replica.changes.wait(min(left, 1.0))

    return await attempted(replica, caller, store, act)


async def resign(replica: Replica, caller: Caller, store: str) -> Reply:
    """Give the epoch back."""
    return await perform(replica, Resign(caller.session, caller.key, caller.attempt, store))


def current(replica: Replica, store: str) -> Reply:
    """The epoch as it stands; 0 where there never was one. Raises a ``corrupt`` problem where it cannot be told."""
    reading = replica.journal.read()
    body = epoch_body(reading.view, store_in(reading.view, store))
    return Reply(Answer(body), reading.revision, reading.term)
