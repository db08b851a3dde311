"""What a savepoint of a job with much state costs: time, requests at the blob store, and the batches beside it.

    python -m benchmarks.savepoints [--megabytes 300] [--rounds 100] [--directory DIR]

One embedded server has its blobs on SeaweedFS, behind a proxy that counts requests. Two jobs differ in the size of
their state alone. In each round both make and drop a savepoint, in another order each time, and the large job commits a
batch alone and a batch while another client makes and drops a savepoint of it; a batch writes a file of state for each
of 20 partitions. Told are ratios of medians within this run, so that the machine's speed is in none of them, and the
requests that reached the blob store for savepoints.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.seeks import Counting
from milepost import Client
from milepost.store import StateHandleStore
from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from testbed.server import ServerProcess

_BUCKET = "savepoints"
_FILE_BYTES = 5_000_000
_PARTITIONS = 20
_MEMORY = Path("/dev/shm")


def fill(store: StateHandleStore, megabytes: float) -> None:
    """Give a job so much state, in files as large as those of a state store, and commit its first batch."""
    count = max(1, round(megabytes * 1e6 / _FILE_BYTES))
    for number in range(count):
        content = random.Random(number).randbytes(min(_FILE_BYTES, round(megabytes * 1e6)))
        store.files.write(f"checkpoint/state/0/{number}/1.zip", content)
    commit(store, 0)


def commit(store: StateHandleStore, batch: int) -> None:
    """Commit a batch: the files that Spark writes for it, with a small file of state for each partition."""
    store.files.write(f"checkpoint/offsets/{batch}", b"v1")
    for partition in range(_PARTITIONS):
        store.files.write(f"checkpoint/state/0/{partition}/{batch + 1}.delta", b"v1")
    store.files.write(f"checkpoint/commits/{batch}", b"v1")


def keep(store: StateHandleStore, name: str) -> None:
    """Make a savepoint, and drop it."""
    store.files.make_savepoint(name)
    store.files.drop_savepoint(name)


def timed(act: Callable[[], None]) -> float:
    """The milliseconds that an act takes."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


@contextmanager
def keeping(store: StateHandleStore) -> Iterator[None]:
    """Make and drop a savepoint of a job while the block runs."""
    thread = threading.Thread(target=keep, args=(store, "beside"))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def main() -> int:
    """Measure, and print the ratios; the exit status is 1 if a savepoint reached the blob store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=300.0)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--directory", type=Path, default=_MEMORY if _MEMORY.is_dir() else None)
    given = parser.parse_args()
    os.environ.update(ALL_RIGHTS.environment)
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=given.directory)))
        s3 = opened.enter_context(SeaweedFS(place / "s3"))
        s3.start()
        s3.make_bucket(_BUCKET)
        counting = Counting(s3.endpoint_url)
        blobs = s3.url(_BUCKET, endpoint_url=counting.url)
        server = opened.enter_context(ServerProcess(place, "--log-level", "warning", blobs=blobs)).start()
        clients = [opened.enter_context(Client(server.url, timeout=60.0)) for _ in range(2)]
        session = opened.enter_context(clients[0].session("benchmark", ttl=600))
        jobs = {"small": session.store("small"), "large": session.store("large")}
        other = opened.enter_context(clients[1].session("operator", ttl=600)).store("large")
        for name, job in jobs.items():
            job.campaign()
            fill(job, given.megabytes if name == "large" else 0.01)
        took: dict[str, list[float]] = {"small": [], "large": [], "alone": [], "beside": []}
        counting.taken()
        requests: list[str] = []
        for number in range(given.rounds):
            for name in sorted(jobs, reverse=number % 2 == 0):
                took[name].append(timed(partial(keep, jobs[name], f"kept-{number}")))
            requests += counting.taken()[1]
            took["alone"].append(timed(partial(commit, jobs["large"], 2 * number + 1)))
            with keeping(other):
                took["beside"].append(timed(partial(commit, jobs["large"], 2 * number + 2)))
            counting.taken()
        middle = {name: statistics.median(each) for name, each in took.items()}
        print(f"{given.megabytes:g} MB of state, {given.rounds} rounds")
        print(
            f"a savepoint, made and dropped: {middle['large']:.1f} ms; "
            f"{middle['large'] / middle['small']:.2f} times that of a job with 10 kB"
        )
        print(f"requests at the blob store for {2 * given.rounds} savepoints: {len(requests)}")
        print(
            f"a batch of {_PARTITIONS} partitions while another client makes and drops a savepoint: "
            f"{middle['beside'] / middle['alone']:.2f} times one alone "
            f"({middle['alone']:.1f} ms)"
        )
        return 1 if requests else 0


if __name__ == "__main__":
    sys.exit(main())
