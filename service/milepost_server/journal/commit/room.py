"""Limit the size of the journal, and refuse requests that make the journal larger while the pointer store is full.

Requests that remove, release or end something must always be possible, since only they make room again. To send them, a
client needs a session, and often an epoch. So the last parts of the room are reserved for these requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import PointerStore
from milepost_server.journal.pending import Decide
from milepost_server.memory.view import View
from milepost_server.model.history import page_of
from milepost_server.model.records import Corrupt, Session, encode
from milepost_server.model.requests.base import Request
from milepost_server.model.requests.handles import Add, Campaign, CreateUpload, LockAll, LockHandle, PlaceJob, Replace
from milepost_server.model.requests.history import RestoreHistory
from milepost_server.model.requests.moves import ImportRecords
from milepost_server.model.requests.sessions import OpenSession
from milepost_server.model.requests.trees import (
    CloneTree,
    MakeDirectory,
    MakeSavepoint,
    PutFile,
    RenamePath,
    state_write_of,
)
from milepost_server.rules.decisions import Accepted, Decision, DecisionContext, Refused

GROWING: Final = (
    Add,
    Replace,
    CreateUpload,
    PutFile,
    MakeDirectory,
    RenamePath,
    CloneTree,
    MakeSavepoint,
    RestoreHistory,
    PlaceJob,
    ImportRecords,
)
"""The requests that make the journal permanently larger, and that no client needs in order to make room."""

_PARTS: Final = 32
_KEPT: Final[dict[type[Request], int]] = {
    **dict.fromkeys(GROWING, 2),
    OpenSession: 1,
    Campaign: 1,
    LockHandle: 1,
    LockAll: 1,
}
"""For each kind of request that makes the journal larger: how many of the `_PARTS` parts of the room it must leave
free.

A kind that is not listed may use all of the room.
"""
_MIB: Final = 1024 * 1024

_SESSIONS: Final = 64
"""How many sessions that were opened while the pointer store is full may live at once: a client needs a session to
remove handles.
"""
_RECORDS: Final = 1024
"""How many of these sessions may have a record, including ended sessions, whose records take room until they are
dropped.
"""


class SizeLimit:
    """The limit of ``most`` bytes on a journal; None sets no limit.

    ``taken`` is the size in bytes of all records, including the changes of groups in flight.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.taken = 0

    def growth(self, view: View, encoded: Mapping[str, bytes | None]) -> int:
        """Return by how many bytes the ``encoded`` records make the journal larger; 0 if there is no limit."""
        if self.most is None:
            return 0
        before = sum(_size(key, view) for key in encoded)
        return sum(len(key) + len(value) for key, value in encoded.items() if value is not None) - before

    def refusal(self, request: Request, growth: int, waiting: int) -> Refused | None:
        """Return the refusal of a request that may not make the journal ``growth`` bytes larger; None if it may.

        ``waiting`` is the number of bytes by which earlier requests in the same group make the journal larger.
        """
        if self.most is None or growth <= 0:
            return None
        kept = self.most * _KEPT.get(type(_growing_part(request)), 0) // _PARTS
        taken = self.taken + waiting
        if not kept or taken + growth <= self.most - kept:
            return None
        return Refused(
            Code.STORAGE_FULL,
            f"the records take {taken / _MIB:.1f} of {self.most / _MIB:.1f} MiB, and the rest is reserved for removals:"
            " remove handles or files that are not needed, or give the pointer store more room",
        )


def _size(key: str, view: View) -> int:
    record = view.get(key)
    if record is None or isinstance(record, Corrupt):
        return 0
    return len(key) + len(encode(key, record))


def grows(request: Request) -> bool:
    """Return whether the request makes the journal larger for good.

    Locks and epochs do not count, since they are small and end with their session.
    """
    return isinstance(_growing_part(request), (*GROWING, OpenSession))


def _growing_part(request: Request) -> Request:
    """Return the part of a request that may make the journal larger: of a rollback that replaces the state of a handle,
    the replace; of any other request, the whole.
    """
    return state_write_of(request) or request


class GrowthCheck:
    """Refuses requests that make the journal larger while the pointer store ``store`` is full, and enters nothing into
    the history of a job meanwhile.
    """

    def __init__(self, store: PointerStore) -> None:
        self._store = store
        self._living: dict[str, None] = {}
        self._ended: deque[str] = deque()

    def deciding(self, decide: Decide) -> Decide:
        """Return a function that decides as ``decide`` does, but refuses growing requests while the pointer store is
        full.
        """

        def decided(view: View, request: Request, context: DecisionContext) -> Decision:
            decision = decide(view, request, context)
            if not isinstance(decision, Accepted) or not decision.changes:
                return decision
            if (why := self._store.full) is None:
                if self._living or self._ended:
                    self._living.clear()
                    self._ended.clear()
                return decision
            seen = view.fresh()
            if not grows(request) or (isinstance(request, OpenSession) and self._admits(seen, request.session)):
                return _without_history(decision)
            return Refused(Code.STORAGE_FULL, why, depends=max(decision.depends, seen.depends))

        return decided

    def _admits(self, view: View, session: str) -> bool:
        """Return whether the session may be opened although the pointer store is full; if so, count it, since only a
        few may be. A renewal is always allowed, since it takes no more room.
        """
        if _lives(view, session):
            return True
        self._forget(view)
        if len(self._living) >= _SESSIONS or len(self._living) + len(self._ended) >= _RECORDS:
            return False
        self._living[session] = None
        return True

    def _forget(self, view: View) -> None:
        """Update the counts of sessions opened while the pointer store is full: an ended session no longer counts as
        alive, and a session without a record no longer counts at all.
        """
        if len(self._living) >= _SESSIONS:
            over = [session for session in self._living if not _lives(view, session)]
            self._ended.extend(session for session in over if view.session(session) is not None)
            for session in over:
                del self._living[session]
        while self._ended and (view.session(self._ended[0]) is None or _lives(view, self._ended[0])):
            self._ended.popleft()


def _without_history(decision: Accepted) -> Accepted:
    """Return the decision without its entries of the history, which take room: while the pointer store is full, what
    frees room must not need any.
    """
    return replace(decision, changes={key: each for key, each in decision.changes.items() if page_of(key) is None})


def _lives(view: View, session: str) -> bool:
    record = view.session(session)
    return isinstance(record, Session) and not record.ended
