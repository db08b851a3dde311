"""The definite errors of a coordination store: the group was not committed and never will be.

They are named as ZooKeeper names them, so that the scenarios can be ticked off; what matters to the service is the
reason that a backend translates them to, and whether the abandoned term can be taken over again. Only a real ZooKeeper
raises them by itself: that its backend translates each of them is a test of that backend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import NamedTuple

from milepost.wire import Code
from milepost_backends.contract import Refusal, StorageUnavailable
from tests.contracts.state_handle_store.frontends.services import FragileService
from tests.support.network.faults import refuse


class Aftermath(Enum):
    """What the service meets after the refusal."""

    GOES_ON = "it goes on at once, from memory"
    AWAY = "the store stays away"
    DEPOSED = "another process has taken the journal over"


class DefiniteError(NamedTuple):
    """Kinds that come to the same, the reason that stands for them, what comes after it, and how it is answered."""

    kinds: tuple[str, ...]
    reason: Refusal
    aftermath: Aftermath
    code: Code


_OF_ADD = (
    DefiniteError(("bad arguments",), Refusal.FAILED, Aftermath.GOES_ON, Code.STORAGE_UNAVAILABLE),
    DefiniteError(("no node", "bad version"), Refusal.HEAD_MOVED, Aftermath.DEPOSED, Code.NO_LEADER),
    DefiniteError(("no permission", "invalid ACL"), Refusal.DENIED, Aftermath.GOES_ON, Code.STORAGE_UNAVAILABLE),
    DefiniteError(("authentication failed", "read-only"), Refusal.DENIED, Aftermath.AWAY, Code.STORAGE_UNAVAILABLE),
    DefiniteError(("session moved",), Refusal.FAILED, Aftermath.AWAY, Code.STORAGE_UNAVAILABLE),
)
_OF_MILEPOST = (
    DefiniteError(("store full",), Refusal.FULL, Aftermath.AWAY, Code.STORAGE_FULL),
    DefiniteError(("group too large",), Refusal.TOO_LARGE, Aftermath.GOES_ON, Code.TOO_LARGE),
)
OF_ADD = (*_OF_ADD, *_OF_MILEPOST)
OF_REPLACE = (_OF_ADD[0]._replace(kinds=("bad arguments", "node exists")), *_OF_ADD[1:], *_OF_MILEPOST)


def kinds_of(errors: Sequence[DefiniteError]) -> set[str]:
    """The kinds that ZooKeeper has of them."""
    return {kind for error in errors if error not in _OF_MILEPOST for kind in error.kinds}


@asynccontextmanager
async def met(error: DefiniteError, fragile: FragileService) -> AsyncIterator[None]:
    """The next commit fails so. After the block the store is well again, and the service leads.

    It leads on under the same term, unless another process took the journal over: nothing was written.
    """
    kind = error.kinds[0]
    if error.aftermath is Aftermath.DEPOSED:
        fragile.rig.pointers.disturb(fragile.depose())
    else:
        fragile.rig.pointers.disturb(refuse(error.reason, kind))
    if error.aftermath is Aftermath.AWAY:
        fragile.rig.pointers.take_overs.from_now_on(StorageUnavailable(kind))
    term = fragile.rig.replica.journal.term
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"the store failed with: {error.kinds}")
        raise
    fragile.rig.pointers.take_overs.heal()
    if error.aftermath is Aftermath.DEPOSED:
        await fragile.leads_above(term)
    else:
        assert (fragile.rig.replica.leads, fragile.rig.replica.journal.term) == (True, term)
