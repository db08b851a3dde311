"""Holds an election by ephemeral, sequential znodes.

The candidate whose znode is first leads. Each other candidate watches the znode before its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kazoo.exceptions import BadVersionError, NoNodeError, SessionExpiredError, ZookeeperError

from milepost_backends.contract import BackendError, Leadership, Misconfigured, StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.election.candidate import (
    EXCHANGES,
    SessionCandidate,
    advertised_in,
    election_of,
    in_order,
)
from milepost_backends.zookeeper.errors import first_failure, name_of, refusal

log = logging.getLogger("milepost.election")

_LOOK_SECONDS: Final = 2.0

_MOST_LOOKED_AT: Final = 16
"""The most entries that are read to find the leader's. Entries that no session owns are skipped.

Such entries were made by other programs. The candidate whose entry comes next deletes them.
"""

_AGAIN_SECONDS: Final = 0.05


class ZooKeeperElection:
    """An `Election` in ZooKeeper, under ``address``. ``advertise`` is the URL of this replica for the others.

    Each campaign has its own session, which is not that of the pointers, so that no renewal of a lease waits behind
    bulk data. ``timeout`` (seconds) bounds the wait for each answer.
    """

    def __init__(self, address: ZooKeeperAddress, advertise: str, *, timeout: float | None = None) -> None:
        self._address = address
        self._advertise = advertise
        self._timeout = timeout
        self._place = election_of(address.root)
        self._looking = ZooKeeperConnection(address, "view of the election", timeout)
        self._open = False
        self._standing: SessionLeadership | None = None
        self._last_damaged = b""

    async def open(self) -> None:
        """Connect to ZooKeeper, and make the znode of the election if it is absent; see `Election.open`."""
        await self._looking.open()
        try:
            await self._looking.ask(f"make {self._place}", lambda client: client.ensure_path_async(self._place))
            await self.leader()
        except BaseException:
            await self._looking.close()
            raise
        self._open = True

    async def close(self) -> None:
        """Withdraw this candidate, and close the connection to ZooKeeper; see `Election.close`."""
        self._open = False
        standing, self._standing = self._standing, None
        if standing is not None:
            await standing.resign()
        await self._looking.close()

    async def campaign(self) -> Leadership:
        """Wait until this replica's entry is the first in the queue of candidates; see `Election.campaign`.

        However the call ends, this replica's entry is deleted unless it leads.
        """
        if not self._open:
            raise StorageUnavailable("the election is not open")
        candidate = SessionCandidate(self._address, self._advertise, self._timeout)
        self._standing = leadership = SessionLeadership(candidate)
        try:
            await candidate.enter()
            await candidate.wait_first()
            await leadership.begin()
        except BaseException:
            await leadership.resign()
            raise
        return leadership

    async def leader(self) -> str | None:
        """Return the URL in the first entry of the queue of candidates; see `Election.leader`."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._first_advertised()
        except TimeoutError as error:
            raise StorageUnavailable(f"ZooKeeper did not answer within {_LOOK_SECONDS:g} s who leads") from error

    async def _first_advertised(self) -> str | None:
        doing = "see who leads"
        queue = in_order(await self._looking.ask(doing, lambda client: client.get_children_async(self._place)))
        for entry in queue[:_MOST_LOOKED_AT]:
            path = f"{self._place}/{entry.name}"
            try:
                data, stat = await self._looking.ask(doing, partial(_get, path), NoNodeError)
            except NoNodeError:
                return None
            if stat.ephemeralOwner:
                return self._named(path, data)
        return None

    def _named(self, path: str, data: bytes) -> str | None:
        advertised = advertised_in(data)
        if advertised is None and data != self._last_damaged:
            self._last_damaged = data
            log.error("the entry of the leader, %s, is damaged, so clients cannot be sent to it: %r", path, data)
        return advertised


def _get(path: str, client: ZooKeeperClient) -> Any:
    return client.get_async(path)


