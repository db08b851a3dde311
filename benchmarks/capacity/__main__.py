"""What the work of Spark's jobs costs the server in processor time, which other processes of the machine hardly change.

    python -m benchmarks.capacity [--only batches replicas requests files cells calls overload instructions]
                                  [--partitions 4 64 200] [--batches 12] [--jobs 1 8 32] [--seconds 8]
                                  [--clients 2 32] [--minutes 5] [--kinds lock …] [--profile FILE]

Real queries, embedded and on three replicas over ZooKeeper and S3; each request of a checkpoint file by itself; whole
files of many jobs at once, in one cell and in two; calls of handles; minutes at the end of a core; and instructions.
With all checks and the access log, without TLS. Told is a table for docs/capacity.md, with the commit of the tree that
was measured.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import uvloop

from benchmarks import rest
from benchmarks.capacity import batches, instructions, overload
from benchmarks.capacity.files import STEPS, WRITERS, Tree, files, sending
from benchmarks.load import Next, run
from benchmarks.rest import Figures, Service, measured, processor_seconds, served
from milepost import Client
from testbed.replicated import BUCKET, ReplicatedTestbed
from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from testbed.server import ROOT, ServerProcess
from testbed.zookeeper import Ensemble

_MOST_REQUESTS = 20_000
_START_SECONDS = 300.0
_CALLS = ("record", "state", "lock", "add", "replace")

Row = tuple[str, str]


def of_batches(given: argparse.Namespace) -> Iterator[Row]:
    """Tell what a batch costs an embedded server."""
    spark = batches.spark_session()
    with tempfile.TemporaryDirectory() as directory, served(Path(directory), given) as server:
        for partitions in given.partitions:
            for way in batches.WAYS:
                told = batches.measured(spark, [server], partitions, given.batches, way)
                yield f"batch, {partitions} partitions, embedded, {way}", _batch(told)


def of_replicas(given: argparse.Namespace) -> Iterator[Row]:
    """Tell what a batch costs three replicas over ZooKeeper and S3."""
    spark = batches.spark_session()
    with tempfile.TemporaryDirectory() as directory, ReplicatedTestbed(Path(directory)) as testbed:
        testbed.start(_START_SECONDS)
        leader = testbed.leader()
        servers = [leader, *(each for each in testbed.replicas if each is not leader)]
        for partitions in given.partitions:
            told = batches.measured(spark, servers, partitions, given.batches)
            yield f"batch, {partitions} partitions, leader of three replicas", _batch(told)


def of_requests(given: argparse.Namespace) -> Iterator[Row]:
    """Tell what each request of a file costs, by the number of connections."""
    for clients in given.clients:
        with tempfile.TemporaryDirectory() as directory, served(Path(directory), given) as server:
            tree, left = Tree.led(server.url, "requests"), _MOST_REQUESTS
            for name, step in STEPS.items():
                told = measured(server, [sending(step(tree)) for _ in range(clients)], given.seconds, left)
                # A request that takes what the one before left must not run out of it, and the last answer of each
                # connection leaves nothing.
                leaving = name in ("CREATE", "PUT 300 B", "PUT whole 300 B")
                left = told.load.count - 2 * clients if leaving else _MOST_REQUESTS
                yield f"{name}, {clients} connections", _request(told)


def of_files(given: argparse.Namespace) -> Iterator[Row]:
    """Tell how many whole files a server takes from many jobs, and what a file costs it, by the way to write it."""
    for (way, writer), jobs in product(WRITERS.items(), given.jobs):
        with tempfile.TemporaryDirectory() as directory, served(Path(directory), given) as server:
            done: list[list[str]] = [[] for _ in range(jobs)]
            clients = [sending(writer(Tree.led(server.url, f"job-{n}"), each)) for n, each in enumerate(done)]
            before = processor_seconds(server.pid)
            elapsed = _load(server, clients, given.seconds)
            count = sum(map(len, done))
            cost = (processor_seconds(server.pid) - before) / count
            yield f"files of {jobs} jobs, {way}", f"{count / elapsed:,.0f}/s, {1000 * cost:.2f} ms"


def of_cells(given: argparse.Namespace) -> Iterator[Row]:
    """Tell how many whole files the leaders of one cell and of two take in a second of their processor time, over one
    ZooKeeper and one S3 server.
    """
    jobs, rates = max(given.jobs), []
    with tempfile.TemporaryDirectory() as directory, below(Path(directory)) as (zookeeper, s3):
        for count in (1, 2):
            names = [f"of-{count}-{number}" for number in range(count)]
            with ExitStack() as running:
                cells = {}
                for name in names:
                    (data := Path(directory, name)).mkdir()
                    flags = ("--cell", name, "--cells", ",".join(names))
                    pointers, blobs = f"zookeeper://{zookeeper.hosts}/{name}", s3.url(BUCKET, name)
                    server = ServerProcess(
                        data, *flags, pointers=pointers, blobs=blobs, environment=ALL_RIGHTS.environment
                    )
                    cells[name] = running.enter_context(server).start()
                rates.append(_files_a_second(cells, [f"job-{number}" for number in range(jobs)], given.seconds))
            where = "one cell" if count == 1 else f"{count} cells"
            yield f"files of {jobs} jobs in {where}, in a second of processor time of each leader", f"{rates[-1]:,.0f}"
    yield "two cells against one", f"{rates[1] / rates[0]:.2f} x"


@contextmanager
def below(directory: Path) -> Iterator[tuple[Ensemble, SeaweedFS]]:
    """Run what is below the cells."""
    zookeeper = Ensemble(directory / "zookeeper", size=1)
    with SeaweedFS(directory / "s3") as s3:
        try:
            s3.start(_START_SECONDS)
            s3.make_bucket(BUCKET)
            zookeeper.serve(_START_SECONDS)
            yield zookeeper, s3
        finally:
            zookeeper.kill()


def _files_a_second(cells: Mapping[str, ServerProcess], jobs: Sequence[str], seconds: float) -> float:
    """Write files of the jobs, each in its cell, and return the sum over the cells of the files in a second of the
    processor time of the leader.
    """
    places: dict[str, list[str]] = {name: [] for name in cells}
    with Client(";".join(f"{name}={server.url}" for name, server in cells.items())) as client:
        for job in jobs:
            places[client.of_job(job, begin=True).cell].append(job)
    done: dict[str, list[str]] = {name: [] for name in cells}
    loads = [
        (server.url, [sending(files(Tree.led(server.url, job), done[name])) for job in places[name]])
        for name, server in cells.items()
    ]
    before = {name: processor_seconds(server.pid) for name, server in cells.items()}

    async def all_at_once() -> None:
        await asyncio.gather(*(run(url, clients, seconds=seconds, requests=10**9) for url, clients in loads))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_at_once())
    return sum(len(done[name]) / (processor_seconds(server.pid) - before[name]) for name, server in cells.items())


def of_calls(given: argparse.Namespace) -> Iterator[Row]:
    """Tell what calls of handles cost; `benchmarks.rest` compares them with one another."""
    given.keys = False
    with tempfile.TemporaryDirectory() as directory, served(Path(directory), given) as server:
        calls, locks = Service(server.url, keyed=False, state=instructions.STATE), Service(server.url, keyed=False)
        calls.set_up("calls", max(given.clients))
        locks.set_up("locks", max(given.clients))
        for name in _CALLS:
            service = locks if name == "lock" else calls
            clients = [rest.WORKLOADS[name](service, number) for number in range(max(given.clients))]
            yield (
                f"{name}, {max(given.clients)} connections",
                _request(measured(server, clients, given.seconds, _MOST_REQUESTS * 5)),
            )


def of_overload(given: argparse.Namespace) -> Iterator[Row]:
    """Tell what becomes of sessions and files while a leader is at the end of its core. Raises SystemExit if one is
    lost.
    """
    jobs = max(given.jobs)
    with tempfile.TemporaryDirectory() as directory, served(Path(directory), given) as server:
        told = overload.tried(server, jobs, given.minutes * 60)
        yield f"{jobs} jobs for {given.minutes:g} minutes", f"{told.share:.2f} of a core; {told.files:,} files"
        slowest = f"half below {told.slowest(0.5):.3f} s, 99 of 100 below {told.slowest(0.99):.3f} s"
        yield f"{len(told.waits)} keepalives meanwhile", f"{slowest}; {len(told.lost)} sessions lost"
        yield "acknowledged files that are missing or not whole", str(len(told.missing))
        if not told.holds:
            raise SystemExit(f"overload has done harm: {told.lost[:3]} {told.missing[:3]}")


def of_instructions(given: argparse.Namespace) -> Iterator[Row]:
    """Tell how many instructions a request takes, where the machine can count them."""
    if not instructions.can_count():
        yield "instructions", "not counted: this machine has no valgrind"
        return
    with tempfile.TemporaryDirectory() as directory:
        for name, thousands in instructions.counted(Path(directory), kinds=given.kinds):
            yield f"instructions of {name}", f"{thousands:,.0f} thousand"


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "batches": of_batches,
    "replicas": of_replicas,
    "requests": of_requests,
    "files": of_files,
    "cells": of_cells,
    "calls": of_calls,
    "overload": of_overload,
    "instructions": of_instructions,
}


def _batch(told: batches.Batches) -> str:
    first, *others = (f"{milliseconds:.0f} ms" for milliseconds in told.milliseconds)
    beside = f" (the others {', '.join(others)})" if others else ""
    return f"{first}{beside}; {told.requests:.0f} requests, {told.commits:.0f} commits"


def _request(told: Figures) -> str:
    return f"{1000 * told.server:.3f} ms; {told.load.rate:,.0f}/s"


def _load(server: ServerProcess, clients: list[Next], seconds: float) -> float:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(server.url, clients, seconds=seconds, requests=10**9)).elapsed


def main() -> None:
    """Measure, and print the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    flags.add_argument("--partitions", nargs="+", type=int, default=[4, 64, 200])
    flags.add_argument("--batches", type=int, default=12, help="of each query, after the first few")
    flags.add_argument("--jobs", nargs="+", type=int, default=[1, 8, 32], help="that write files at once")
    flags.add_argument("--clients", nargs="+", type=int, default=[2, 32], help="connections with a request at a time")
    flags.add_argument("--seconds", type=float, default=8.0, help="of each load, at most")
    flags.add_argument("--minutes", type=float, default=5.0, help="of overload")
    flags.add_argument("--kinds", nargs="+", default=None, metavar="REQUEST", help="of instructions: count no others")
    flags.add_argument("--profile", type=Path, default=None, metavar="FILE", help="profile the server into FILE")
    given = flags.parse_args()
    given.quiet, given.pointers, given.blobs = False, None, None
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    print(f"| work, at {commit.stdout.strip()} | processor time of the server |\n|---|---|", flush=True)
    for name in given.only:
        for what, cost in PARTS[name](given):
            print(f"| {what} | {cost} |", flush=True)


if __name__ == "__main__":
    main()
