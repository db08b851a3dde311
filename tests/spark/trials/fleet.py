"""The drivers of one job under a mixture of faults: one leads, others stand by, and one that ended is replaced."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import milepost
from milepost.errors import MilepostError
from milepost.spark.record import JOB
from testbed.server import ServerProcess
from tests.spark.output.published import published_rows
from tests.spark.trials.faults import LEADER, RESTART, STANDBY, Blow, Fault, Round
from tests.spark.trials.queries import Row, lines
from tests.spark.trials.stateful import QUERIES
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

TTL = 8.0
JVM_TIMEOUT = 20.0
DEADLINE_SECONDS = 300.0
_FIRST_FILES = 3
_LATER_FILES = 2
_THROTTLE = 0.4
_POLL = 0.1
_BEGINNING = 1_700_000_000
_CLEAR = {"Fenced", "SessionExpired", "SessionUnknown", "JvmLost"}
"""What a driver may end with that was interrupted, or cut off from the service."""
_SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "terminate": signal.SIGTERM}


@dataclass
class Member:
    """A driver, and what it met."""

    driver: Driver
    hits: list[str] = field(default_factory=list)
    judged: bool = False

    @property
    def epoch(self) -> int:
        """The epoch it leads, or led; 0 before."""
        leading = self.driver.event("leading")
        return 0 if leading is None else int(leading["epoch"])

    @property
    def alive(self) -> bool:
        """Whether it runs, and is not on its way out, as a driver that was killed in part or told to end is."""
        events = {str(event["event"]) for event in self.driver.events()}
        doomed = any(hit.startswith(("kill", "terminate")) for hit in self.hits)
        return self.driver.running and not doomed and not events & {"ended", "finished", "left"}

    @property
    def ready(self) -> bool:
        """Whether it came so far that it stands by, and has not led: who was succeeded ends."""
        return self.alive and not self.epoch and self.driver.event("standing by") is not None


@dataclass
class Tally:
    """What happened, for the report."""

    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    gaps: list[float] = field(default_factory=list)
    files: int = 0


class Fleet:
    """All drivers of a job, its input, and the server it is led by."""

    def __init__(
        self, kind: str, provider: str, server: ServerProcess, java_options: str, directory: Path, stack: ExitStack
    ) -> None:
        self.tally = Tally()
        self.store = f"mixture-{kind}"
        self.output = directory / "out"
        self._kind = kind
        self._provider = provider
        self._server = server
        self._java_options = java_options
        self._directory = directory
        self._stack = stack
        self._members: list[Member] = []
        self._size = 0
        self._client = stack.enter_context(milepost.Client(server.url, timeout=3.0))
        for name in ("in", "coming"):
            (directory / name).mkdir(parents=True)

    def run(self, round_: Round) -> None:
        """One round: each blow met, and all of its input published."""
        self._size = 1 + round_.standbys
        for blow in round_.blows:
            self._man()
            self._feed(_FIRST_FILES)
            time.sleep(blow.after)
            self._strike(blow)
        self._until(self._all_published, "not all of the input was published")

    def expected(self) -> dict[int, list[Row]]:
        """The rows that each published batch must have."""
        ends = self._ends()
        number = self._published() + 1
        return dict(enumerate(QUERIES[self._kind].expected_of([ends[batch] for batch in range(number)])[:number]))

    def rows(self) -> dict[int, list[Row]]:
        """The rows of each published batch."""
        return published_rows(self._server.url, self.store, self.output)

    def _man(self) -> None:
        """Have as many drivers as there should be; go on when one leads and the others stand by."""
        self._replace()
        if not self.tally.files:
            self._feed(1)
        self._until(self._manned, "there is no leader, or no standby")

    def _replace(self) -> None:
        """Start a driver for each that has ended, or is on its way out."""
        self._judge()
        leader = self._leader()
        fit = sum(member.alive and (member is leader or not member.epoch) for member in self._members)
        for _ in range(self._size - fit):
            self._members.append(Member(self._stack.enter_context(Driver(self._setup()))))

    def _manned(self) -> bool:
        self._replace()
        leader = self._leader()
        others = sum(member.ready for member in self._members if member is not leader)
        return leader is not None and others >= self._size - 1

    def _leader(self) -> Member | None:
        """The living driver of the newest epoch."""
        newest = max(self._members, key=lambda member: member.epoch, default=None)
        return newest if newest is not None and newest.epoch and newest.alive else None

    def _strike(self, blow: Blow) -> None:
        """All faults of the blow at once; go on when the job does and what stood still has come to itself."""
        leader = self._leader()
        standby = next((m for m in self._members if m is not leader and m.ready), None)
        before, began = self._published(), time.monotonic()
        epochs = max((m.epoch for m in self._members), default=0)
        undo: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        for fault in blow.faults:
            self.tally.faults[fault.how + (" server" if fault.how == RESTART else f" of {fault.whom}")] += 1
            if fault.how == RESTART:
                self._server.kill()
                undo.append((self._after(fault.seconds), lambda: self._server_back()))
            else:
                member = {LEADER: leader, STANDBY: standby}[fault.whom]
                if member is not None:
                    self._hit(member, fault, epochs, undo)
        self._feed(_LATER_FILES)
        until = time.monotonic() + DEADLINE_SECONDS
        gap = 0.0
        while undo or not gap:
            for due, act in [pair for pair in undo if pair[0]()]:
                act()
                undo.remove((due, act))
            if not gap and self._published() > before:
                gap = time.monotonic() - began
                self._replace()  # not before: who stood by has to go on
            assert time.monotonic() < until, self._complaint(f"nobody went on after {blow}")
            self._judge()
            time.sleep(_POLL)
        self.tally.gaps.append(gap)

    def _hit(
        self, member: Member, fault: Fault, epochs: int, undo: list[tuple[Callable[[], bool], Callable[[], None]]]
    ) -> None:
        how, whom = fault.how.split()
        member.hits.append(str(fault))
        member.driver.send(_SIGNALS[how], whom)
        if how != "freeze":
            return
        waited = self._after(fault.seconds or 1.5 * TTL)
        bounded = self._after(fault.seconds or DEADLINE_SECONDS / 2)
        lasts = fault.seconds or fault.whom == STANDBY

        def over() -> bool:
            return bounded() or (waited() and bool(lasts or max(m.epoch for m in self._members) > epochs))

        undo.append((over, lambda: (member.driver.send(signal.SIGCONT, whom), None)[1]))

    def _server_back(self) -> None:
        self._server.start(until="/livez")

    def _after(self, seconds: float) -> Callable[[], bool]:
        due = time.monotonic() + seconds
        return lambda: time.monotonic() >= due

    def _judge(self) -> None:
        """Whoever has ended did so as one may. A standby that nobody touched never does."""
        for member in self._members:
            if member.judged or member.driver.running:
                continue
            member.judged = True
            status, ended = member.driver.wait(), member.driver.event("ended")
            how = str(ended["error"]) if ended is not None else f"status {status}"
            self.tally.ends[how if member.epoch else f"{how} (standby)"] += 1
            assert member.epoch or member.hits, self._complaint("a standby that nobody touched ended", member)
            killed = any(hit.startswith(("kill python", "kill both")) for hit in member.hits)
            terminated = any(hit.startswith("terminate") for hit in member.hits)
            clear = ended is not None and ended["error"] in _CLEAR and (member.epoch or "JvmLost" in how)
            assert (
                clear or (killed and status == -signal.SIGKILL) or (terminated and status in (0, 128 + signal.SIGTERM))
            ), self._complaint("a driver ended as it may not", member)

    def _published(self) -> int:
        """The batch that was published last, as far as is known at the moment; else -2."""
        try:
            return int(self._client.store(self.store).get(JOB).labels["published"])
        except MilepostError:
            return -2

    def _ends(self) -> dict[int, list[int]]:
        """To which file each batch read, of each source, as the newest driver that came to it reported."""
        ends: dict[int, list[int]] = {}
        for member in sorted(self._members, key=lambda member: member.epoch):
            ends |= {event["batch"]: event["ends"] for event in member.driver.events() if event["event"] == "reads"}
        return ends

    def _all_published(self) -> bool:
        return set(self._ends().get(self._published(), ())) == {self.tally.files - 1}

    def _feed(self, count: int) -> None:
        """Files of input, each whole from its first moment and newer than the one before."""
        for _ in range(count):
            index = self.tally.files
            path = self._directory / "coming" / f"{index:05}.json"
            path.write_text("".join(json.dumps(vars(line)) + "\n" for line in lines(index)))
            os.utime(path, (_BEGINNING + index, _BEGINNING + index))
            path.rename(self._directory / "in" / path.name)
            self.tally.files += 1

    def _setup(self) -> Setup:
        mark = self._directory / f"driver-{len(self._members) + 1}"
        return Setup(
            url=self._server.url,
            store=self.store,
            kind=self._kind,
            provider=self._provider,
            input=str(self._directory / "in"),
            output=str(self.output),
            workdir=str(self._directory / "work"),
            events=str(mark.with_suffix(".events")),
            java_options=self._java_options,
            throttle=_THROTTLE,
            inline_bytes=0,
            max_layers=3,
            ttl=TTL,
            jvm_timeout=JVM_TIMEOUT,
            # Without those each file is one batch, whichever driver reads it, so that its rows are known beforehand.
            spark={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
            available_now=False,
        )

    def _until(self, holds: Callable[[], bool], complaint: str) -> None:
        until = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < until, self._complaint(complaint)
            self._judge()
            time.sleep(_POLL)

    def _complaint(self, complaint: str, member: Member | None = None) -> str:
        members = [
            f"{m.driver.setup.events}: running {m.driver.running}, hits {m.hits}, {m.driver.events()[-3:]}"
            for m in self._members[-6:]
        ]
        log = "" if member is None else str(member.driver.failed(f"was hit by {member.hits}"))
        return "\n".join([complaint, f"published {self._published()} of {self.tally.files} files", *members, log])
