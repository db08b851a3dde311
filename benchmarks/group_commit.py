"""What group commit gives: writes and reads through REST by how many clients wait at once.

    python -m benchmarks.group_commit [--seconds 3] [--rounds 3]

One embedded server, 1 KiB states. Each figure is the median of the rounds, told as a multiple of one client adding
handles one at a time in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from milepost.aio import AsyncClient, AsyncStateHandleStore
from testbed.server import ServerProcess

STATE = b"x" * 1024
WAITING = (1, 8, 64)
Operation = Callable[[int, int], Awaitable[object]]


async def rate(operation: Operation, clients: int, seconds: float) -> float:
    """Operations per second of ``clients`` tasks that each wait for the answer before they go on."""
    end = time.monotonic() + seconds

    async def client(number: int) -> int:
        count = 0
        while time.monotonic() < end:
            await operation(number, count)
            count += 1
        return count

    started = time.monotonic()
    counts = await asyncio.gather(*(client(number) for number in range(clients)))
    return sum(counts) / (time.monotonic() - started)


def operations(store: AsyncStateHandleStore) -> dict[str, Operation]:
    """What is measured: a write that is committed, and a read that is answered from memory."""

    async def add(number: int, count: int) -> object:
        return await store.add_and_lock(f"h{number}-{count}", STATE)

    async def exists(_number: int, _count: int) -> object:
        return await store.exists("read")

    return {"add": add, "exists": exists}


async def measure(url: str, seconds: float, rounds: int) -> dict[tuple[str, int], float]:
    """The median rate of each operation and number of clients."""
    found: dict[tuple[str, int], list[float]] = {}
    async with AsyncClient(url) as client, client.session(holder="benchmark", ttl=60) as session:
        for turn in range(rounds):
            for waiting in WAITING:
                store = session.store(f"bench-{turn}-{waiting}")
                await store.add_and_lock("read", STATE)

                for name, operation in operations(store).items():
                    found.setdefault((name, waiting), []).append(await rate(operation, waiting, seconds))
    return {key: statistics.median(rates) for key, rates in found.items()}


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    flags.add_argument("--seconds", type=float, default=3.0)
    flags.add_argument("--rounds", type=int, default=3)
    given = flags.parse_args()
    with tempfile.TemporaryDirectory() as directory, ServerProcess(Path(directory), "--log-level", "warning") as server:
        rates = asyncio.run(measure(server.start().url, given.seconds, given.rounds))
    one = rates["add", 1]
    print(f"{'operation':<12}" + "".join(f"{waiting:>5} waiting" for waiting in WAITING))
    for name in ("add", "exists"):
        print(f"{name:<12}" + "".join(f"{rates[name, waiting] / one:>10.1f} x" for waiting in WAITING))


if __name__ == "__main__":
    main()
