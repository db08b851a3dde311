"""One candidate in ZooKeeper: a session with an entry in the queue, until it is withdrawn or lost.

An entry is named ``<candidacy>-<sequence>``. The candidacy is a random id which the candidate chooses, so that it finds
its entry even if the answer to the creation was lost; ZooKeeper appends the sequence number. The entry contains
``{"schema": 1, "advertise": …, "check": …}``: the URL at which clients reach the candidate, and a checksum over that
URL, so that no client is sent to a URL that was altered. A znode with another name is not an entry.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kazoo.exceptions import BadVersionError, ConnectionLoss, NoNodeError

from milepost_backends.contract import StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.connection import Bridge, ZooKeeperConnection

log = logging.getLogger("milepost.election")

_ATTEMPTS: Final = 20
"""The most attempts to enter the queue: each may end with a lost connection and without an entry."""

CERTAIN: Final = 0.75
"""The part of a session's timeout for which a lease lasts at most, from when the exchange that renewed it was sent."""

_REPORTED: Final = 0.25
"""The part of a session's timeout after which a server that still runs has reported the exchange that it answered."""

EXCHANGES: Final = 8
"""The number of exchanges in one timeout of the session: by a candidate while it waits, and by a leader."""

_KEPT: Final = 64
"""The number of remembered exchanges, the latest ones."""

_SCHEMA: Final = 1
_ENTRY: Final = re.compile(r"([0-9a-f]{32})-(\d{10})\Z")


class SessionCandidate:
    """A candidate with its own session: when the session ends, ZooKeeper removes its entry from the queue at once.

    That also holds for an entry whose creation was sent and not answered.
    """

    def __init__(self, address: ZooKeeperAddress, advertise: str, timeout: float | None = None) -> None:
        self.connection = ZooKeeperConnection(address, "election", timeout)
        self.evidence = SessionEvidence()
        self._place = election_of(address.root)
        self._advertise = advertise
        self._name = uuid.uuid4().hex
        self._entry: Entry | None = None
        self.version = 0
        """The version of this candidate's entry; another version means that another program wrote it."""
        self._changed = asyncio.Event()
        self._bridge = Bridge(asyncio.get_running_loop())
        self.over = asyncio.Event()

    @property
    def path(self) -> str:
        """Return the path of this candidate's entry."""
        assert self._entry is not None, "there is no entry yet"
        return f"{self._place}/{self._entry.name}"

    async def enter(self) -> None:
        """Take a place in the queue. Raises `Misconfigured`, `StorageUnavailable`."""
        await self.connection.open()
        self.over = self.connection.lost
        await self.connection.ask(f"make {self._place}", lambda client: client.ensure_path_async(self._place))
        for _ in range(_ATTEMPTS):
            try:
                made = [await self.connection.ask("enter the election", self._create, ConnectionLoss)]
            except ConnectionLoss:
                log.debug("lost the connection while entering the election; looking for our entry in the queue")
                made = []
            entries = in_order(path.rpartition("/")[2] for path in made) or await self._queue()
            self._entry = next((entry for entry in entries if entry.candidacy == self._name), None)
            self._check()
            if self._entry is not None:
                return
        raise StorageUnavailable(f"the connection to ZooKeeper was lost {_ATTEMPTS} times while entering the election")

    async def wait_first(self) -> None:
        """Wait until this candidate's entry is the first. Raises `StorageUnavailable` once the entry is lost."""
        while True:
            queue = await self._queue()
            self._check()
            if self._entry not in queue:
                raise StorageUnavailable("our entry in the election is gone")
            place = queue.index(self._entry)
            if place == 0:
                return
            await self._wait_for_change(f"{self._place}/{queue[place - 1].name}")
            self._check()

    async def holds(self) -> bool:
        """Return whether the entry is the one that this session made: another program may have replaced it.

        Requests that this session sent before have been carried out once this returns. Raises `BackendError`.
        """
        stat, session = await self._look(self.path)
        return stat is not None and stat.ephemeralOwner == session

    async def rewrite(self) -> bool:
        """Write this candidate's entry again, which another program altered; return whether it was this candidate's.
        Raises `BackendError`.
        """
        if not await self.holds():
            return False
        log.error("somebody else altered our entry in the election, %s; it is written again", self.path)
        try:
            stat = await self.connection.ask(
                "write our entry again",
                lambda client: client.set_async(self.path, encode(self._advertise)),
                NoNodeError,
            )
        except NoNodeError:
            return False
        self.version = int(stat.version)
        return True

    async def resign(self) -> None:
        """Leave the queue. Idempotent. It never raises: a session that cannot be closed now is left to expire."""
        await self.connection.close(reconnecting=True)

    def _create(self, client: Any) -> Any:
        return client.create_async(
            f"{self._place}/{self._name}-", encode(self._advertise), ephemeral=True, sequence=True
        )

    async def _queue(self) -> list[Entry]:
        """Return the present queue: the server first catches up, so that it shows an entry that this candidate has just
        made.
        """
        await self.connection.ask("catch up", lambda client: client.sync_async(self._place))
        names = await self.connection.ask("see the queue", lambda client: client.get_children_async(self._place))
        return in_order(names)

    async def _wait_for_change(self, path: str) -> None:
        """Wait for a change of the entry before this one or of the session, or for one timeout of the session.

        The loop asks again and again: these exchanges prove, once this candidate leads, that the servers have heard
        from its session.
        """
        self._changed.clear()
        for _ in range(EXCHANGES):
            if not await self._is_there(path) or await self._woken(self.connection.session_seconds / EXCHANGES):
                return

    async def _is_there(self, path: str) -> bool:
        """Return whether the entry exists, by a read, which only the server of this connection carries out."""
        sent = time.monotonic()
        stat, _ = await self._look(path, watch=self._notice)
        self.evidence.note(sent, time.monotonic())
        if stat is not None and not stat.ephemeralOwner:
            await self._delete(path, int(stat.version))
        return stat is not None

    async def _look(self, path: str, watch: Callable[[Any], None] | None = None) -> tuple[Any, int]:
        """Return ZooKeeper's status of an entry, None if it does not exist; and the id of this session."""
        session = 0

        def look(client: ZooKeeperClient) -> Any:
            nonlocal session
            session = client.session_id
            return client.exists_async(path, watch=watch)

        return await self.connection.ask("watch the queue", look), session

    async def _delete(self, path: str, version: int) -> None:
        """Delete an entry that no session owns: no candidate made it, and it would never disappear."""
        log.error("%s belongs to no session, so somebody else made it; it is deleted", path)
        with suppress(NoNodeError, BadVersionError):
            await self.connection.ask(
                f"delete {path}", lambda client: client.delete_async(path, version), NoNodeError, BadVersionError
            )

    async def _woken(self, seconds: float) -> bool:
        """Return whether the queue or the session changed within ``seconds``."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, self.over)]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return bool(done)

    def _notice(self, event: Any) -> None:
        """Wake the candidate, from kazoo's thread. The same callable each time, so that kazoo keeps only one watch."""
        del event  # the queue is read again after any event
        self._bridge.post(self._changed.set)

    def _check(self) -> None:
        if self.over.is_set():
            raise StorageUnavailable("the ZooKeeper session of the election was lost, and the candidacy with it")


