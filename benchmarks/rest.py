"""What a request costs through REST: rates, waits and the server's processor time, by kind of request.

    python -m benchmarks.rest [--clients 64] [--seconds 3] [--requests 100000] [--rounds 3] [--only lock …]
                              [--pointers URL] [--blobs URL] [--keys] [--quiet] [--profile FILE]

One server as a process of its own, many connections, each with a session and a request at a time. Rates are told as
multiples of `GET /livez` in the same run, which is what the HTTP server itself costs.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from benchmarks.load import Answer, Load, LoadFailed, Next, request, run
from testbed.server import ServerProcess

STATE = b"x" * 100
TTL_SECONDS = 3600
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Service:
    """The server under load, and what its clients need to know."""

    url: str
    keyed: bool
    state: bytes = STATE
    """The bytes of each state that is added, replaced or read."""
    store: str = ""
    numbers: Iterator[int] = field(default_factory=count)
    """The numbers in the names of new handles, each of which is given once."""
    _keys: Iterator[int] = field(default_factory=count)

    def headers(self, session: str) -> list[tuple[str, str]]:
        """Of a changing call; with an idempotency key of its own if asked for."""
        key = [("idempotency-key", f"k{next(self._keys)}")] if self.keyed else []
        return [("milepost-session", session), *key]

    def path(self, name: str, below: str = "") -> str:
        """Of a handle."""
        return f"/v1/stores/{self.store}/handles/{name}{below}"

    def call(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        """One call that has to succeed, for setting up."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            told = answer.read()
            if answer.status not in (200, 201):
                raise LoadFailed(f"{method} {path}: {answer.status} {told!r}")
        finally:
            connection.close()

    def set_up(self, store: str, clients: int) -> None:
        """A session for each client, and a handle of each, which it holds."""
        self.store = store
        for number in range(clients):
            for session in (f"holder-{number}", f"client-{number}"):
                body = json.dumps({"ttl": TTL_SECONDS, "session": session}).encode()
                known = {"content-type": "application/json"}
                self.call("POST", "/v1/sessions", known, body)
            self.call("POST", self.path(f"h{number}"), {"milepost-session": f"holder-{number}"}, self.state)


def livez(_service: Service, _number: int) -> Next:
    """What needs nothing of Milepost."""
    sent = request("GET", "/livez")
    return lambda answer: _after(answer, 200, sent)


def record(service: Service, number: int) -> Next:
    """The record of a handle, answered from memory."""
    sent = request("GET", service.path(f"h{number}"))
    return lambda answer: _after(answer, 200, sent)


def exists(service: Service, number: int) -> Next:
    """Whether a handle exists, and its version."""
    sent = request("HEAD", service.path(f"h{number}"))
    return lambda answer: _after(answer, 200, sent)


def state(service: Service, number: int) -> Next:
    """The bytes of a handle."""
    sent = request("GET", service.path(f"h{number}", "/state"))
    return lambda answer: _after(answer, 200, sent)


def lock(service: Service, number: int) -> Next:
    """A lock is taken, then given back: the least that a committed change can be."""
    session, path, turns = f"client-{number}", service.path(f"h{number}", "/lock"), count()

    def following(answer: Answer | None) -> bytes:
        turn = next(turns)
        _expect(answer, 204 if turn % 2 == 0 else 200)
        return request("DELETE" if turn % 2 else "POST", path, service.headers(session))

    return following


def add(service: Service, number: int) -> Next:
    """A new handle each time, with a state of its own."""
    session = f"client-{number}"

    def following(answer: Answer | None) -> bytes:
        _expect(answer, 201)
        path = service.path(f"a{next(service.numbers)}")
        return request("POST", path, service.headers(session), service.state)

    return following


def replace(service: Service, number: int) -> Next:
    """The same handle again and again, with a new state each time. The first request asks for its version."""
    session, path = f"holder-{number}", service.path(f"h{number}")

    def following(answer: Answer | None) -> bytes:
        _expect(answer, 200)
        if answer is None:
            return request("GET", path)
        condition = ("if-match", answer.header("etag"))
        return request("PUT", path, [*service.headers(session), condition], service.state)

    return following


