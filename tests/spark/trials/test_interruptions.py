"""Drivers are killed and frozen between any two steps, and at any moment; what is published stays what it must be.

Each chain is one job: its drivers lead one after the other over one input, all of them but the last are interrupted. In
the end each batch is there once and has the rows that the query must give for it. MILEPOST_SPARK_ROUNDS says how many
interruptions there are in all; without it, it is the usual few. Each is printed in one line (pytest -rP).
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.spark.jobs import wait_until
from tests.spark.output.published import published_rows
from tests.spark.trials.queries import write_input
from tests.spark.trials.rounds import Chain, Round, chains, wanted
from tests.spark.trials.stateful import QUERIES
from tests.spark.under_test.process import Driver
from tests.spark.under_test.settings import Setup

pytestmark = [pytest.mark.spark, pytest.mark.long]

_FILES_A_ROUND = 2
_THROTTLE = 0.3
_BATCH_SECONDS = 0.5
_AGAIN = "could not be taken over, standing by again"
"""What a driver logs that lost the lead before it had a query."""
_FENCED = {"Fenced", "SessionExpired", "SessionUnknown", "NoProgress"}


@dataclass(frozen=True)
class Outcome:
    """How one round went, for the table."""

    round: Round
    batch: str
    victim: str
    successor: str
    seconds: float


class Relay:
    """The drivers of one chain: there is always one that leads, and from each interruption on one that stands by."""

    def __init__(
        self, chain: Chain, service: ServerProcess, java_options: str, directory: Path, stack: ExitStack
    ) -> None:
        self.chain = chain
        self.directory = directory
        self.store = f"interrupted-{chain}"
        self.files = 2 + sum(_batches(this) for this in chain.rounds)
        self.outcomes: list[Outcome] = []
        self._service = service
        self._java_options = java_options
        self._stack = stack
        self._count = 0
        write_input(directory / "in", self.files)

    def run(self) -> None:
        """All rounds, and the last driver to the end of the input."""
        leader = self._driver(self.chain.rounds[0])
        _went_on(leader)
        for index, this in enumerate(self.chain.rounds):
            following = self.chain.rounds[index + 1] if index + 1 < len(self.chain.rounds) else None
            successor = self._driver(following)
            began = time.monotonic()
            leader.wait_for("paused")
            successor.wait_for("standing by")
            batch = self._moment(leader, this)
            victim = self._interrupt(leader, successor, this)
            went_on = _went_on(successor)
            self.outcomes.append(Outcome(this, batch, victim, went_on, time.monotonic() - began))
            leader = successor
        assert leader.wait_for("finished", "ended")["event"] == "finished", leader.failed("did not finish")
        assert leader.wait() == 0

    def published(self) -> dict[int, list[tuple[int, int]]]:
        """The rows of each published batch, as a reader without Spark finds them."""
        return published_rows(self._service.url, self.store, self.directory / "out")

    def _driver(self, this: Round | None) -> Driver:
        """A driver that will be interrupted by ``this`` round, or by none."""
        self._count += 1
        mark = self.directory / f"driver-{self._count}"
        pause = "" if this is None else this.since or this.point
        setup = Setup(
            url=self._service.url,
            store=self.store,
            kind=self.chain.kind,
            provider=self.chain.provider,
            input=str(self.directory / "in"),
            output=str(self.directory / "out"),
            scratch=str(mark),
            events=str(mark.with_suffix(".events")),
            java_options=self._java_options,
            go=str(mark.with_suffix(".go")),
            pause=pause,
            pause_at=this.nth if this is not None else 1,
            throttle=_THROTTLE if this is not None and this.since else 0.0,
            most=_batches(this) if this is not None and this.since else 0,
            on=str(mark.with_suffix(".on")),
            blind=this is not None and this.blind,
        )
        return self._stack.enter_context(Driver(setup))

    def _moment(self, leader: Driver, this: Round) -> str:
        """Let the moment of the interruption come; the batch that is being run, as far as one can tell."""
        paused = leader.wait_for("paused")
        if not this.since:
            return str(paused["batch"]) if paused["batch"] >= 0 else "none yet"
        leader.let_go()
        time.sleep(this.after)
        last = [event["batch"] for event in leader.events() if event["event"] == "published"]
        return f"after {last[-1]}" if last else "first"

    def _interrupt(self, victim: Driver, successor: Driver, this: Round) -> str:
        """Interrupt ``victim`` in the midst of its work; how it ended."""
        if this.how == "kill":
            victim.kill()
            return "killed"
        if this.how == "kill python":
            victim.kill_python()
            return "killed"
        victim.freeze()
        successor.wait_for("published", "finished", "paused")
        victim.thaw()
        wait_until(lambda: victim.event("left") is not None or _AGAIN in victim.log.read_text())
        end = victim.event("ended")
        if end is None:
            assert victim.event("left") is None, victim.failed("went on after it was frozen")
            victim.kill()
            return "stood by again"
        victim.wait()
        assert end["error"] in _FENCED, victim.failed("was kept out, but did not say so as itself")
        return str(end["error"])


def _batches(this: Round) -> int:
    """How many batches a driver publishes at most until it is interrupted, so that the last one has some left."""
    return _FILES_A_ROUND + int(this.after / _BATCH_SECONDS)


def _went_on(leader: Driver) -> str:
    """How a driver took over, for the table. One that is to be interrupted on its way in cannot tell more."""
    event = leader.wait_for("leading", "paused")
    if event["event"] == "paused":
        return "took the epoch"
    assert event["resumes_at"] in (event["published"], event["published"] + 1)
    return f"epoch {event['epoch']} went on at {event['resumes_at']}"


@pytest.mark.parametrize("chain", chains(wanted()), ids=str)
def test_every_batch_is_published_once_and_whole(
    chain: Chain,
    service: ServerProcess,
    java_options: str,
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        relay = Relay(chain, service, java_options, tmp_path, stack)
        relay.run()
        expected = QUERIES[chain.kind].expected(relay.files)
        assert relay.published() == dict(enumerate(expected))
    print(f"{chain}: {relay.files} files, {len(expected)} batches, all as expected")
    for number, outcome in enumerate(relay.outcomes, 1):
        print(_line(number, outcome))


def _line(number: int, outcome: Outcome) -> str:
    this = outcome.round
    point = f"{this.since} + {this.after:.1f} s" if this.since else f"{this.point} #{this.nth}"
    blind = " (blind)" if this.blind else ""
    return (
        f"{number:3}  {this.how + blind:16} {point:26} batch {outcome.batch:9} victim: {outcome.victim:15} "
        f"{outcome.successor}, after {outcome.seconds:.1f} s"
    )
