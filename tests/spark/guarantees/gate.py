"""A gate between drivers and the service, at which what they ask for can be made to wait.

It makes the worst moment certain: the sink of a batch has everything, and the request that would make the batch count
stands at the gate until its driver is dead.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from tests.spark.under_test.process import DEADLINE_SECONDS
from tests.support.network.gateway import Fault, Gateway
from tests.support.network.listener import listening

_EPOCH = re.compile(r"^x-milepost-(?P<job>\S+)-(?P<epoch>\d+):", re.MULTILINE | re.IGNORECASE)
_LOG = re.compile(r"^/webhdfs/v1/jobs/(?P<checkpoint>\S+)/(?P<log>offsets|commits)/\.?(?P<batch>\d+)\b")
_VERSION = re.compile(r"/\d+$")
_RECORD = re.compile(r"^/v1/stores/(?P<store>[^/]+)/handles/job$")


@dataclass(frozen=True)
class Ask:
    """A request that moves a query on: Spark's note of a batch in its ``log``, ``offsets`` or ``commits``; or the
    ``record`` of the batch that `milepost.spark.lead` publishes next. A driver's ``keepalive`` is one as well, of no
    query. ``query`` is the last part of a name: that of the
    query, or what comes behind the job's with `milepost.spark.lead`.
    """

    query: str
    log: str
    batch: int
    epoch: int


Point: TypeAlias = "Callable[[Ask], bool]"


class Gate(Gateway):
    """Hands on what comes for ``upstream``, but for what `stop_at` says."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.asked: list[Ask] = []
        self.held: set[str] = set()
        """The queries that stand at the gate, or stood there."""
        self._stops: Point = lambda _: False
        self._open = asyncio.Event()
        self._lost: set[asyncio.Event] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    def stop_at(self, point: Point) -> None:
        """Let requests wait here from now on."""
        self._open = asyncio.Event()
        self._stops = point
        self.held = set()

    def open(self) -> None:
        """Hand on whatever waits, and what will come."""
        self._stops = lambda _: False
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._open.set)

    def lose(self) -> None:
        """Lose whatever waits, as a request is lost on its way whose driver has died; and hand on what will come.

        Spark's commit of a batch is one request: handed on later, it would count.
        """
        self._lost.add(self._open)
        self.open()

    async def _hand_on(self, head: bytes, body: bytes, writer: asyncio.StreamWriter, fault: Fault) -> None:
        asked = self._ask(head.decode())
        if asked is not None:
            self.asked.append(asked)
            if self._stops(asked):
                self.held.add(asked.query)
                gate = self._open
                await gate.wait()
                if gate in self._lost:
                    return
        await super()._hand_on(head, body, writer, fault)

    def _ask(self, head: str) -> Ask | None:
        method, target, _ = head.split("\r\n")[0].split(" ", 2)
        if method == "POST" and target.endswith("/keepalive"):
            return Ask("", "keepalive", -1, 0)
        if method != "PUT":
            return None
        epoch = _EPOCH.search(head)
        if (found := _LOG.match(target)) and "op=CREATE" in target:
            assert epoch is not None, head
            return Ask(_name(found["checkpoint"]), found["log"], int(found["batch"]), int(epoch["epoch"]))
        if found := _RECORD.match(target.partition("?")[0]):
            query = found["store"].rpartition("-")[2]
            batches = [asked.batch for asked in self.asked if (asked.query, asked.log) == (query, "offsets")]
            return Ask(query, "record", max(batches, default=-1), 0)
        return None


def _name(checkpoint: str) -> str:
    """Of ``JOB/checkpoint/queries/NAME`` the name, and of ``JOB-NAME/checkpoint`` and of a pipeline's ``…/NAME/0``."""
    return _VERSION.sub("", checkpoint.removesuffix("/checkpoint")).rpartition("/")[2].rpartition("-")[2]


@contextmanager
def gate(upstream: str) -> Iterator[Gate]:
    """A gate that is open, within the block."""
    ready, end = threading.Event(), asyncio.Event()
    made = Gate(upstream)

    async def serve() -> None:
        async with listening(made):
            made.loop = asyncio.get_running_loop()
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="gate")
    thread.start()
    try:
        assert ready.wait(DEADLINE_SECONDS)
        yield made
    finally:
        if made.loop is not None:
            made.loop.call_soon_threadsafe(end.set)
        thread.join(DEADLINE_SECONDS)
