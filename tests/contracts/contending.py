"""A leader that others keep taking over from: in this process, or in one of its own."""

from __future__ import annotations

import asyncio
from typing import Final

from milepost_backends.contract import Change, CommitRefused, Done, PointerStore, StorageUnavailable, TakeOverLost
from tests.contracts.journals import taken_over

_AGAIN_SECONDS: Final = 0.01
_IN_A_ROW: Final = 8
"""Commits, before it lets the others have a chance: who commits without a pause may hold off a take-over for long."""


class Contender:
    """Adds to a counter that all contenders share, until it is told to stop.

    Each addition carries a mark of its own, by which an unknown outcome is judged after the next take-over.
    """

    def __init__(self, store: PointerStore, name: str) -> None:
        self.added = 0
        self.stopping = False
        self._store = store
        self._name = name

    async def run(self) -> None:
        doubtful: str | None = None
        while not self.stopping or doubtful:
            try:
                head, found = await taken_over(self._store)
            except (StorageUnavailable, TakeOverLost):
                # Not every error comes from a wait, and who goes round without one lets nobody else on.
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            if doubtful in found:
                self.added += 1
            doubtful = None
            total = int(found.get("total", b"0"))
            while not self.stopping:
                mark = f"marks/{self._name}/{self.added}"
                group = [Change("total", b"%d" % (total + 1)), Change(mark, b"")]
                end = await self._store.commit(head, group, head.revision + 2)
                if not isinstance(end, Done):
                    doubtful = None if isinstance(end, CommitRefused) else mark
                    self.refused()
                    break
                head, total, self.added = end.head, total + 1, self.added + 1
                if self.added % _IN_A_ROW == 0:
                    await asyncio.sleep(_AGAIN_SECONDS)

    def refused(self) -> None:
        """Another one took over."""
