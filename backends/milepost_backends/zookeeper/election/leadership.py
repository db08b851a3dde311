"""Lead for as long as a session with ZooKeeper lives, by a lease that surely ends before the session."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import BadVersionError, SessionExpiredError, ZookeeperError

from milepost_backends.contract import BackendError, Misconfigured
from milepost_backends.zookeeper.election.candidate import SessionCandidate
from milepost_backends.zookeeper.election.evidence import EXCHANGES
from milepost_backends.zookeeper.errors import first_failure, name_of, refusal

log = logging.getLogger("milepost.election")

_AGAIN_SECONDS: Final = 0.05


class LeadershipOver(Exception):
    """Leadership cannot be proven any more."""


class SessionLeadership:
    """A `Leadership` by exchanges with ZooKeeper, each of which renews the lease.

    An exchange is a transaction that checks our entry and changes nothing, and a read that shows whether the entry is
    still the one that our session made. An entry whose data somebody else altered is written again.

    A read alone would prove nothing: a server that is cut off from the others answers reads for several ticks, while
    they expire the session. A transaction has gone through a majority of the servers.

    An exchange with an unknown outcome does not renew the lease, and the clock decides. A certain failure ends it.
    """

    def __init__(self, candidate: SessionCandidate, clock: Callable[[], float] = time.monotonic) -> None:
        self._candidate = candidate
        self._clock = clock
        self._until = 0.0
        self._sent = 0.0
        self._until_if_done = 0.0  # how far the exchange now under way will take the lease
        self._lost = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Make the first exchange; after it they go on by themselves. Raises `BackendError`."""
        try:
            await self._exchange()
        except LeadershipOver as error:
            self._end(f"it ended as soon as it was won: {error}")
        self._renewing = asyncio.create_task(self._renew(), name="zookeeper-lease")

    def remaining(self, now: float) -> float:
        """See `Leadership.remaining`."""
        return self._until - now

    async def wait_lost(self) -> None:
        """See `Leadership.wait_lost`. It also returns after `resign`."""
        await self._lost.wait()

    async def resign(self) -> None:
        """See `Leadership.resign`."""
        overdue = self.remaining(self._clock()) <= 0
        self._end("given up, since the lease was not renewed in time" if overdue else "given up by this replica")
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
        await self._candidate.resign()

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
        """Return whether the lease was renewed; if not, the next attempt follows soon, as connections often return."""
        try:
            return await self._exchange()
        except LeadershipOver as error:
            self._end(str(error))
        except BackendError as error:
            log.warning("cannot renew the lease with ZooKeeper now, and try again: %s", error)
        return False

    async def _exchange(self) -> bool:
        """Prove that the session lives and the entry is there, which renews the lease; return whether it succeeded.

        Raises `LeadershipOver`, `BackendError`.
        """
        candidate = self._candidate
        try:
            results = await candidate.connection.ask("renew the lease", self._check, SessionExpiredError)
            failure = first_failure(results)
            if failure is not None:
                await self._failed(failure[1])
                return False
            if not await candidate.holds():
                raise LeadershipOver(f"our entry in the election, {candidate.path}, was replaced by another one")
        except SessionExpiredError as error:
            raise LeadershipOver("the ZooKeeper session has expired") from error
        except Misconfigured as error:
            raise LeadershipOver(str(error)) from error
        if not (self._lost.is_set() or candidate.over.is_set()):
            self._until = max(self._until, self._until_if_done)
            candidate.evidence.note(self._sent, self._clock())
        return True

    async def _failed(self, error: ZookeeperError) -> None:
        """Judge a failed transaction. If only the data of our entry was altered, we still lead, and write it again.

        Raises `LeadershipOver`, `BackendError`.
        """
        path = self._candidate.path
        if isinstance(error, BadVersionError):
            if not await self._candidate.rewrite():
                raise LeadershipOver(f"our entry in the election, {path}, was replaced by another one")
        elif refusal(error) is not None:
            raise LeadershipOver(f"our entry in the election, {path}, is gone or may not be read: {name_of(error)}")
        elif self.remaining(self._clock()) <= 0:
            raise LeadershipOver(f"the lease ran out, and ZooKeeper still answers {name_of(error)}")

    def _check(self, client: Any) -> Any:
        self._sent = self._clock()
        self._until_if_done = self._candidate.evidence.until(self._sent, client.session_seconds, client.connected_at)
        request = client.transaction()
        request.check(self._candidate.path, self._candidate.version)
        return request.commit_async()

    def _end(self, why: str) -> None:
        if self._renewing is not None and not self._lost.is_set():
            log.info("leadership in ZooKeeper is over: %s", why)
        self._until = 0.0
        self._lost.set()
