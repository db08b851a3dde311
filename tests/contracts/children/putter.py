"""Puts blob after blob in small chunks, and prints the key of each that was acknowledged."""

from __future__ import annotations

import asyncio
import sys

from tests.contracts.factories import blob_store
from tests.contracts.streams import fresh_stream


async def main(name: str, address: str) -> None:
    store = blob_store(name, address)
    await store.open()
    number = 0
    while True:
        await store.put(f"blob-{number}", fresh_stream(12, 256 * 1024))
        print(f"blob-{number}", flush=True)
        number += 1


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
