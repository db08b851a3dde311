"""What the files of many jobs cost the leader: its memory, and the time until it serves.

    python -m benchmarks.trees [--jobs 40] [--files 5000] [--rounds 5]

One embedded server as a process of its own, over three journals in turn: without files, with each file in a record of
its own, and with all files compacted into manifests. Told are the time from its start until it leads, the memory that
it has then, and both once every tree was asked for; each less that of the empty journal, and per file.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from milepost_backends.contract import Change, Done
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_server.journal.proof import Proof
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import path_key
from milepost_server.model.records import DEPLOYMENT_KEY, Deployment, Store, Stored, encode, store_key, tree_key
from milepost_server.model.trees import Entry, Tree, TreePath
from testbed.server import ServerProcess

DEPLOYMENT = "0123456789ab"
_AT_ONCE = 2000
_THEN = "2026-01-31T12:00:00.000Z"


class Figures(NamedTuple):
    """Of one start: seconds until it leads and until every tree was asked for, and the memory in bytes at both."""

    leads: float
    leads_bytes: int
    asked: float
    asked_bytes: int


def files_of(job: str, count: int) -> Iterator[TreePath]:
    """The files of a query with 32 partitions, as Spark names them, and the directories that they are in."""
    for directory in ("", "/state", "/state/0", *(f"/state/0/{partition}" for partition in range(32))):
        yield TreePath(f"checkpoint{directory}", (Entry(1, _THEN, 1, directory=True),))
    for number in range(count):
        path = f"checkpoint/state/0/{number % 32}/{number // 32}.delta"
        blob = f"{DEPLOYMENT}/{job}/000000000001/{number:032x}"
        yield TreePath(path, (Entry(number + 2, _THEN, 1, size=20_000, sha256=f"{number:064x}", blob=blob),))


def records(jobs: Iterable[str], files: int, blobs: Path, *, compacted: bool) -> Iterator[tuple[str, Stored]]:
    """What the journal holds; manifests are written below ``blobs``."""
    yield DEPLOYMENT_KEY, Deployment(DEPLOYMENT)
    for job in jobs:
        yield store_key(job), Store(job, epoch=1)
        paths = sorted(files_of(job, files), key=lambda record: record.path)
        if not compacted:
            yield from ((path_key(job, record.path), record) for record in paths)
            continue
        blob, rows = f"{DEPLOYMENT}/{job}/000000000001/{'f' * 32}", ManifestRows.of(paths)
        (blobs / blob).parent.mkdir(parents=True)
        (blobs / blob).write_bytes(rows.content)
        yield tree_key(job), Tree(job, manifests=(rows.manifest(blob),))


async def fill(directory: Path, every: Iterator[tuple[str, Stored]]) -> None:
    """Write records into a journal."""
    pointers, proof = EmbeddedPointers(directory / "pointers"), Proof()
    await pointers.open()
    head = await pointers.take_over("root")
    while group := [(key, encode(key, record)) for key, record in islice(every, _AT_ONCE)]:
        proof.apply(group)
        changes = [Change(key, value) for key, value in group]
        done = await pointers.commit(head, changes, head.revision + 10_000, proof.digest)
        if not isinstance(done, Done):
            raise SystemExit(f"the journal cannot be filled: {done.detail}")
        head = done.head
    await pointers.close()


def started(directory: Path, jobs: Iterable[str]) -> Figures:
    """Start a server, ask for every tree, and end it."""
    with ServerProcess(directory) as server:
        began = time.monotonic()
        server.start()
        leads, leads_bytes = time.monotonic() - began, server.memory()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        began = time.monotonic()
        for job in jobs:
            connection.request("GET", f"/webhdfs/v1/jobs/{job}/checkpoint/state/0/7?op=LISTSTATUS")
            answer = connection.getresponse()
            listed = json.loads(answer.read())
            if answer.status != 200 or not listed["FileStatuses"]["FileStatus"]:
                raise SystemExit(f"the files of {job} cannot be listed: {answer.status} {listed}")
        return Figures(leads, leads_bytes, time.monotonic() - began, server.memory())


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    kinds: dict[str, tuple[list[str], bool]] = {
        "empty": ([], True),
        "records": ([f"job-{number}" for number in range(asked.jobs)], False),
        "manifests": ([f"job-{number}" for number in range(asked.jobs)], True),
    }
    with tempfile.TemporaryDirectory() as parent:
        found: dict[str, list[Figures]] = {kind: [] for kind in kinds}
        for kind, (jobs, compacted) in kinds.items():
            directory = Path(parent) / kind
            directory.mkdir()
            asyncio.run(fill(directory, records(jobs, asked.files, directory / "blobs", compacted=compacted)))
        for _ in range(asked.rounds):
            for kind, (jobs, _) in kinds.items():
                found[kind].append(started(Path(parent) / kind, jobs))
    middle = {kind: Figures(*map(statistics.median, zip(*figures, strict=True))) for kind, figures in found.items()}
    files, empty = asked.jobs * asked.files, middle["empty"]
    print(f"{asked.jobs} jobs with {asked.files} files each, medians of {asked.rounds} starts; less those of no files")
    print(f"{'':<10} {'leads':>9} {'memory':>9} {'a file':>8}   {'all asked':>9} {'memory':>9} {'a file':>8}")
    print(f"{'empty':<10} {empty.leads:>7.2f} s {empty.leads_bytes / 1e6:>6.1f} MB")
    for kind in ("records", "manifests"):
        of = middle[kind]
        first, later = of.leads_bytes - empty.leads_bytes, of.asked_bytes - empty.leads_bytes
        print(
            f"{kind:<10} {of.leads - empty.leads:>+7.2f} s {first / 1e6:>6.1f} MB {first / files:>6.0f} B"
            f"   {of.asked:>7.2f} s {later / 1e6:>6.1f} MB {later / files:>6.0f} B"
        )


if __name__ == "__main__":
    main()
