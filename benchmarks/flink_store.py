"""How many calls a second Milepost and Flink's own store of state handles take, over the same kind of ZooKeeper.

    python -m benchmarks.flink_store [--clients 32] [--seconds 3] [--rounds 5] [--bytes 1024] [--only add …]

Flink's store is the class that its job manager uses (`ZooKeeperStateHandleStore`): each client is a thread of one Java
process with ZooKeeper sessions of its own, and states are files. Milepost has its pointers in another ZooKeeper of the
same kind, and once embedded; each client is a connection. In each round all of them do the same call one after the
other. Told are the medians of the rounds, and the median of the ratios of each round.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rest import WORKLOADS, Service, measured
from testbed.java import java
from testbed.maven import jars
from testbed.server import ServerProcess
from testbed.zookeeper import zookeeper

Rates = tuple[float, float, float]
"""Calls per second of Flink's store, of Milepost over ZooKeeper, and of Milepost embedded."""

_SOURCE = Path(__file__).with_name("FlinkStore.java")
_TICK_SECONDS = 2.0
_WARM_SECONDS = 2.0
_MOST_REQUESTS = 10**9

CALLS: dict[str, tuple[str, str]] = {
    "add": ("addAndLock", "add"),
    "replace": ("replace", "replace"),
    "lock": ("getAndLock and release", "lock"),
    "state": ("getAndLock", "getAndLock"),
    "state and bytes": ("getAndLock, and read the state", "read"),
    "record": ("exists", "exists"),
    "exists": ("exists", "exists"),
}
"""By the call of Milepost: what Flink's store does in its place, and the name of that in the Java program."""


class FlinkClients:
    """Clients of Flink's store, in a Java process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._line()

    def rate(self, call: str, seconds: float) -> float:
        """Let each client repeat a call, and return the calls per second of all of them."""
        assert self._process.stdin is not None
        print(call, seconds, file=self._process.stdin, flush=True)
        count, elapsed = self._line().split()
        return int(count) / float(elapsed)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the clients of Flink's store have ended: see their error above")
        return line


@contextmanager
def flink_clients(address: str, directory: Path, clients: int, size: int) -> Iterator[FlinkClients]:
    """Run clients of Flink's store until the end of the block. Their states are files below ``directory``."""
    command = [str(java()), "-cp", f"{jars('flink')}/*", str(_SOURCE), address, str(directory), str(clients), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield FlinkClients(process)
        finally:
            process.kill()


@dataclass
class Milepost:
    """A server of Milepost, and how many clients it has."""

    server: ServerProcess
    service: Service
    clients: int

    @classmethod
    def serving(cls, server: ServerProcess, clients: int, size: int) -> Milepost:
        """Start the server, and open the sessions of the clients."""
        service = Service(server.start().url, keyed=False, state=b"x" * size)
        service.set_up("bench", clients)
        return cls(server, service, clients)

    def rate(self, call: str, seconds: float) -> float:
        """Let each client repeat a call, and return the calls per second of all of them."""
        clients = [WORKLOADS[call.partition(" ")[0]](self.service, number) for number in range(self.clients)]
        return measured(self.server, clients, seconds, _MOST_REQUESTS).load.rate


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--clients", type=int, default=32)
    flags.add_argument("--seconds", type=float, default=3.0, help="of each call in each round")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--bytes", type=int, default=1024, help="of each state")
    flags.add_argument("--only", nargs="+", choices=list(CALLS), default=list(CALLS))
    given = flags.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = {name: directory / name for name in ("zookeeper-a", "zookeeper-b", "flink", "over", "embedded")}
        for place in places.values():
            place.mkdir()
        below = stack.enter_context(zookeeper(places["zookeeper-a"], tick_seconds=_TICK_SECONDS)).address
        beside = stack.enter_context(zookeeper(places["zookeeper-b"], tick_seconds=_TICK_SECONDS)).address
        flink = stack.enter_context(flink_clients(beside, places["flink"], given.clients, given.bytes))
        over, embedded = (
            Milepost.serving(stack.enter_context(server), given.clients, given.bytes)
            for server in (
                ServerProcess(places["over"], pointers=f"zookeeper://{below}/milepost"),
                ServerProcess(places["embedded"]),
            )
        )
        print(f"{given.clients} clients, states of {given.bytes} bytes; calls per second, and multiples of Flink's")
        print(
            "| Milepost | Flink's store | Flink | Milepost over ZooKeeper | embedded |\n|---|---|---|---|---|",
            flush=True,
        )
        for name in given.only:
            meant, call = CALLS[name]
            flink.rate(call, _WARM_SECONDS)
            rounds = [
                (
                    flink.rate(call, given.seconds),
                    over.rate(name, given.seconds),
                    embedded.rate(name, given.seconds),
                )
                for _ in range(given.rounds)
            ]
            print(f"| {name} | {meant} | {_median(rounds, 0)} | {_told(rounds, 1)} | {_told(rounds, 2)} |", flush=True)


def _median(rounds: list[Rates], place: int) -> str:
    return f"{statistics.median(each[place] for each in rounds):,.0f}/s"


def _told(rounds: list[Rates], place: int) -> str:
    ratios = sorted(each[place] / each[0] for each in rounds)
    return f"{_median(rounds, place)}, {statistics.median(ratios):.1f} x ({ratios[0]:.1f} to {ratios[-1]:.1f})"


if __name__ == "__main__":
    main()
