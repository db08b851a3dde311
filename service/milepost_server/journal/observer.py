"""The interface through which a journal reports what happens to it."""

from __future__ import annotations

from typing import Protocol

from milepost_server.rules.decisions import Accepted
from milepost_server.rules.records import Record
from milepost_server.rules.requests import Request


class JournalObserver(Protocol):
    """The receiver of a journal's events: one call for each event, in the order in which they happen.

    An exception that a method raises ends the leadership.
    """

    def committed(self, request: Request, accepted: Accepted) -> None:
        """Note that the changes of ``request`` are committed, so that every reader sees them.

        The request is answered right after this call.
        """

    def given_up(self, request: Request) -> None:
        """Note that ``request`` can never be committed any more.

        Called only for a request that was answered with outcome unknown before.
        """

    def found(self, key: str, record: Record) -> None:
        """Note that a record which was damaged or not known before is now in the store and in memory."""


class NoObserver:
    """An observer that ignores every event."""

    def committed(self, request: Request, accepted: Accepted) -> None:
        """Do nothing. See `JournalObserver.committed`."""

    def given_up(self, request: Request) -> None:
        """Do nothing. See `JournalObserver.given_up`."""

    def found(self, key: str, record: Record) -> None:
        """Do nothing. See `JournalObserver.found`."""
