"""A contender in a process of its own; prints each refusal, and at last what it added. See contending.py."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.contracts.contending import Contender
from tests.contracts.factories import pointer_store


class Telling(Contender):
    def refused(self) -> None:
        print("refused", flush=True)


async def main(name: str, address: str) -> None:
    store = pointer_store(name, address)
    await store.open()
    contender = Telling(store, str(os.getpid()))
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
