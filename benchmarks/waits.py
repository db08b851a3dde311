"""How long others wait while one kind of call, or of maintenance, is at work: with a few handles, and with many.

    python -m benchmarks.waits [--handles 1000 100000] [--sessions 100 10000] [--clients 12] [--seconds 3] [--only ...]

One embedded server as a process of its own. While clients make one kind of call as fast as they can, a probe asks for
`/livez` and a record in turn, one at a time. Told are the longest wait of the probe, and the most processor time that
the server's event loop worked without looking for input, with few handles and with many, and the ratios. Waits have in
them what other processes took of the machine (see the line "nothing", where nobody asks but the probe), processor time
has not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO
from urllib.parse import urlsplit

from benchmarks.load import request
from benchmarks.waits_server import CLEARED, LARGE, OWNER

_JSON = ("content-type", "application/json")
_START_SECONDS = 300.0
_LONG_POLLS = 300


class Failed(Exception):
    """An answer was not the expected one."""


class Connection:
    """One connection, a request at a time."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).hostname or "", urlsplit(url).port or 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, sent: bytes, *good: int) -> bytes:
        """The body of the answer. Raises `Failed` unless its status is one of ``good``."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address, limit=2**20)
        self._writer.write(sent)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, lower = int(head[9:12]), head.lower()
        place = lower.find(b"content-length:")
        length = int(lower[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        left, last = length, b""
        while left:
            last = await self._reader.read(min(left, 2**20))
            left -= len(last)
        if status not in good:
            raise Failed(f"{sent.split(b' HTTP')[0]!r}: {status} {last[:300]!r}")
        return last

    def close(self) -> None:
        """End it."""
        if self._writer is not None:
            self._writer.close()


@dataclass(frozen=True)
class Figures:
    """Seconds: the longest wait, and the most processor time in one go."""

    longest: float
    held: float


@dataclass(frozen=True)
class Round:
    """A server with so much stored, and who asks it. ``says`` is its standard output."""

    url: str
    pid: int
    says: IO[str]
    sessions: int
    clients: int
    seconds: float

    def held(self) -> float:
        """The most processor time in one go since this was asked last."""
        os.kill(self.pid, signal.SIGUSR2)
        return float(self.says.readline())

    async def repeated(self, act: Callable[[Connection, int], Awaitable[object]]) -> None:
        """Let all clients do that again and again, each on a connection of its own, until the time is over."""
        end = time.monotonic() + self.seconds

        async def client(number: int) -> None:
            connection = Connection(self.url)
            try:
                while time.monotonic() < end:
                    await act(connection, number)
            finally:
                connection.close()

        await asyncio.gather(*(client(number) for number in range(self.clients)))


def _get(path: str) -> Callable[[Connection, int], Awaitable[object]]:
    return lambda connection, _: connection.ask(request("GET", path), 200)


async def nothing(given: Round) -> None:
    """Nobody else asks."""
    await asyncio.sleep(given.seconds)


async def session(given: Round) -> None:
    """A session that holds half of all handles."""
    await given.repeated(_get(f"/v1/sessions/{OWNER}"))


async def stores(given: Round) -> None:
    """A page of the stores."""
    await given.repeated(_get("/v1/stores"))


async def page(given: Round) -> None:
    """A page of a thousand handles."""
    await given.repeated(_get(f"/v1/stores/{LARGE}/handles"))


async def lock_all(given: Round) -> None:
    """getAllAndLock of half of all handles."""
    await given.repeated(_acting("POST", f"/v1/stores/{LARGE}/locks", 200))


async def release_all(given: Round) -> None:
    """releaseAll in that store."""
    await given.repeated(_acting("DELETE", f"/v1/stores/{LARGE}/locks", 204))


def _acting(method: str, path: str, good: int) -> Callable[[Connection, int], Awaitable[object]]:
    def act(connection: Connection, number: int) -> Awaitable[object]:
        return connection.ask(request(method, path, [("milepost-session", f"s{number}")]), good)

    return act


async def clear(given: Round) -> None:
    """clearEntries, of five stores with a tenth of all handles each."""
    connection = Connection(given.url)
    for store in CLEARED:
        await connection.ask(request("DELETE", f"/v1/stores/{store}/handles", [("milepost-session", "s0")]), 200)
        await asyncio.sleep(given.seconds / len(CLEARED))
    connection.close()


async def keepalive(given: Round) -> None:
    """Of all sessions, one after the other."""
    turns = iter(range(10**9))

    async def act(connection: Connection, _: int) -> None:
        path = f"/v1/sessions/s{next(turns) % given.sessions}/keepalive"
        await connection.ask(request("POST", path), 200)

    await given.repeated(act)


async def epoch(given: Round) -> None:
    """Epochs of a store are granted and given back while hundreds wait for that of another."""
    body = json.dumps({"wait": given.seconds}).encode()
    waiting = [Connection(given.url) for _ in range(_LONG_POLLS)]
    await _campaign(waiting[0], "awaited", OWNER)
    polls = [
        asyncio.ensure_future(_campaign(connection, "awaited", f"s{number % given.sessions}", body))
        for number, connection in enumerate(waiting)
    ]

    async def act(connection: Connection, number: int) -> None:
        await _campaign(connection, f"job-{number}", f"s{number}")
        path = f"/v1/stores/job-{number}/epoch"
        await connection.ask(request("DELETE", path, [("milepost-session", f"s{number}")]), 204)

    await given.repeated(act)
    await asyncio.gather(*polls)
    for connection in waiting:
        connection.close()


def _campaign(connection: Connection, store: str, name: str, body: bytes = b"{}") -> Awaitable[bytes]:
    headers = [("milepost-session", name), _JSON]
    return connection.ask(request("POST", f"/v1/stores/{store}/epoch", headers, body), 200, 409)


async def scrubbing(given: Round) -> None:
    """Eleven minutes pass, so that what was removed and cleared is dropped. (Collecting goes on all the while.)"""
    os.kill(given.pid, signal.SIGUSR1)
    await asyncio.sleep(2 * given.seconds)


KINDS: dict[str, Callable[[Round], Awaitable[None]]] = {
    each.__name__.replace("_", " "): each
    for each in (nothing, session, stores, page, lock_all, release_all, keepalive, epoch, clear, scrubbing)
}


async def probed(given: Round, kind: Callable[[Round], Awaitable[None]]) -> Figures:
    """How long the probe waited while that is at work."""
    connection, longest = Connection(given.url), 0.0
    given.held()
    work = asyncio.ensure_future(kind(given))
    sent = (request("GET", "/livez"), request("GET", "/v1/stores/store-0/handles/handle-0000000"))
    while not work.done():
        for each in sent:
            began = time.perf_counter()
            await connection.ask(each, 200)
            longest = max(longest, time.perf_counter() - began)
        await asyncio.sleep(0.002)
    connection.close()
    await work
    return Figures(longest, given.held())


@contextmanager
def server(handles: int, sessions: int) -> Iterator[tuple[str, int, IO[str]]]:
    """URL, process id and output of a server that has so much stored, and leads."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "benchmarks.waits_server", directory, str(handles), str(sessions)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise Failed(f"the server ended with {process.wait()}")
            asyncio.run(_leads(url))
            yield url, process.pid, process.stdout
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


