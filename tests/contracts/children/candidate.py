"""A candidate that takes commands in lines: ``campaign``, ``resign``, ``certain?``; prints what came of it."""

from __future__ import annotations

import asyncio
import sys
import time

from milepost_backends.contract import Leadership
from tests.contracts.factories import election


def tell(line: str) -> None:
    print(line, flush=True)


async def notice(leadership: Leadership) -> None:
    await leadership.wait_lost()
    tell("lost")


async def main(name: str, address: str, advertise: str) -> None:
    candidate = election(name, address, advertise)
    await candidate.open()
    tell("ready")
    leadership: Leadership | None = None
    noticing: asyncio.Task[None] | None = None
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if command == "campaign":
            leadership = await candidate.campaign()
            tell("leading")
            noticing = asyncio.create_task(notice(leadership))
        assert leadership is not None
        assert noticing is not None
        if command == "resign":
            noticing.cancel()
            await leadership.resign()
            tell("resigned")
        if command == "certain?":
            tell("yes" if leadership.remaining(time.monotonic()) > 0 else "no")
    await candidate.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
