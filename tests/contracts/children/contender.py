"""Adds to a counter under a journal that another process keeps taking over; prints each refusal, and what it added.

Each addition carries a mark of its own, by which an unknown outcome is judged after the next take-over.
"""

from __future__ import annotations

import asyncio
import os
import sys

from backends.contract import Change, Done, PointerStore, Refused, StorageUnavailable, TakeOverLost
from tests.contracts.factories import pointer_store
from tests.contracts.journals import taken_over


class Contender:
    def __init__(self, store: PointerStore) -> None:
        self.store = store
        self.added = 0
        self.stopping = False

    async def run(self) -> None:
        doubtful: str | None = None
        while not self.stopping or doubtful:
            try:
                head, found = await taken_over(self.store)
            except (StorageUnavailable, TakeOverLost):
                continue
            if doubtful in found:
                self.added += 1
            doubtful = None
            total = int(found.get("total", b"0"))
            while not self.stopping:
                mark = f"marks/{os.getpid()}/{self.added}"
                group = [Change("total", b"%d" % (total + 1)), Change(mark, b"")]
                end = await self.store.commit(head, group, head.revision + 2)
                if isinstance(end, Done):
                    head, total, self.added = end.head, total + 1, self.added + 1
                elif isinstance(end, Refused):
                    print("refused", flush=True)
                    break
                else:
                    doubtful = mark
                    break


async def main(name: str, address: str) -> None:
    store = pointer_store(name, address)
    await store.open()
    contender = Contender(store)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    running = asyncio.create_task(contender.run())
    await asyncio.to_thread(sys.stdin.readline)
    contender.stopping = True
    await running
    await store.close()
    print(contender.added, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