class SessionEvidence:
    """The exchanges of one session, which prove when the servers heard from it. All times are monotonic seconds.

    Sessions are expired by one server, ZooKeeper's own leader, which does not see the requests that other servers
    answer. It pings these servers every half tick, which is at most a quarter of a session's timeout, and they report
    which sessions they have heard from. But a server may stop before it has reported. So an exchange counts only if
    that server has also carried out a transaction that was sent a quarter of a timeout, or more, after the exchange was
    answered: by then it had reported. When a session is made, or is resumed by another server, ZooKeeper's leader
    learns of it directly.
    """

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def note(self, sent: float, answered: float) -> None:
        """Record an exchange that was sent at ``sent`` or later, and answered at ``answered`` or earlier."""
        self._exchanges.append((sent, answered))

    def until(self, sent: float, timeout: float, connected: float) -> float:
        """Return until when the session certainly lasts, provided that the transaction now sent, at ``sent``, succeeds.

        ``timeout`` is that of the session. ``connected`` is a time no later than when the session was made, or resumed
        by the present server.
        """
        reported = sent - _REPORTED * timeout
        heard = max((begun for begun, answered in self._exchanges if answered <= reported), default=connected)
        return min(sent + CERTAIN * timeout, max(heard, connected) + timeout)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One candidate's place in the queue. The lower sequence number sorts first."""

    sequence: int
    candidacy: str

    @property
    def name(self) -> str:
        """Return the name of the znode."""
        return f"{self.candidacy}-{self.sequence:010d}"


def election_of(root: str) -> str:
    """Return the path of the znode that contains all entries; ``root`` is the path of the deployment."""
    return f"{root}/election"


def in_order(names: Iterable[str]) -> list[Entry]:
    """Return the entries among the ``names`` of znodes, in the order in which they were made: the first leads."""
    found = (_ENTRY.match(name) for name in names)
    return sorted(Entry(int(entry[2]), entry[1]) for entry in found if entry is not None)


def encode(advertise: str) -> bytes:
    """Return the bytes of an entry. They depend only on the URL, so `advertised_in` can compare them."""
    check = hashlib.blake2b(advertise.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    return json.dumps({"schema": _SCHEMA, "advertise": advertise, "check": check}).encode()


def advertised_in(data: bytes) -> str | None:
    """Return the advertised URL in an entry; None unless it has exactly the bytes that `encode` makes from that URL.

    So it is None if another program altered the entry, and also if a release with another schema wrote it.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match content:
        case {"advertise": str(advertise)} if encode(advertise) == data:
            return advertise
        case _:
            return None
