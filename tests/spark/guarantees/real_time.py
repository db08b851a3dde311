"""The trial of real-time mode, in which rows are in the sinks long before Spark logs that they were read.

It goes as in `tests.spark.guarantees.led`. But a batch here is whatever came in five seconds, so no row is sure of its
batch, and the logs say what counts: rows are told by their offsets in the topic, which are their values.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import httpx

from tests.spark.guarantees.gate import Ask, Gate
from tests.spark.guarantees.led import Led, ends
from tests.spark.guarantees.outputs import ROWS, Outputs
from tests.spark.under_test.process import DEADLINE_SECONDS

SINKS = ("kafka", "foreach", "sums")
ENDS = tuple(ROWS * (part + 1) for part in range(4))
"""How many rows there are in the end of each part of the trial: with the first driver at work, when it is killed, when
the second one freezes, and when the third one has finished."""
_TTL = 12.0


@dataclass(frozen=True)
class Logs:
    """What queries have logged, as the service has it; ``job`` is what their names begin with."""

    url: str
    job: str

    def committed(self, sink: str) -> int:
        """The offset up to which batches are committed."""
        batches = self.commits(sink)
        return self.reached(sink, max(batches)) if batches else 0

    def commits(self, sink: str) -> list[int]:
        """The numbers of committed batches; the oldest ones are deleted in time."""
        answer = httpx.get(f"{self._checkpoint(sink)}/commits", params={"op": "LISTSTATUS"}, timeout=DEADLINE_SECONDS)
        if answer.status_code == 404:
            return []
        found = answer.raise_for_status().json()["FileStatuses"]["FileStatus"]
        return [int(status["pathSuffix"]) for status in found if status["pathSuffix"].isdigit()]

    def reached(self, sink: str, batch: int) -> int:
        """The offset up to which a batch has read, which Spark logs at its end."""
        path = f"{self._checkpoint(sink)}/offsets/{batch}"
        answer = httpx.get(path, params={"op": "OPEN"}, timeout=DEADLINE_SECONDS, follow_redirects=True)
        logged = json.loads(answer.raise_for_status().text.splitlines()[-1])
        ((offset,),) = [partitions.values() for partitions in logged.values()]
        return int(offset)

    def _checkpoint(self, sink: str) -> str:
        return f"{self.url}/webhdfs/v1/jobs/{self.job}-{sink}/checkpoint"


class RealTime(Led):
    """The trial. ``killed`` and ``frozen`` are the offsets that were committed when that happened, by the sinks."""

    def __init__(self, job: str, outputs: Outputs, gate: Gate, service_url: str, java_options: str, jars: str) -> None:
        super().__init__(job, outputs, gate, SINKS, java_options, jars)
        self.setup = replace(self.setup, source=f"{outputs.topic}-source", ttl=_TTL)
        self.logs = Logs(service_url, job)
        self.killed: dict[str, int] = {}
        self.frozen: dict[str, int] = {}

    def go(self) -> None:
        """Have it all happen."""
        topics = self.outputs.topics
        topics.make(self.setup.source, 1)
        topics.make(f"{self.outputs.topic}-sums", 1)
        with ExitStack() as stack:
            self._put(0)
            first = stack.enter_context(self.driver(1))
            first.wait_for("started")
            second = stack.enter_context(self.driver(2))
            first.until(lambda: self._committed(ENDS[0]), "did not commit the first rows")

            self.gate.stop_at(self._counting)
            self._put(1)
            first.until(lambda: self.gate.held == set(SINKS), "did not bring each commit to the gate")
            first.kill()
            self.killed = {sink: self.logs.committed(sink) for sink in SINKS}
            self.gate.lose()
            second.wait_for("started")
            third = stack.enter_context(self.driver(3))
            second.until(lambda: self._committed(ENDS[1]), "did not go on")

            self.outputs.arm(list(SINKS))
            self._put(2)
            second.until(self._stands, "did not come to stand in a task of each sink")
            self.frozen = {sink: self.logs.committed(sink) for sink in SINKS}
            second.freeze()
            self._put(3)
            third.until(lambda: self._committed(ENDS[3]), "did not come to the end")
            third.terminate()
            if (
                third.wait() != 128 + signal.SIGTERM
            ):  # each job's query is stopped, so that the program comes to its end
                raise third.failed("did not end in order")

            self.gate.stop_at(lambda asked: asked.log == "keepalive")  # nobody tells it before it has written
            second.thaw()
            second.wait_for("finished")
            self.gate.open()
            self.ends = ends(second)

    def _put(self, part: int) -> None:
        last = ENDS[part]
        self.outputs.topics.put(self.setup.source, [("", value) for value in range(last - ROWS, last)])

    def _committed(self, end: int) -> bool:
        return all(self.logs.committed(sink) >= end for sink in SINKS)

    def _counting(self, asked: Ask) -> bool:
        """The commit of the batch that ends the second part. Its offsets are logged by then.

        The service is asked straight, not by the gate, which stands still meanwhile.
        """
        return asked.log == "commits" and self.logs.reached(asked.query, asked.batch) == ENDS[1]

    def _stands(self) -> bool:
        """Whether a task of each sink stands still, and nothing is left to be logged of the batches before its own."""
        batches = {sink: self.outputs.held_in(sink) for sink in SINKS}
        return all(batch is not None and batch - 1 in self.logs.commits(sink) for sink, batch in batches.items())


def prefixes(values: Sequence[int]) -> list[str]:
    """What a sum of these says of itself on its way: how many values it has, and their sum."""
    return [f"{count} {sum(values[:count])}" for count in range(1, len(values) + 1)]
