"""Saves and reads many states at once, with asyncio: one connection pool, one session, calls side by side."""

import argparse
import asyncio
import hashlib

from milepost.aio import AsyncClient, AsyncStateHandleStore

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--store", default="many-states")
options.add_argument("--states", type=int, default=200)
options.add_argument("--at-once", type=int, default=32)
given = options.parse_args()


def content(number: int) -> bytes:
    """Return what is saved under a number."""
    return hashlib.sha256(str(number).encode()).digest() * 64


async def save(store: AsyncStateHandleStore, number: int, turns: asyncio.Semaphore) -> str:
    """Save one state, and return its name."""
    async with turns:
        return (await store.add_and_lock(f"state-{number:05d}", content(number))).name


async def main() -> None:
    """Save them all, read them back, and remove them."""
    async with AsyncClient() as client, client.session("many states") as session:  # at MILEPOST_URL
        store = session.store(given.store)
        await store.campaign()
        await store.clear_entries()  # what a run before this one left
        turns = asyncio.Semaphore(given.at_once)
        names = await asyncio.gather(*(save(store, number, turns) for number in range(given.states)))
        read = await asyncio.gather(*(store.read(name) for name in names[: given.at_once]))
        assert read == [content(number) for number in range(len(read))]
        print(f"{len(names)} states saved, {await store.clear_entries()} removed again")


asyncio.run(main())
