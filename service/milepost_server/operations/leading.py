"""Operations on the lead itself: let another replica have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal import Journal


class LeadingOperations:
    """The operations that say who leads. ``step_down`` gives the lead up, and returns the term that ended with it."""

    def __init__(self, journal: Journal, step_down: Callable[[], Awaitable[int]]) -> None:
        self._journal = journal
        self._step_down = step_down

    async def step_down(self, term: int | None) -> int:
        """Give the lead up, if this replica leads at ``term``; return the term that ended.

        With a term it is safe to ask again: another leader, or this one at a later term, is not deposed by a request
        that was meant for the one before. Raises ``fenced`` problems for another term, ``no-leader``,
        ``outcome-unknown``.
        """
        current = self._journal.term
        if term is not None and term != current:
            raise problem(Code.FENCED, f"term {term} does not lead: term {current} does", extras={"current": current})
        return await self._step_down()
