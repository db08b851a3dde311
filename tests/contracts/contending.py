"""A leader that others keep taking over from: in this process, or in one of its own."""

from __future__ import annotations

from backends.contract import Change, Done, PointerStore, Refused, StorageUnavailable, TakeOverLost
from tests.contracts.journals import taken_over


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
                    doubtful = None if isinstance(end, Refused) else mark
                    self.refused()
                    break
                head, total, self.added = end.head, total + 1, self.added + 1

    def refused(self) -> None:
        """Another one took over."""