class _LeadershipOver(Exception):
    """This replica cannot prove any more that it leads."""


class SessionLeadership:
    """A `Leadership` by exchanges with ZooKeeper, each of which renews the lease.

    An exchange is a transaction that checks this replica's entry and changes nothing, and then a read that shows
    whether this session made the entry. An entry whose data another program altered is written again.

    A read alone would prove nothing: a server that is cut off from the others answers reads for several ticks, while
    the others expire the session. A transaction, in contrast, goes through a majority of the servers.

    An exchange with an unknown outcome does not renew the lease, so the lease ends at its time if no other exchange
    succeeds. An exchange that certainly failed ends the leadership.
    """

    def __init__(self, candidate: SessionCandidate, clock: Callable[[], float] = time.monotonic) -> None:
        self._candidate = candidate
        self._clock = clock
        self._until = 0.0
        self._sent = 0.0
        self._until_if_done = 0.0  # the end of the lease if the present exchange succeeds
        self._lost = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin to lead: make the first exchange, and start the task that makes the following ones. Raises
        `BackendError`.
        """
        try:
            await self._exchange()
        except _LeadershipOver as error:
            self._end(f"it ended as soon as it was won: {error}")
        self._renewing = asyncio.create_task(self._renew(), name="zookeeper-lease")

    def remaining(self, now: float) -> float:
        """Return the seconds from ``now`` until the end of the lease that the last exchange proved.

        See `Leadership.remaining`.
        """
        return self._until - now

    async def wait_lost(self) -> None:
        """Return once the lease or the entry is lost, or this replica has resigned; see `Leadership.wait_lost`."""
        await self._lost.wait()

    async def resign(self) -> None:
        """Delete this replica's entry, so that the next candidate leads; see `Leadership.resign`."""
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
        """Try to renew the lease, and return whether it was renewed.

        If it was not, the caller soon tries again, since a lost connection often returns.
        """
        try:
            return await self._exchange()
        except _LeadershipOver as error:
            self._end(str(error))
        except BackendError as error:
            log.warning("cannot renew the lease with ZooKeeper now, and try again: %s", error)
        return False

    async def _exchange(self) -> bool:
        """Renew the lease by an exchange with ZooKeeper, and return whether this succeeded.

        Raises `_LeadershipOver` if this replica does not lead any more, and `BackendError`.
        """
        candidate = self._candidate
        try:
            results = await candidate.connection.ask("renew the lease", self._check, SessionExpiredError)
            failure = first_failure(results)
            if failure is not None:
                await self._failed(failure[1])
                return False
            if not await candidate.holds():
                raise _LeadershipOver(f"our entry in the election, {candidate.path}, was replaced by another one")
        except SessionExpiredError as error:
            raise _LeadershipOver("the ZooKeeper session has expired") from error
        except Misconfigured as error:
            raise _LeadershipOver(str(error)) from error
        if not (self._lost.is_set() or candidate.over.is_set()):
            self._until = max(self._until, self._until_if_done)
            candidate.evidence.note(self._sent, self._clock())
        return True

    async def _failed(self, error: ZookeeperError) -> None:
        """Handle the ``error`` of the transaction by which the lease should be renewed.

        If another program altered only the data of this replica's entry, this replica still leads, and writes the entry
        again. Raises `_LeadershipOver` if it does not lead any more, and `BackendError`.
        """
        path = self._candidate.path
        if isinstance(error, BadVersionError):
            if not await self._candidate.rewrite():
                raise _LeadershipOver(f"our entry in the election, {path}, was replaced by another one")
        elif refusal(error) is not None:
            raise _LeadershipOver(f"our entry in the election, {path}, is gone or may not be read: {name_of(error)}")
        elif self.remaining(self._clock()) <= 0:
            raise _LeadershipOver(f"the lease ran out, and ZooKeeper still answers {name_of(error)}")

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
