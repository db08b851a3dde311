"""The interface between a journal and its replica: the journal's settings, and the receiver of its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from milepost_server.model.records import Record
from milepost_server.model.requests.base import Request
from milepost_server.rules.decisions import Accepted


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Limits of a journal. Times are in seconds.

    ``commit_seconds`` bounds one commit, ``take_over_seconds`` each step of a take-over. ``give_up_seconds`` is how
    long a leader with a lease keeps trying to take the journal over before it lets another replica try.
    ``most_waiting`` is how many requests may wait to be committed. Every granted epoch is above ``epoch_floor``.
    ``most_uploads`` is how many pending uploads a store may have. ``accepted_losses`` has the names of the losses that
    the owner accepts. The deployment is the cell ``cell`` of the cells ``cells``; if ``cell`` is empty, it stays what
    it is.
    """

    commit_seconds: float = 10.0
    take_over_seconds: float = 30.0
    give_up_seconds: float = 30.0
    most_waiting: int = 10_000
    epoch_floor: int = 0
    most_uploads: int = 1000
    accepted_losses: frozenset[str] = frozenset()
    cell: str = ""
    cells: tuple[str, ...] = ()


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
        """Note that a record which was damaged, or missing in memory, is now in the pointer store and in memory."""


class NoObserver:
    """An observer that ignores every event."""

    def committed(self, request: Request, accepted: Accepted) -> None:
        """Do nothing. See `JournalObserver.committed`."""

    def given_up(self, request: Request) -> None:
        """Do nothing. See `JournalObserver.given_up`."""

    def found(self, key: str, record: Record) -> None:
        """Do nothing. See `JournalObserver.found`."""
