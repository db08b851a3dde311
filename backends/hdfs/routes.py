"""Ways to the NameNodes of one HDFS, and which of them is taken when calls hang.

At first one client asks all NameNodes, as the library does by itself. But it waits for ever for one that has gone
silent. From then on each NameNode has a client of its own, and they take turns: no call to one hangs on another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from hdfs_native import Client

from backends.hdfs.address import HdfsAddress
from backends.hdfs.configuration import each_alone
from backends.hdfs.threads import PatientThreads

# Each client that was let go of keeps threads of its own for as long as calls hang on it, one for each processor.
_LET_GO: Final = 8
# A DataNode is silent: then the client turns to the next one by itself, which must come before the call's own end.
_SOCKET_TIMEOUTS_IN_A_DEADLINE: Final = 2


class Route:
    """One client at a time, and the threads its calls are in: ``calls`` to NameNodes, ``steps`` with DataNodes.

    A client on which calls hang is let go of, and with it their count. The pauses before that grow, and there is a
    last one, for the new client may have to hang as well.
    """

    def __init__(self, make: Callable[[], Client], deadline: float) -> None:
        self._make = make
        self._deadline = deadline
        self._making = asyncio.Lock()
        self._makers = PatientThreads(deadline)
        self._client: Client | None = None
        self.calls = PatientThreads(deadline)
        self.steps = PatientThreads(deadline)
        self._let_go: list[PatientThreads] = []
        self._times = 0
        self._not_before = 0.0

    async def client(self) -> Client:
        """The one client; made if there is none. Raises what making it does, and TimeoutError."""
        async with self._making:
            if self._client is None:
                self._client = await self._makers.ask(self._make)
            return self._client

    def hangs(self, client: Client) -> None:
        """A call on ``client`` has got no answer: another client is made for the next one, if it is time for that."""
        self._let_go = [threads for threads in self._let_go if threads.left_behind]
        now = time.monotonic()
        if client is self._client and now >= self._not_before and len(self._let_go) < _LET_GO:
            self._times += 1
            self._not_before = now + self._deadline * 2**self._times
            self._let_go.append(self.calls)
            self._client = None
            self.calls, self.steps = PatientThreads(self._deadline), PatientThreads(self._deadline)

    def answers(self, client: Client) -> None:
        """A call on ``client`` got an answer."""
        if client is self._client:
            self._times = 0
            self._not_before = 0.0


class HdfsRoutes:
    """All ways to the NameNodes at ``address``; ``now`` is the one to take."""

    def __init__(self, address: HdfsAddress, deadline: float) -> None:
        self._address = address
        self._deadline = deadline
        self.now = Route(self._common, deadline)
        self._alone: list[dict[str, str]] = []
        self._others: list[Route] = []

    @property
    def takes_turns(self) -> bool:
        """Whether ``now`` leads to one of several NameNodes."""
        return self.now in self._others

    def leave(self, route: Route) -> None:
        """Take the next one, if ``route`` is the one that was taken."""
        if route is not self.now:
            return
        if not self._others:
            self._others = [Route(partial(self._made, alone), self._deadline) for alone in self._alone]
        if self._others:
            last = self._others.index(route) if route in self._others else -1
            self.now = self._others[(last + 1) % len(self._others)]

    def _common(self) -> Client:
        self._alone = each_alone(self._address)
        return self._made({})

    def _made(self, settings: Mapping[str, str]) -> Client:
        """Reads files, and may look up names and credentials."""
        milliseconds = round(self._deadline * 1000 / _SOCKET_TIMEOUTS_IN_A_DEADLINE)
        return Client(self._address.file_system, {"dfs.client.socket-timeout": str(milliseconds), **settings})
