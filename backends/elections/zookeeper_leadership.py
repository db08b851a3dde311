"""Leadership that lasts as long as a session with ZooKeeper, and a lease that is surely shorter."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import BadVersionError, NoNodeError, SessionExpiredError

from backends.contract import BackendError
from backends.elections.zookeeper_candidacy import Candidacy
from backends.elections.zookeeper_contact import EXCHANGES
from backends.zookeeper.errors import culprit

log = logging.getLogger("milepost.election")

_AGAIN_SECONDS: Final = 0.05


class SessionLeadership:
    """A `Leadership`. Each exchange is a transaction that checks our entry and changes nothing. An entry that somebody
    else altered is written anew.

    A read would prove nothing: a server that is cut off from the others answers reads for several ticks, while they
    expire the session. A transaction has gone through a majority of them.
    """

    def __init__(self, candidacy: Candidacy, clock: Callable[[], float] = time.monotonic) -> None:
        self._candidacy = candidacy
        self._clock = clock
        self._until = 0.0
        self._sent = 0.0
        self._lasts = 0.0
        self._lost = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """The first exchange; from then on they go on by themselves. Raises `BackendError`."""
        if not await self._exchange():
            self._end("the entry in the election was gone as soon as it was won")
        self._renewing = asyncio.create_task(self._renew(), name="zookeeper-lease")

    def remaining(self, now: float) -> float:
        """See `Leadership.remaining`."""
        return self._until - now

    async def wait_lost(self) -> None:
        """See `Leadership.wait_lost`; also returns after `resign`."""
        await self._lost.wait()

    async def resign(self) -> None:
        """See `Leadership.resign`."""
        self._end("resigned")
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
        await self._candidacy.withdraw()

    async def _renew(self) -> None:
        pause = 0.0
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(pause):
                    await self._candidacy.over.wait()
                self._end("the session with ZooKeeper was lost")
            except TimeoutError:
                renewed = await self._try()
                pause = self._candidacy.connection.session_seconds / EXCHANGES if renewed else _AGAIN_SECONDS

    async def _try(self) -> bool:
        """Whether the lease is renewed; if not, it is tried again soon: a lost connection is back in no time."""
        try:
            if not await self._exchange():
                self._end("the entry in the election is gone")
        except BackendError as error:
            log.warning("cannot renew the lease: %s", error)
            return False
        return True

    async def _exchange(self) -> bool:
        """Prove that the session lives and the entry is there; False if that is over for good."""
        connection = self._candidacy.connection
        try:
            results = await connection.ask("renew the lease", self._check, SessionExpiredError)
        except SessionExpiredError:
            return False
        failure = culprit(results)
        if failure is None and not (self._lost.is_set() or self._candidacy.over.is_set()):
            self._until = max(self._until, self._lasts)
            self._candidacy.contact.note(self._sent, self._clock())
        if failure is not None and isinstance(failure[1], BadVersionError):
            await self._candidacy.rewrite()
        return failure is None or not isinstance(failure[1], NoNodeError)

    def _check(self, client: Any) -> Any:
        self._sent = self._clock()
        self._lasts = self._candidacy.contact.until(self._sent, client.session_seconds, client.connected_at)
        request = client.transaction()
        request.check(self._candidacy.path, self._candidacy.version)
        return request.commit_async()

    def _end(self, why: str) -> None:
        if self._renewing is not None and not self._lost.is_set():
            log.info("leadership is over: %s", why)
        self._until = 0.0
        self._lost.set()
