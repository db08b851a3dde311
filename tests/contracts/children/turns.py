"""Wins and resigns so many times; prints ``alone`` for each time that nobody else led meanwhile."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contracts.factories import election


@contextmanager
def alone(witness: Path) -> Iterator[None]:
    """Hold a file that must not be there yet."""
    witness.touch(exist_ok=False)
    yield
    witness.unlink()


async def main(name: str, address: str, witness: Path, turns: int) -> None:
    candidate = election(name, address, "http://127.0.0.1:7070")
    await candidate.open()
    for _ in range(turns):
        leadership = await candidate.campaign()
        with alone(witness):
            await asyncio.sleep(0.01)
            assert leadership.remaining(time.monotonic()) > 0
        await leadership.resign()
        print("alone", flush=True)
    await candidate.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