async def _leads(url: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        connection = Connection(url)
        try:
            await connection.ask(request("GET", "/leader"), 200)
        except (OSError, Failed):
            await asyncio.sleep(0.2)
        else:
            return
        finally:
            connection.close()
    raise Failed("the server does not lead")


def told(name: str, few: Figures, many: Figures) -> str:
    """A line of the table."""
    columns = (
        f"{small * 1e3:>10.1f}{large * 1e3:>10.1f}{large / small:>8.2f}"
        for small, large in ((few.longest, many.longest), (few.held, many.held))
    )
    return f"{name:<12}" + "  ".join(columns)


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    flags.add_argument("--handles", type=int, nargs=2, default=(1_000, 100_000), metavar=("FEW", "MANY"))
    flags.add_argument("--sessions", type=int, nargs=2, default=(100, 10_000), metavar=("FEW", "MANY"))
    flags.add_argument("--clients", type=int, default=12)
    flags.add_argument("--seconds", type=float, default=3.0, help="of each kind")
    flags.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    given = flags.parse_args()
    waits: list[dict[str, Figures]] = []
    for handles, sessions in zip(given.handles, given.sessions, strict=True):
        with server(handles, sessions) as (url, pid, says):
            round_ = Round(url, pid, says, sessions, given.clients, given.seconds)
            waits.append({name: asyncio.run(probed(round_, KINDS[name])) for name in given.only})
    few, many = waits
    print(f"In ms, with {given.handles[0]} and with {given.handles[1]} handles, while others ask for:")
    print(f"{'':<12}{'longest wait of the probe':>28}    {'processor time in one go':>26}")
    for name in given.only:
        print(told(name, few[name], many[name]))


if __name__ == "__main__":
    main()
