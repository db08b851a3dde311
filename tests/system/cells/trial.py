"""One trial: three cells, a job, and rounds in which it is moved, written and interrupted at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType

import httpx

import milepost
from milepost.errors import EpochHeld, MilepostError
from milepost.files import walk
from testbed.server import ROOT, ServerProcess
from tests.system.cells.journals import Journals, wrong

CELLS = ("a", "b", "c")
FLAGS = ("--collect-after", "1", "--linger", "0", "--inline-below", "64", "--log-level", "warning")
"""Blobs that no record names are deleted soon, so that one is missed which a record still names."""

TTL_SECONDS = 5.0
_DEADLINE = 120.0
_FROZEN_SECONDS = (2.0, 8.0, 60.0)
"""Below a lease's time, above it, and above the time for which a mover waits."""

_MOVERS_WAIT = "20"

VICTIMS = (*CELLS, *CELLS, "mover", "mover", "frozen", "driver", "none")


class Wrong(AssertionError):
    """An invariant is broken."""


@dataclass
class Account:
    """What the service has acknowledged: ``sure`` has the bytes of each file, ``maybe`` all that a file may have since
    a write whose outcome is unknown. ``epochs`` are all that were granted to drivers of the trial, in their order.
    """

    sure: dict[str, bytes] = field(default_factory=dict)
    maybe: dict[str, set[bytes]] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=list)
    kept: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """The files of each savepoint, as they were when it was made."""


@dataclass
class Told:
    """What the rounds did."""

    rounds: int = 0
    moves: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    epochs: int = 0
    files: int = 0

    def __str__(self) -> str:
        victims = ", ".join(f"{name} {count}" for name, count in sorted(self.killed.items()))
        return f"{self.rounds} rounds, {self.moves} moves, {self.epochs} epochs, {self.files} files; ended: {victims}"


