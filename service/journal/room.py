"""Room: while the store is full, what grows is refused before it is sent, so that what frees room always has some."""

from __future__ import annotations

from typing import Final

from backends.contract import PointerStore
from milepost.wire import Code
from service.journal.groups import Decide
from service.rules.decisions import Accepted, Decision, Moment, Refused
from service.rules.requests import Add, CreateUpload, OpenSession, Replace, Request
from service.rules.state import View

_SESSIONS: Final = 64
"""So many may be opened all the same while the store is full: who is to remove something needs one."""


def grows(request: Request) -> bool:
    """Whether it makes the journal larger for good. Locks and epochs stay small, and go as they came."""
    return isinstance(request, Add | Replace | CreateUpload | OpenSession)


class Room:
    """What may be decided while ``store`` is full."""

    def __init__(self, store: PointerStore) -> None:
        self._store = store
        self._sessions = 0

    def deciding(self, decide: Decide) -> Decide:
        """The same decisions, but that nothing is accepted that grows while there is no room."""

        def decided(view: View, request: Request, moment: Moment) -> Decision:
            decision = decide(view, request, moment)
            if isinstance(decision, Accepted) and decision.changes and (why := self._refuses(request)) is not None:
                return Refused(Code.STORAGE_FULL, why)
            return decision

        return decided

    def _refuses(self, request: Request) -> str | None:
        why = self._store.full
        if why is None:
            self._sessions = 0
            return None
        if isinstance(request, OpenSession) and self._sessions < _SESSIONS:
            self._sessions += 1
            return None
        return why if grows(request) else None
