"""The definite errors of a coordination store: the group did not land and never will.

They are named as ZooKeeper names them, so that the scenarios can be ticked off; what matters to the service is the
reason that a backend translates them to, and whether the burnt term can be taken over again. Only a real ZooKeeper
raises them by itself: that its backend translates each of them is a test of that backend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import NamedTuple

from backends.contract import Refusal, StorageUnavailable
from milepost.wire import Code
from tests.contracts.state_handle_store.doors.services import FragileService
from tests.support.network.faults import refuse


class Aftermath(Enum):
    """What the service meets after the refusal."""

    GOES_ON = "it goes on at once, from memory"
    AWAY = "the store stays away"
    DEPOSED = "another process has taken the journal over"


class DefiniteError(NamedTuple):
    """One kind, the reason that stands for it, what comes after it, and how it is answered."""

    kind: str
    reason: Refusal
    aftermath: Aftermath
    code: Code


OF_ADD = (
    DefiniteError("bad arguments", Refusal.FAILED, Aftermath.GOES_ON, Code.STORAGE_UNAVAILABLE),
    DefiniteError("no node", Refusal.HEAD_MOVED, Aftermath.DEPOSED, Code.NO_LEADER),
    DefiniteError("no permission", Refusal.DENIED, Aftermath.GOES_ON, Code.STORAGE_UNAVAILABLE),
    DefiniteError("bad version", Refusal.HEAD_MOVED, Aftermath.DEPOSED, Code.NO_LEADER),
    DefiniteError("authentication failed", Refusal.DENIED, Aftermath.AWAY, Code.STORAGE_UNAVAILABLE),
    DefiniteError("invalid ACL", Refusal.DENIED, Aftermath.GOES_ON, Code.STORAGE_UNAVAILABLE),
    DefiniteError("session moved", Refusal.FAILED, Aftermath.AWAY, Code.STORAGE_UNAVAILABLE),
    DefiniteError("read-only", Refusal.DENIED, Aftermath.AWAY, Code.STORAGE_UNAVAILABLE),
)
OF_REPLACE = (
    *OF_ADD,
    DefiniteError("node exists", Refusal.FAILED, Aftermath.GOES_ON, Code.STORAGE_UNAVAILABLE),
)
OF_MILEPOST = (
    DefiniteError("store full", Refusal.FULL, Aftermath.AWAY, Code.STORAGE_FULL),
    DefiniteError("group too large", Refusal.TOO_LARGE, Aftermath.GOES_ON, Code.TOO_LARGE),
)


@asynccontextmanager
async def met(error: DefiniteError, fragile: FragileService) -> AsyncIterator[None]:
    """The next commit fails so. After the block the store is well again, and the service leads.

    It leads on under the same term, unless another process took the journal over: nothing was written.
    """
    if error.aftermath is Aftermath.DEPOSED:
        fragile.rig.pointers.disturb(fragile.depose())
    else:
        fragile.rig.pointers.disturb(refuse(error.reason, error.kind))
    if error.aftermath is Aftermath.AWAY:
        fragile.rig.pointers.take_overs.from_now_on(StorageUnavailable(error.kind))
    term = fragile.rig.replica.journal.term
    yield
    fragile.rig.pointers.take_overs.heal()
    if error.aftermath is Aftermath.DEPOSED:
        await fragile.leads_above(term)
    else:
        assert (fragile.rig.replica.leads, fragile.rig.replica.journal.term) == (True, term)