class Trial:
    """Three cells under ``directory``, each embedded, and the job ``name``. ``seed`` draws what happens."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.name = f"job-{seed}"
        self.account = Account()
        self.told = Told()
        names = ",".join(CELLS)
        self.cells = {cell: ServerProcess(directory / cell, "--cell", cell, "--cells", names, *FLAGS) for cell in CELLS}
        self.list = ";".join(f"{cell}={server.url}" for cell, server in self.cells.items())
        self._ends = ExitStack()

    def __enter__(self) -> Trial:
        for server in self.cells.values():
            server.directory.mkdir(parents=True)
            self._ends.enter_context(server).start()
        self.journals = Journals(self.cells)
        self.drive(self.client(), writes=6)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def client(self) -> milepost.Client:
        """Return a client of all cells."""
        return self._ends.enter_context(milepost.Client(self.list, timeout=30.0))

    def play(self, rounds: int) -> Told:
        """Play so many rounds. Raises `Wrong`."""
        for _ in range(rounds):
            self.round()
            self.told.rounds += 1
        self.told.epochs, self.told.files = len(self.account.epochs), len(self.account.sure)
        if found := wrong(self.journals.records(), self.name, set(self.account.epochs)):
            raise Wrong(f"the journals: {found[:5]}")
        return self.told

    def round(self) -> None:
        """Move the job, perhaps twice at once and beside a driver; end or freeze one of them; and check everything."""
        before, targets = self.check(), list(CELLS)
        self.random.shuffle(targets)
        movers = [self._mover(to) for to in targets[: self.random.choice((1, 1, 2))]]
        driver = threading.Thread(target=self._may_fail, args=(self.random.randint(1, 5),))
        if self.random.random() < 0.5:
            driver.start()
        time.sleep(self.random.uniform(0.3, 2.5))
        victim = self.random.choice(VICTIMS)
        self.told.killed[victim] = self.told.killed.get(victim, 0) + 1
        if victim in self.cells:
            self.cells[victim].kill()
            self.journals.ended(victim)
            self.cells[victim].start()
            self.journals.followed(victim)
        elif victim == "mover":
            movers[0].kill()
        elif victim == "frozen":
            frozen = self.random.choice(CELLS)
            self.cells[frozen].pause()
            time.sleep(self.random.choice(_FROZEN_SECONDS))
            self.cells[frozen].resume()
            self.journals.followed(frozen)
        elif victim == "driver":
            self._end_driver()
        for mover in movers:
            mover.wait(_DEADLINE)
        if driver.ident is not None:
            driver.join(_DEADLINE)
        with milepost.Client(self.list, timeout=60.0) as client:
            self.drive(client, writes=self.random.randint(1, 6))
        self.told.moves += self.check() != before

    def drive(self, client: milepost.Client, writes: int) -> None:
        """Lead the job, write some files, and keep what was acknowledged; wait for the end of another driver."""
        until = time.monotonic() + _DEADLINE
        while True:
            try:
                one = client.of_job(self.name, begin=True)
                with one.session("driver", TTL_SECONDS) as session:
                    return self._write(session.store(self.name), writes)
            except EpochHeld:
                if time.monotonic() >= until:
                    raise

    def _write(self, store: milepost.StateHandleStore, writes: int) -> None:
        account = self.account
        epoch = store.campaign(10.0).epoch
        account.epochs.append(epoch)
        for number in range(writes):
            path = f"checkpoint/{self.random.randint(0, 20)}"
            content = b"%d-%d-" % (epoch, number) + b"x" * self.random.randint(0, 300)
            account.maybe.setdefault(path, set()).add(content)
            store.files.write(path, content)
            account.sure[path] = content
            account.maybe[path] = {content}
        store.files.write(f"checkpoint/commits/{epoch}", b"v1")
        account.sure[f"checkpoint/commits/{epoch}"] = b"v1"
        account.maybe[f"checkpoint/commits/{epoch}"] = {b"v1"}
        if len(account.kept) < 20:
            name = f"kept-{epoch}"
            store.files.make_savepoint(name)
            known = account.sure.items()
            account.kept[name] = {path: content for path, content in known if account.maybe[path] == {content}}
        store.resign()

    def _may_fail(self, writes: int) -> None:
        """Drive the job beside a move: it may be refused, lose its session, or not learn of an outcome."""
        try:
            with milepost.Client(self.list, timeout=15.0) as client:
                self.drive(client, writes)
        except (MilepostError, httpx.HTTPError):
            return

    def _end_driver(self) -> None:
        """End the session that leads the job, as a driver that is killed does after its TTL."""
        try:
            with milepost.Client(self.list, timeout=15.0) as client:
                session = client.job_info(self.name).epoch.session
                if session is not None:
                    client.end_session(session)
        except MilepostError:
            return

    def _mover(self, to: str) -> subprocess.Popen[bytes]:
        main = "from milepost.cli import main; main()"
        command = [sys.executable, "-c", main, "-u", self.list, "jobs", "move", self.name, "--to", to]
        process = subprocess.Popen(
            [*command, "--wait", _MOVERS_WAIT], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._ends.callback(process.kill)
        return process

    def check(self) -> str:
        """Check the job, and return its cell. Raises `Wrong`."""
        account = self.account
        if sorted({*account.epochs}) != sorted(account.epochs):
            raise Wrong(f"an epoch was granted twice: {account.epochs}")
        with milepost.Client(self.list, timeout=60.0) as client:
            cell = client.of_job(self.name).cell
            placements = {
                name: httpx.get(f"{server.url}/v1/jobs/{self.name}/placement", timeout=60.0).json()["placement"]
                for name, server in self.cells.items()
            }
            if [name for name, found in placements.items() if found == "here"] != [cell]:
                raise Wrong(f"the job is in {cell}, and the cells say {placements}")
            files = client.store(self.name).files
            found = _contents(files, "")
            for path, content in found.items():
                if content not in account.maybe.get(path, ()):
                    raise Wrong(f"{path} is {content[:20]!r}, which was not written last")
            if lost := account.sure.keys() - found.keys():
                raise Wrong(f"acknowledged files are lost: {sorted(lost)[:5]}")
            for name, expected in account.kept.items():
                kept = _contents(files, f".snapshot/{name}")
                for path, content in expected.items():
                    if kept.get(path) != content:
                        raise Wrong(f"{path} of the savepoint {name} is {kept.get(path, b'')[:20]!r}")
            if not files.verify(digests=True).intact:
                raise Wrong("files are damaged")
        for path, content in found.items():
            account.sure[path], account.maybe[path] = content, {content}
        return cell


def _contents(files: milepost.JobFiles, root: str) -> dict[str, bytes]:
    start = f"{root}/" if root else ""
    return {each.path.removeprefix(start): files.read(each.path) for each in walk(files, root) if not each.directory}
