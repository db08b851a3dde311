"""Who is told of what happens to a journal."""

from __future__ import annotations

from typing import Protocol

from service.rules.decisions import Accepted
from service.rules.records import Record
from service.rules.requests import Request


class JournalObserver(Protocol):
    """Is told of each event once, in the order in which they happen. What it raises ends the leadership."""

    def landed(self, request: Request, accepted: Accepted) -> None:
        """The changes of ``request`` are committed, and every reader sees them. It is answered right after."""

    def given_up(self, request: Request) -> None:
        """``request`` can never be committed, and who asked for it was told before that its outcome is unknown."""

    def found(self, key: str, record: Record) -> None:
        """A record that had been damaged, or was not known, is in the store and in memory now."""


class NoObserver:
    """Is told of everything, and does nothing about it."""

    def landed(self, request: Request, accepted: Accepted) -> None:
        """See `JournalObserver.landed`."""

    def given_up(self, request: Request) -> None:
        """See `JournalObserver.given_up`."""

    def found(self, key: str, record: Record) -> None:
        """See `JournalObserver.found`."""
