"""Commits group after group, from a given number on, and prints the number of each that was acknowledged."""

from __future__ import annotations

import asyncio
import sys

from tests.contracts.factories import pointer_store
from tests.contracts.journals import ROOT, put
from tests.contracts.test_pointers_contended import group_of


async def main(name: str, address: str, begin: int) -> None:
    store = pointer_store(name, address)
    await store.open()
    head = await store.take_over(ROOT)
    number = begin
    while True:
        head = await put(store, head, group_of(number))
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
