"""Refuse requests that make the journal larger while the store is full, so that removals always find room."""

from __future__ import annotations

from collections import deque
from typing import Final

from milepost.wire import Code
from milepost_backends.contract import PointerStore
from milepost_server.journal.commit.groups import Decide
from milepost_server.journal.commit.size_limit import GROWING
from milepost_server.rules.decisions import Accepted, Decision, DecisionContext, Refused
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import Session
from milepost_server.rules.requests import OpenSession, Request

_SESSIONS: Final = 64
"""How many sessions that were opened while the store is full may live at once: a client needs one to remove handles."""
_RECORDS: Final = 1024
"""How many of these sessions may have a record, ended ones included: these are dropped later, and take room until then.
"""


def grows(request: Request) -> bool:
    """Return whether the request makes the journal larger for good.

    Locks and epochs do not count: they are small, and go away as they came.
    """
    return isinstance(request, (*GROWING, OpenSession))


class GrowthCheck:
    """The check that refuses growth while ``store`` is full."""

    def __init__(self, store: PointerStore) -> None:
        self._store = store
        self._living: dict[str, None] = {}
        self._ended: deque[str] = deque()

    def deciding(self, decide: Decide) -> Decide:
        """Return a function that decides as ``decide`` does, but refuses growing requests while the store is full."""

        def decided(view: View, request: Request, context: DecisionContext) -> Decision:
            decision = decide(view, request, context)
            if not isinstance(decision, Accepted) or not decision.changes:
                return decision
            seen = view.fresh()
            if (why := self._refuses(seen, request)) is None:
                return decision
            return Refused(Code.STORAGE_FULL, why, depends=max(decision.depends, seen.depends))

        return decided

    def _refuses(self, view: View, request: Request) -> str | None:
        why = self._store.full
        if why is None:
            self._living.clear()
            self._ended.clear()
            return None
        if not grows(request) or (isinstance(request, OpenSession) and self._admits(view, request.session)):
            return None
        return why

    def _admits(self, view: View, session: str) -> bool:
        """Return whether the session may be opened; if so, count it. A renewal takes no more room, so it always may."""
        if _lives(view, session):
            return True
        self._forget(view)
        if len(self._living) >= _SESSIONS or len(self._living) + len(self._ended) >= _RECORDS:
            return False
        self._living[session] = None
        return True

    def _forget(self, view: View) -> None:
        """Free the places of sessions that have ended, and of ended ones whose record is dropped or was never made."""
        if len(self._living) >= _SESSIONS:
            over = [session for session in self._living if not _lives(view, session)]
            self._ended.extend(session for session in over if view.session(session) is not None)
            for session in over:
                del self._living[session]
        while self._ended and (view.session(self._ended[0]) is None or _lives(view, self._ended[0])):
            self._ended.popleft()


def _lives(view: View, session: str) -> bool:
    record = view.session(session)
    return isinstance(record, Session) and not record.ended
