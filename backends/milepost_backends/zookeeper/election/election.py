"""Hold an election by ephemeral, sequential znodes: the first leads, and each other one watches the one before it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Final

from kazoo.exceptions import NoNodeError

from milepost_backends.contract import Leadership, StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.election.candidate import SessionCandidate
from milepost_backends.zookeeper.election.entries import advertised_in, election_of, in_order
from milepost_backends.zookeeper.election.leadership import SessionLeadership

log = logging.getLogger("milepost.election")

_LOOK_SECONDS: Final = 2.0

_MOST_LOOKED_AT: Final = 16
"""So many entries are read in search of the leader's, since entries that belong to no session are passed over.

Somebody else made those; each is deleted by the candidate whose entry comes after it.
"""


class ZooKeeperElection:
    """An `Election` under ``address``; ``advertise`` is the URL that other replicas are given.

    Each campaign has a session of its own, apart also from that of the pointers, so that no exchange waits behind bulk
    data. ``timeout`` (seconds) bounds the wait for each answer.
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
        """See `Election.open`."""
        await self._looking.open()
        try:
            await self._looking.ask(f"make {self._place}", lambda client: client.ensure_path_async(self._place))
            await self.leader()
        except BaseException:
            await self._looking.close()
            raise
        self._open = True

    async def close(self) -> None:
        """See `Election.close`."""
        self._open = False
        standing, self._standing = self._standing, None
        if standing is not None:
            await standing.resign()
        await self._looking.close()

    async def campaign(self) -> Leadership:
        """See `Election.campaign`. However it ends, it leaves no entry but that of a leader."""
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
        """See `Election.leader`."""
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
