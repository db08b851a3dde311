"""A trial: writers and watchers go on while leaders are killed, stopped and asked to step down; then all is checked."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from milepost import Client
from milepost.errors import MilepostError
from milepost.job_types import HistoryEntry
from testbed.process import Process
from testbed.replicas import Replicas
from tests.system.watches.account import Account
from tests.system.watches.checker import complaints
from tests.system.watches.watchers import Watcher

STORE = "watched"
HANDLES = "watched-handles"
CALL_SECONDS = 240.0
_QUIET_SECONDS = 0.02


class Embedded(Replicas):
    """Two replicas on one SQLite file: the second leads once the first has let go of it."""

    def __init__(self, directory: Path) -> None:
        (directory / "shared").mkdir(parents=True)
        pointers, blobs = f"embedded:{directory}/shared/pointers", f"file:{directory}/shared/blobs"
        super().__init__(directory, pointers=pointers, blobs=blobs, count=2)

    @property
    def below(self) -> Sequence[Process]:
        """See `Replicas.below`."""
        return []

    def mend_below(self, deadline: float) -> None:
        """See `Replicas.mend_below`."""

    def end_below(self) -> None:
        """See `Replicas.end_below`."""


@dataclass
class Outcome:
    """What a trial found, and how much it did."""

    complaints: list[str]
    account: Account
    fail_overs: dict[str, int]
    gaps: int
    events: int
    connections: int

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {how}" for how, count in sorted(self.fail_overs.items()))
        done = f"{len(self.account.acknowledged)} acts acknowledged, {len(self.account.unknown)} unknown"
        seen = f"{self.events} events over {self.connections} connections, {self.gaps} announced gaps"
        return f"{sum(self.fail_overs.values())} fail-overs ({ends}); {done}; {seen}; {len(self.complaints)} complaints"


@dataclass
class Writers:
    """Two threads that write until they are told to end: one replaces handles, the other leads the job each time that
    `lead_once` asks for it, so that the job's history keeps all of it.
    """

    urls: Sequence[str]
    account: Account
    over: threading.Event = field(default_factory=threading.Event)
    faults: list[BaseException] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=lambda: {"handles": 0, "job": 0})
    asked: int = 0
    attempts: Iterator[int] = field(default_factory=itertools.count)
    _leads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Write for as long as the block runs. Raises the first fault of a writer."""
        parts: dict[str, Callable[[Client, str], None]] = {"handles": self._replace, "job": self._lead}
        threads = [threading.Thread(target=self._write, args=each, daemon=True) for each in parts.items()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            self._leads.release()
            for thread in threads:
                thread.join(2 * CALL_SECONDS)
        if self.faults:
            raise self.faults[0]

    def lead_once(self) -> None:
        """Let the job be led for a batch."""
        self.asked += 1
        self._leads.release()

    def wait_for_steps(self) -> None:
        """Wait until handles were written once more, and the job was led as often as asked. Raises TimeoutError."""
        before, end = self.steps["handles"], time.monotonic() + CALL_SECONDS
        while self.steps["handles"] == before or self.steps["job"] < self.asked:
            if self.faults:
                raise self.faults[0]
            if time.monotonic() > end:
                raise TimeoutError(f"a writer stands still: {self.steps}, and {self.asked} leads were asked for")
            time.sleep(_QUIET_SECONDS)

    def _write(self, part: str, step: Callable[[Client, str], None]) -> None:
        try:
            with Client(self.urls, timeout=CALL_SECONDS) as client:
                while not self.over.is_set():
                    if part == "job":
                        self._leads.acquire()
                    while not self.over.is_set():
                        try:
                            step(client, f"{part}-{next(self.attempts)}")
                        except MilepostError:
                            continue  # the account has it as unknown
                        self.steps[part] += 1
                        break
                    self.over.wait(_QUIET_SECONDS)
        except BaseException as fault:  # shown to the thread that waits
            self.faults.append(fault)
            raise

    def _replace(self, client: Client, name: str) -> None:
        """Add a handle, replace it and remove it."""
        with client.session("writer", ttl=600) as session:
            store = session.store(HANDLES)
            handle = self.account.did("added", lambda: store.add_and_lock(name, b"1"), lambda each: each.version)
            for _ in range(3):
                replace = partial(store.replace, name, handle.version, b"2")
                handle = self.account.did("replaced", replace, lambda each: each.version)
            store.release_and_try_remove(name)

    def _lead(self, client: Client, name: str) -> None:
        """Lead the job for a batch, and now and then a savepoint. Every other time the session ends unresigned."""
        with client.session(name, ttl=60) as session:
            store = session.store(STORE)
            epoch = self.account.did(
                "epoch-granted", lambda: store.campaign(wait=CALL_SECONDS), lambda each: each.epoch
            )
            files, batch = store.under(epoch.epoch).files, epoch.epoch
            self.account.did("batch-committed", lambda: files.write(f"q/commits/{batch}", b"v1"), lambda _: batch)
            if batch % 4 == 0:
                self.account.did("savepoint-made", lambda: files.make_savepoint(name), lambda _: name)
                files.drop_savepoint(name)
            if batch % 2:
                store.resign()


def play(deployment: Replicas, rounds: int, seed: int, report: Callable[[str], None] = lambda _: None) -> Outcome:
    """Let ``rounds`` leaders end under writers and watchers, and check all that the watchers got."""
    chance, account = random.Random(seed), Account()
    fail_overs: dict[str, int] = {}
    urls = deployment.urls
    with ExitStack() as opened:
        client = opened.enter_context(Client(urls, timeout=CALL_SECONDS))
        with client.session("founder", ttl=600) as session:
            for each in (STORE, HANDLES):
                session.store(each).add_and_lock("founding", b"1")
        first = _revision(urls)
        names = (("stores", HANDLES), ("stores", STORE), ("jobs", STORE))
        watchers = [opened.enter_context(Watcher(urls, of, name, str(first))) for of, name in names]
        handles, epochs, job = watchers
        sdk = opened.enter_context(_Sdk(urls).watching())
        writers = Writers(urls, account)
        with writers.at_work():
            for number in range(rounds):
                writers.lead_once()
                writers.wait_for_steps()
                how = chance.choice(("killed", "stopped", "stepped-down"))
                fail_overs[how] = fail_overs.get(how, 0) + 1
                writers.lead_once()
                _end_leader(deployment, how)
                writers.wait_for_steps()
                deployment.mend(CALL_SECONDS)
                report(
                    f"{number + 1} of {rounds}: {how}; {len(account.acknowledged)} acts, {len(job.events)} of the job"
                )
        last = _revision(urls)
        for watcher in watchers:
            watcher.wait_for(last, CALL_SECONDS)
        history = _history(urls)
        found = complaints(handles, epochs, job, account, [each for each in history if each["revision"] > first])
        found += sdk.complaints(history)
        gaps, events, connections = (
            sum(counts)
            for counts in zip(*((len(each.gaps), len(each.events), each.connections) for each in watchers), strict=True)
        )
        return Outcome(found, account, fail_overs, gaps, events, connections)


def _end_leader(deployment: Replicas, how: str) -> None:
    leader = deployment.leader(CALL_SECONDS)
    if how == "stepped-down":
        with Client(leader.url, timeout=CALL_SECONDS) as client:
            client.step_down()
    elif how == "stopped":
        leader.terminate()
        leader.wait()
    else:
        leader.kill()


class _Sdk:
    """A program that believes the SDK's watch of a job, from the first entry on."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._client = Client(urls, timeout=CALL_SECONDS)
        self._got: list[HistoryEntry] = []

    @contextmanager
    def watching(self) -> Iterator[_Sdk]:
        """Watch until the block ends."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._client.close()
            thread.join(CALL_SECONDS)

    def complaints(self, history: Sequence[Any]) -> list[str]:
        """What the program got is the history, as soon as the last entry has come."""
        end = time.monotonic() + CALL_SECONDS
        while not self._got or self._got[-1].id != history[-1]["id"]:
            if time.monotonic() > end:
                break
            time.sleep(_QUIET_SECONDS)
        got = [entry.id for entry in self._got]
        kept = [each["id"] for each in history]
        return [] if got == kept else [f"SDK: {[*{*kept} ^ {*got}]} are not in both, or come in another order"]

    def _watch(self) -> None:
        try:
            for entry in self._client.job_events(STORE, existing=True):
                self._got.append(entry)
        except MilepostError:
            return  # the client was closed, or what is missing is told by `complaints`


def _asked(urls: Sequence[str], path: str) -> httpx.Response:
    """The answer of the leader, as soon as there is one. Raises TimeoutError."""
    end = time.monotonic() + CALL_SECONDS
    with httpx.Client(timeout=10.0, trust_env=False, follow_redirects=True) as http:
        while time.monotonic() < end:
            for url in urls:
                try:
                    answer = http.get(url + path)
                except httpx.HTTPError:
                    continue
                if answer.status_code == 200:
                    return answer
            time.sleep(_QUIET_SECONDS)
    raise TimeoutError(f"GET {path} is not answered within {CALL_SECONDS:g} s")


def _revision(urls: Sequence[str]) -> int:
    return int(_asked(urls, f"/v1/stores/{STORE}/epoch").headers["Milepost-Revision"])


def _history(urls: Sequence[str]) -> list[Any]:
    entries: list[Any] = _asked(urls, f"/v1/jobs/{STORE}/history").json()["entries"]
    return entries[::-1]
