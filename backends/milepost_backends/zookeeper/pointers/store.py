"""Keeps pointers in ZooKeeper: a record is a znode, and a group is one transaction that begins with the head."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.exceptions import KazooException
from msgspec.structs import replace

from milepost_backends.contract import (
    BackendError,
    Change,
    Commit,
    CommitRefused,
    Done,
    GroupLimits,
    Head,
    JournalDamaged,
    Refusal,
    StorageUnavailable,
    Unknown,
    check_key,
)
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.errors import name_of
from milepost_backends.zookeeper.pointers.group import MAX_TRANSACTION_BYTES, Znodes, build, end_of, involved
from milepost_backends.zookeeper.pointers.head import Heads
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, founded_of, journals_of
from milepost_backends.zookeeper.pointers.load import Walk

log = logging.getLogger("milepost.zookeeper")

LIMITS: Final = GroupLimits(requests=64, bytes=512 * 1024, in_flight=4, value_bytes=512 * 1024)

_LAST_VERSION: Final = 2_000_000_000
"""The highest version of a head's znode at which groups are still written: a version has 31 bits.

The next take-over makes a new znode, whose version begins at 0.
"""

_LEARN_SECONDS: Final = 5.0
"""The seconds between two lists of the journals, in which those that other replicas made are found."""

_LOOKUPS: Final = 64
"""The most reads in flight by which a leader finds out whether znodes exist."""


@dataclass(slots=True)
class _LeaderState:
    """What a leader knows of its journal, as it will be after all groups that were sent.

    It has the head, the version of the head's znode, and which znodes exist.
    """

    head: Head
    version: int
    znodes: Znodes = field(default_factory=Znodes)


@dataclass(frozen=True, slots=True)
class _Flight:
    """A group that was sent and has no answer yet. If it is committed, ``head`` is the head of the journal."""

    lead: _LeaderState
    head: Head
    results: asyncio.Future[Any]
    paths: list[str]


class ZooKeeperPointers:
    """A `PointerStore` in ZooKeeper, under ``address``. ``timeout`` (seconds) bounds the wait for each answer.

    A lost session does no harm, since pointers have no ephemeral znodes. ``accept_loss`` has the values of
    ``--accept-loss``, see `JournalDamaged`.
    """

    def __init__(
        self,
        address: ZooKeeperAddress,
        *,
        limits: GroupLimits = LIMITS,
        timeout: float | None = None,
        accept_loss: Collection[str] = (),
    ) -> None:
        self.limits = limits
        self.bytes_sent = 0
        self.commit_delay = 0.0
        self.place = f"zookeeper:{','.join(sorted(address.hosts.split(',')))}{address.root}"
        self._root = address.root
        self._connection = ZooKeeperConnection(address, "pointers", timeout)
        self._heads = Heads(self._connection, accept_loss)
        self._leaders: dict[str, _LeaderState] = {}
        self._layouts: dict[str, ZnodeLayout] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._known: set[str] = set()
        self._digests: dict[str, deque[str]] = {}
        self._learning: asyncio.Task[None] | None = None

    @property
    def full(self) -> str | None:
        """Return None: this pointer store reserves no room, so it never refuses only the writes that add data.

        See `PointerStore.full`.
        """
        return None

    async def open(self) -> None:
        """Connect to ZooKeeper, and make the znodes above journals and witnesses if they are absent; see
        `PointerStore.open`.
        """
        await self._connection.open()
        try:
            await self._heads.make(journals_of(self._root))
            await self._heads.make(founded_of(self._root))
            await self.journals()
        except BaseException:
            await self.close()
            raise
        self._learning = self._learning or asyncio.create_task(self._learn(), name="zookeeper-journals")

    async def close(self) -> None:
        """End the session and the background task; see `PointerStore.close`."""
        self._leaders.clear()
        learning, self._learning = self._learning, None
        if learning is not None:
            learning.cancel()
        await self._connection.close()

    async def journals(self) -> Sequence[str]:
        """Return the names of the journals in ZooKeeper; see `PointerStore.journals`."""
        place = journals_of(self._root)
        await self._heads.sync(place)
        return sorted(await self._list())

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """Raise the term of the journal by replacing the znode of its head; see `PointerStore.take_over`."""
        layout = ZnodeLayout(self._root, check_key(journal))
        self._leaders.pop(journal, None)
        digests = self._digests.setdefault(journal, deque(maxlen=2 * self.limits.in_flight))
        head = await self._heads.take_over(layout, ours, digests=digests, known=journal in self._known)
        self._known.add(journal)
        self._leaders[journal] = _LeaderState(head, 0)
        return head

    async def load(self, head: Head) -> AsyncGenerator[Change, None]:
        """Yield the journal's records; see `PointerStore.load`.

        After it, this object knows which znodes exist, and need not ask before each commit.
        """
        layout = ZnodeLayout(self._root, head.journal)
        session = self._connection.lost_sessions
        version = await self._heads.version(layout, head)
        if version is None:
            raise await self._heads.missing(layout, head)
        walk = Walk(self._connection, layout)
        async for change in walk.records():
            yield change
        if await self._heads.version(layout, head) is None:
            raise await self._heads.missing(layout, head)
        if self._connection.lost_sessions != session:
            # The records may be incomplete: a new session may be with a server that lags behind.
            raise StorageUnavailable(f"the ZooKeeper session was lost while journal {head.journal!r} was loaded")
        present = [*walk.present, layout.witness]  # the witness exists, since each take-over writes it
        self._leaders[head.journal] = _LeaderState(head, version, Znodes(present, complete=True, strange=walk.strange))

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """Write a group in one transaction of ZooKeeper; see `PointerStore.commit`.

        If the waiting task is cancelled, a group that was sent may still be committed.
        """
        if revision <= head.revision:
            raise ValueError(f"revision {revision} does not follow {head.revision}")
        for key, _ in changes:
            check_key(key)
        if excess := self.limits.excess(changes):
            return CommitRefused(Refusal.TOO_LARGE, excess)
        after = replace(head, revision=revision, digest=head.digest if digest is None else digest)
        # the lock lets waiting tasks in by turns, so groups are sent in the order of the calls
        async with self._turns.setdefault(head.journal, asyncio.Lock()):
            try:
                flight = await self._send(head, changes, after)
            except JournalDamaged as error:
                # another program altered the head, which a take-over repairs
                return CommitRefused(Refusal.HEAD_MOVED, str(error))
            except BackendError as error:
                return CommitRefused(Refusal.FAILED, str(error))
        if not isinstance(flight, _Flight):
            return flight
        end = await self._end(flight)
        if not isinstance(end, Done) and self._leaders.get(head.journal) is flight.lead:
            del self._leaders[head.journal]  # the remembered state includes this group, which was not committed
        return end

    async def confirm(self, head: Head) -> bool:
        """Return whether the stored head has the term and lineage of ``head``; see `PointerStore.confirm`."""
        return await self._heads.confirm(ZnodeLayout(self._root, head.journal), head)

    async def _list(self) -> list[str]:
        place = journals_of(self._root)
        names: list[str] = await self._connection.ask(
            "list the journals", lambda client: client.get_children_async(place)
        )
        self._known.update(names)
        return names

    async def _learn(self) -> None:
        """Remember, now and then, which journals exist, also those that other replicas have made.

        A take-over does not create a journal anew if this process has seen it once and it is gone.
        """
        while True:
            await asyncio.sleep(_LEARN_SECONDS)
            try:
                await self._list()
            except BackendError as error:
                log.debug("cannot list the journals now, and try again later: %s", error)

    async def _send(self, head: Head, changes: Sequence[Change], after: Head) -> _Flight | CommitRefused:
        """Send a group that leaves the head ``after``, and remember the state after it.

        Return a refusal if ``head`` is not the stored head, or the group is too large. In that case, and if this raises
        `BackendError`, nothing was sent.
        """
        self._connection.require()
        layout = self._layout(head.journal)
        lead = self._leaders.get(head.journal)
        if lead is None or lead.head != head:
            lead = await self._recalled(layout, head)
        if lead is None:
            return CommitRefused(Refusal.HEAD_MOVED, f"the head of {head.journal!r} is not {head}")
        if lead.version >= _LAST_VERSION:
            return CommitRefused(Refusal.FAILED, f"the head of {head.journal!r} had too many groups: take over again")
        await self._look_up(layout, changes, lead.znodes)
        if not lead.znodes.has(layout.witness):
            log.error("the witness %s of journal %r was deleted; it is written anew", layout.witness, head.journal)
            await self._heads.make(founded_of(self._root))
        transaction = build(layout, changes, lead.znodes, after)
        size = transaction.size
        if size > MAX_TRANSACTION_BYTES:
            return CommitRefused(Refusal.TOO_LARGE, f"the group takes {size} bytes on its way to ZooKeeper")
        at, version = layout.head(after), lead.version
        results = self._connection.submit(
            lambda client: client.send(transaction.request(at, version, client.default_acl))
        )
        self.bytes_sent += size
        if (digests := self._digests.get(head.journal)) is not None:
            digests.append(after.digest)
        transaction.stage(lead.znodes)
        lead.head, lead.version = after, version + 1
        self._leaders[head.journal] = lead
        return _Flight(lead, after, results, transaction.paths(at))

    def _layout(self, journal: str) -> ZnodeLayout:
        layout = self._layouts.get(journal)
        if layout is None:
            layout = self._layouts[journal] = ZnodeLayout(self._root, journal)
        return layout

    async def _recalled(self, layout: ZnodeLayout, head: Head) -> _LeaderState | None:
        """Return what this leader must know of its journal to commit, if it has not loaded the journal since `open`.

        None means that ``head`` is not stored any more.
        """
        await self._heads.sync(layout.place)
        version = await self._heads.version(layout, head)
        return None if version is None else _LeaderState(head, version)

    async def _look_up(self, layout: ZnodeLayout, changes: Sequence[Change], znodes: Znodes) -> None:
        """Find out which of the znodes that ``changes`` write exist, and note it in ``znodes``. After a `load` it is
        known already.
        """
        if znodes.is_complete:
            return
        unknown = [path for path in dict.fromkeys(involved(layout, changes)) if znodes.has(path) is None]
        for begin in range(0, len(unknown), _LOOKUPS):
            batch = unknown[begin : begin + _LOOKUPS]
            found = await asyncio.gather(*(self._exists(path) for path in batch))
            for path, there in zip(batch, found, strict=True):
                znodes.learn(path, there=there)

    async def _exists(self, path: str) -> bool:
        return await self._connection.ask(f"look for {path}", lambda client: client.exists_async(path)) is not None

    async def _end(self, flight: _Flight) -> Commit:
        try:
            async with asyncio.timeout(self._connection.timeout):
                return end_of(await flight.results, flight.head, flight.paths)
        except TimeoutError:
            return Unknown("ZooKeeper does not answer")
        except KazooException as error:
            # Unknown even if the session has expired: a request that was in flight may have been committed.
            return Unknown(f"ZooKeeper does not answer: {name_of(error)}")
