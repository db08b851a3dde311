"""Leadership that lasts as long as a session with ZooKeeper, and a lease that is surely shorter."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import BadVersionError, SessionExpiredError, ZookeeperError

from backends.contract import BackendError, Misconfigured
from backends.zookeeper.election.candidate import SessionCandidate
from backends.zookeeper.election.evidence import EXCHANGES
from backends.zookeeper.errors import culprit, name_of, refusal

log = logging.getLogger("milepost.election")

_AGAIN_SECONDS: Final = 0.05


class Over(Exception):
    """Leadership can be proven no more."""


class SessionLeadership:
    """A `Leadership`. Each exchange is a transaction that checks our entry and changes nothing, and a read that tells
    whether it is still the one that our session made. An entry that somebody else altered is written anew.

    A read alone would prove nothing: a server that is cut off from the others answers reads for several ticks, while
    they expire the session. A transaction has gone through a majority of them.

    What an exchange of unknown outcome means, the clock tells: the lease is not renewed. A certain failure is the end.
    """

    def __init__(self, candidate: SessionCandidate, clock: Callable[[], float] = time.monotonic) -> None:
        self._candidate = candidate
        self._clock = clock
        self._until = 0.0
        self._sent = 0.0
        self._lasts = 0.0
        self._lost = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """The first exchange; from then on they go on by themselves. Raises `BackendError`."""
        try:
            await self._exchange()
        except Over as error:
            self._end(f"as soon as it was won, {error}")
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
        await self._candidate.withdraw()

    async def _renew(self) -> None:
        pause = 0.0
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(pause):
                    await self._candidate.over.wait()
                self._end("the session with ZooKeeper was lost")
            except TimeoutError:
                renewed = await self._try()
                pause = self._candidate.connection.session_seconds / EXCHANGES if renewed else _AGAIN_SECONDS

    async def _try(self) -> bool:
        """Whether the lease is renewed; if not, it is tried again soon: a lost connection is back in no time."""
        try:
            return await self._exchange()
        except Over as error:
            self._end(str(error))
        except BackendError as error:
            log.warning("cannot renew the lease: %s", error)
        return False

    async def _exchange(self) -> bool:
        """Prove that the session lives and the entry is there, which renews the lease; whether that went well.

        Raises `Over`, `BackendError`.
        """
        candidate = self._candidate
        try:
            results = await candidate.connection.ask("renew the lease", self._check, SessionExpiredError)
            failure = culprit(results)
            if failure is not None:
                await self._failed(failure[1])
                return False
            if not await candidate.holds():
                raise Over(f"the entry in the election, {candidate.path}, is gone, and another one in its place")
        except SessionExpiredError as error:
            raise Over("the session with ZooKeeper has expired") from error
        except Misconfigured as error:
            raise Over(str(error)) from error
        if not (self._lost.is_set() or candidate.over.is_set()):
            self._until = max(self._until, self._lasts)
            candidate.evidence.note(self._sent, self._clock())
        return True

    async def _failed(self, error: ZookeeperError) -> None:
        """The transaction failed. Altered data proves nothing against us; our entry is there, and can be put right.

        Raises `Over`, `BackendError`.
        """
        path = self._candidate.path
        if isinstance(error, BadVersionError):
            if not await self._candidate.rewrite():
                raise Over(f"the entry in the election, {path}, is gone, and another one was in its place")
        elif refusal(error) is not None:
            raise Over(f"the entry in the election, {path}, is gone or may not be read: {name_of(error)}")
        elif self.remaining(self._clock()) <= 0:
            raise Over(f"the lease ran out, and ZooKeeper still answers {name_of(error)}")

    def _check(self, client: Any) -> Any:
        self._sent = self._clock()
        self._lasts = self._candidate.evidence.until(self._sent, client.session_seconds, client.connected_at)
        request = client.transaction()
        request.check(self._candidate.path, self._candidate.version)
        return request.commit_async()

    def _end(self, why: str) -> None:
        if self._renewing is not None and not self._lost.is_set():
            log.info("leadership is over: %s", why)
        self._until = 0.0
        self._lost.set()
