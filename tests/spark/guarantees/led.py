"""The trial of jobs that `milepost.spark.lead` leads.

It goes as in `tests.spark.guarantees.run`, but that a driver keeps its own session, and so stands still as a whole.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from tests.spark.guarantees.gate import Ask, Gate
from tests.spark.guarantees.outputs import KILLED_IN, Outputs
from tests.spark.guarantees.program import Setup
from tests.spark.under_test.process import Driver

_PROGRAM = "tests.spark.guarantees.program"
PROTECTED = ("files", "once", "jdbc")


def counting(asked: Ask) -> bool:
    """The request that makes batch 1 count: with the sinks of Milepost's the record, else Spark's own commit."""
    log = "record" if asked.query in PROTECTED else "commits"
    return (asked.log, asked.batch) == (log, KILLED_IN)


class Led:
    """One such trial. ``ends`` is how the queries of the driver that came too late have ended."""

    def __init__(
        self,
        job: str,
        outputs: Outputs,
        gate: Gate,
        sinks: tuple[str, ...],
        java_options: str,
        jars: str,
        database: str = "",
    ) -> None:
        outputs = replace(outputs, tree=f"webhdfs://{gate.address}/jobs/{job}-tree/tree")  # of the job that writes it
        self.job, self.outputs, self.gate = job, outputs, gate
        self.ends: dict[str, str] = {}
        self.setup = Setup(
            url=gate.url,
            job=job,
            sinks=sinks,
            directory=str(outputs.directory),
            tree=outputs.tree,
            kafka=outputs.topics.address,
            target=outputs.topic,
            events="",
            java_options=java_options,
            jars=jars,
            go=str(outputs.directory / "go"),
            database=database,
        )

    def go(self) -> None:
        """Have it all happen."""
        sinks = list(self.setup.sinks)
        self.gate.stop_at(counting)
        with ExitStack() as stack:
            first = stack.enter_context(self.driver(1))
            first.wait_for("started")
            second = stack.enter_context(self.driver(2))
            first.until(lambda: self.gate.held == set(sinks), "did not bring each batch to the gate")
            self.outputs.arm(sinks)
            first.kill()
            self.gate.lose()
            second.wait_for("started")
            second.until(lambda: self.outputs.stands(sinks), "did not come to stand in a task of each sink")
            third = stack.enter_context(self.driver(3))
            second.freeze()
            third.wait_for("finished")
            assert set(ends(third).values()) == {"well"}, third.failed("did not finish well")
            self.gate.stop_at(lambda asked: asked.log == "keepalive")  # nobody tells it before it has written
            second.thaw()
            second.wait_for("finished")
            self.gate.open()
            self.ends = ends(second)

    def driver(self, number: int) -> Driver:
        """One more driver."""
        events = self.outputs.directory / f"driver-{number}.events"
        return Driver(replace(self.setup, events=str(events)), _PROGRAM)

    def refused(self, sink: str) -> bool:
        """Whether the driver that came too late was told so."""
        return self.ends[sink].startswith(("Fenced: ", "SessionExpired: "))


def ends(driver: Driver) -> dict[str, str]:
    """How its queries have ended, by their sinks."""
    return {event["sink"]: event["how"] for event in driver.events() if event["event"] == "query ended"}
