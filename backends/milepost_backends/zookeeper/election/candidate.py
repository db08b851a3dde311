"""One candidate in ZooKeeper: a session with an entry in the queue of candidates.

An entry is a znode named ``<candidacy>-<sequence>``. The candidacy is a random id that the candidate chooses, so that
it finds its entry even if the answer to the creation was lost. ZooKeeper appends the sequence number. The entry
contains ``{"schema": 1, "advertise": …, "check": …}``: the URL at which clients reach the candidate, and a checksum of
that URL, so that no client is sent to a URL that another program altered. A znode with any other name is not an entry.
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
"""The most attempts to enter the queue. An attempt fails if the connection is lost and no entry was made."""

CERTAIN: Final = 0.75
"""The part of a session timeout for which a renewal of the lease counts at most, from when its request was sent."""

_REPORTED: Final = 0.25
"""The part of a session timeout within which a running server reports to ZooKeeper's leader that it heard from a
session.
"""

EXCHANGES: Final = 8
"""The number of exchanges with a server in one session timeout, by a waiting candidate and by a leader."""

_KEPT: Final = 64
"""The number of exchanges that are remembered."""

_SCHEMA: Final = 1
_ENTRY: Final = re.compile(r"([0-9a-f]{32})-(\d{10})\Z")


class SessionCandidate:
    """A candidate with its own session. When the session ends, ZooKeeper at once removes its entry from the queue.

    An entry that may have been made, since its creation was sent but not answered, is removed as well.
    """

    def __init__(self, address: ZooKeeperAddress, advertise: str, timeout: float | None = None) -> None:
        self.connection = ZooKeeperConnection(address, "election", timeout)
        self.evidence = SessionEvidence()
        self._place = election_of(address.root)
        self._advertise = advertise
        self._name = uuid.uuid4().hex
        self._entry: Entry | None = None
        self.version = 0
        """The version of this candidate's entry. If the znode has another version, another program has written to
        it.
        """
        self._changed = asyncio.Event()
        self._bridge = Bridge(asyncio.get_running_loop())
        self.over = asyncio.Event()

    @property
    def path(self) -> str:
        """Return the path of the znode that is this candidate's entry in the queue."""
        assert self._entry is not None, "there is no entry yet"
        return f"{self._place}/{self._entry.name}"

    async def enter(self) -> None:
        """Make this candidate's entry at the end of the queue. Raises `Misconfigured`, `StorageUnavailable`."""
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
        """Wait until this candidate's entry is the first in the queue. Raises `StorageUnavailable` if the entry is
        lost.
        """
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
        """Return whether this session made the entry that is at `path` now: another program may have replaced it.

        When this returns, all requests that this session sent before have been carried out. Raises `BackendError`.
        """
        stat, session = await self._look(self.path)
        return stat is not None and stat.ephemeralOwner == session

    async def rewrite(self) -> bool:
        """Write this candidate's entry again, after another program altered its data. Raises `BackendError`.

        Return False if the entry does not exist any more, or another session made it.
        """
        if not await self.holds():
            return False
        log.error("another program altered our entry in the election, %s; it is written again", self.path)
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
        """Leave the queue. Idempotent. This never raises: if the session cannot be closed now, it is left to expire."""
        await self.connection.close(reconnecting=True)

    def _create(self, client: Any) -> Any:
        return client.create_async(
            f"{self._place}/{self._name}-", encode(self._advertise), ephemeral=True, sequence=True
        )

    async def _queue(self) -> list[Entry]:
        """Return the entries in the queue, in order.

        The server first catches up with the others, so that the result has an entry that this candidate has just made.
        """
        await self.connection.ask("catch up", lambda client: client.sync_async(self._place))
        names = await self.connection.ask("see the queue", lambda client: client.get_children_async(self._place))
        return in_order(names)

    async def _wait_for_change(self, path: str) -> None:
        """Wait until the entry at ``path``, the one before this candidate's, or the session changes.

        The wait takes at most one session timeout, in which this reads the entry several times. Once this candidate
        leads, these reads prove that the servers have heard from its session.
        """
        self._changed.clear()
        for _ in range(EXCHANGES):
            if not await self._is_there(path) or await self._woken(self.connection.session_seconds / EXCHANGES):
                return

    async def _is_there(self, path: str) -> bool:
        """Return whether the entry at ``path`` exists. The read is answered by the server of this connection alone."""
        sent = time.monotonic()
        stat, _ = await self._look(path, watch=self._notice)
        self.evidence.note(sent, time.monotonic())
        if stat is not None and not stat.ephemeralOwner:
            await self._delete(path, int(stat.version))
        return stat is not None

    async def _look(self, path: str, watch: Callable[[Any], None] | None = None) -> tuple[Any, int]:
        """Return ZooKeeper's status of the znode at ``path`` (None if there is none), and the id of the session that
        asked.

        ``watch`` is called once the znode changes.
        """
        session = 0

        def look(client: ZooKeeperClient) -> Any:
            nonlocal session
            session = client.session_id
            return client.exists_async(path, watch=watch)

        return await self.connection.ask("watch the queue", look), session

    async def _delete(self, path: str, version: int) -> None:
        """Delete an entry that belongs to no session, so that another program made it: it would stay in the queue for
        ever.
        """
        log.error("%s belongs to no session, so another program made it; it is deleted", path)
        with suppress(NoNodeError, BadVersionError):
            await self.connection.ask(
                f"delete {path}", lambda client: client.delete_async(path, version), NoNodeError, BadVersionError
            )

    async def _woken(self, seconds: float) -> bool:
        """Wait until the queue or the session changes, at most ``seconds``. Return whether one of them did."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._changed, self.over)]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return bool(done)

    def _notice(self, event: Any) -> None:
        """Wake this candidate, since the queue has changed. Called in kazoo's thread.

        This method is passed to kazoo as each watch, since kazoo keeps only one watch of equal ones.
        """
        del event  # whatever the event is, the candidate reads the queue again
        self._bridge.post(self._changed.set)

    def _check(self) -> None:
        if self.over.is_set():
            raise StorageUnavailable("the ZooKeeper session of the election was lost, and the candidacy with it")


class SessionEvidence:
    """The exchanges of one session, which prove when the servers heard from it. All times are monotonic seconds.

    ZooKeeper's leader alone expires sessions, but it does not see reads that other servers answer. It pings these
    servers every half tick, which is at most a quarter of a session timeout, and they report which sessions they heard
    from. A server may stop before it has reported an exchange. So an exchange counts only if the same server later
    carries out a transaction that was sent at least a quarter of a timeout after the exchange was answered: by then the
    server had reported it. When a session is made, or is resumed by another server, ZooKeeper's leader learns of it
    directly.
    """

    def __init__(self) -> None:
        self._exchanges: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def note(self, sent: float, answered: float) -> None:
        """Record an exchange that was sent at ``sent`` or later, and answered at ``answered`` or earlier."""
        self._exchanges.append((sent, answered))

    def until(self, sent: float, timeout: float, connected: float) -> float:
        """Return the time until which the session certainly lasts, if a transaction that is sent at ``sent`` succeeds.

        ``timeout`` is the session timeout. ``connected`` is a time before the session was made, or resumed by the
        present server.
        """
        reported = sent - _REPORTED * timeout
        heard = max((begun for begun, answered in self._exchanges if answered <= reported), default=connected)
        return min(sent + CERTAIN * timeout, max(heard, connected) + timeout)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """The entry of one candidate in the queue of an election. Entries are ordered by their sequence number."""

    sequence: int
    candidacy: str

    @property
    def name(self) -> str:
        """Return the name of the znode that is this entry: ``<candidacy>-<sequence>``."""
        return f"{self.candidacy}-{self.sequence:010d}"


def election_of(root: str) -> str:
    """Return the path of the znode below which the entries of all candidates are.

    ``root`` is the path of the deployment.
    """
    return f"{root}/election"


def in_order(names: Iterable[str]) -> list[Entry]:
    """Return the candidates' entries among the ``names`` of znodes, in the order in which they were made. The first one
    leads.
    """
    found = (_ENTRY.match(name) for name in names)
    return sorted(Entry(int(entry[2]), entry[1]) for entry in found if entry is not None)


def encode(advertise: str) -> bytes:
    """Return the content of a candidate's entry: the URL ``advertise`` and a checksum.

    It depends only on the URL, so that `advertised_in` can compare it.
    """
    check = hashlib.blake2b(advertise.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    return json.dumps({"schema": _SCHEMA, "advertise": advertise, "check": check}).encode()


def advertised_in(data: bytes) -> str | None:
    """Return the candidate's URL in the content of an entry; None unless `encode` gives the same content for that URL.

    None means that another program altered the entry, or that a release with another schema wrote it.
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