WORKLOADS: dict[str, Callable[[Service, int], Next]] = {
    "livez": livez,
    "record": record,
    "exists": exists,
    "state": state,
    "lock": lock,
    "add": add,
    "replace": replace,
}


def _expect(answer: Answer | None, status: int) -> None:
    if answer is not None and answer.status != status:
        raise LoadFailed(f"{answer.status} instead of {status}: {answer.body!r}")


def _after(answer: Answer | None, status: int, following: bytes) -> bytes:
    _expect(answer, status)
    return following


@dataclass(frozen=True)
class Figures:
    """One round of one workload; processor seconds are per request."""

    load: Load
    server: float
    client: float


def measured(server: ServerProcess, clients: list[Next], seconds: float, requests: int) -> Figures:
    """Run the clients, and see what it cost the server and the load generator."""
    before, own = processor_seconds(server.pid), _own()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(run(server.url, clients, seconds=seconds, requests=requests))
    return Figures(load, (processor_seconds(server.pid) - before) / load.count, (_own() - own) / load.count)


def processor_seconds(pid: int) -> float:
    """User and system time of a process with all of its threads, as proc(5) tells it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _own() -> float:
    times = os.times()
    return times.user + times.system


@contextmanager
def served(directory: Path, given: argparse.Namespace) -> Iterator[ServerProcess]:
    """The server, under cProfile if asked for: what it found is written when the server has stopped."""
    flags = ["--log-level", "warning"] if given.quiet else []
    if given.profile:
        python = directory / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cProfile -o "{given.profile.absolute()}" "$@"\n')
        python.chmod(0o755)
        os.environ["MILEPOST_SERVER_PYTHON"] = str(python)
    with ServerProcess(directory, *flags, pointers=given.pointers, blobs=given.blobs) as server:
        yield server.start()
        server.stop()


def told(name: str, rounds: list[Figures], floor: float) -> str:
    """A line of the table: medians over the rounds."""

    def median(of: Callable[[Figures], float]) -> float:
        return statistics.median(map(of, rounds))

    rate = median(lambda each: each.load.rate)
    waits = [median(_wait(0.5)) * 1e3, median(_wait(0.99)) * 1e3]
    costs = [median(lambda each: each.server) * 1e6, median(lambda each: each.client) * 1e6]
    columns = "".join(f"{figure:>8.1f}" for figure in waits) + "".join(f"{figure:>8.0f}" for figure in costs)
    return f"{name:<8}{rate:>9,.0f}/s{rate / floor:>7.2f} x{columns}"


def _wait(share: float) -> Callable[[Figures], float]:
    return lambda figures: figures.load.quantile(share)


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    flags.add_argument("--clients", type=int, default=64)
    flags.add_argument("--seconds", type=float, default=3.0, help="of each round, at most")
    flags.add_argument("--requests", type=int, default=100_000, help="of each round, at most")
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--only", nargs="+", choices=[name for name in WORKLOADS if name != "livez"], default=None)
    flags.add_argument("--pointers", default=None, metavar="URL", help="default: embedded")
    flags.add_argument("--blobs", default=None, metavar="URL", help="default: files")
    flags.add_argument("--bytes", type=int, default=len(STATE), help="of each state")
    flags.add_argument("--keys", action="store_true", help="send an idempotency key with each change")
    flags.add_argument("--quiet", action="store_true", help="let the server log no requests")
    flags.add_argument("--profile", type=Path, default=None, metavar="FILE", help="profile the server into FILE")
    given = flags.parse_args()
    names = ["livez", *(given.only or [name for name in WORKLOADS if name != "livez"])]
    rounds: dict[str, list[Figures]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as directory, served(Path(directory), given) as server:
        service = Service(server.url, given.keys, b"x" * given.bytes)
        for turn in range(given.rounds):
            service.set_up(f"bench-{turn}", given.clients)
            for name in names:
                clients = [WORKLOADS[name](service, number) for number in range(given.clients)]
                rounds[name].append(measured(server, clients, given.seconds, given.requests))
    floor = statistics.median(each.load.rate for each in rounds["livez"])
    print(f"{given.clients} clients: rate, the same by GET /livez, ms until half and 99 of 100 were answered,")
    print("µs of processor time per request that the server and the load generator took")
    for name, of_name in rounds.items():
        print(told(name, of_name, floor))


if __name__ == "__main__":
    main()
