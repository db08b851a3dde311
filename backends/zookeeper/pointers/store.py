"""Pointers in ZooKeeper: each record a znode, each group one transaction led by the head of this leader's term."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kazoo.exceptions import KazooException

from backends.contract import (
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
from backends.zookeeper.address import ZooKeeperAddress
from backends.zookeeper.connection import ZooKeeperConnection
from backends.zookeeper.errors import name_of
from backends.zookeeper.pointers.group import MAX_TRANSACTION_BYTES, Znodes, build, end_of, involved
from backends.zookeeper.pointers.head import Heads
from backends.zookeeper.pointers.layout import ZnodeLayout, founded_of, journals_of
from backends.zookeeper.pointers.load import Walk

log = logging.getLogger("milepost.zookeeper")

LIMITS: Final = GroupLimits(requests=64, bytes=512 * 1024, in_flight=4, value_bytes=512 * 1024)

_LAST_VERSION: Final = 2_000_000_000
"""The version of a znode's data has 31 bits. A take-over makes a new head, which begins at 0."""

_LEARN_SECONDS: Final = 5.0
"""Between two looks for journals that others have made."""

_LOOKUPS: Final = 64
"""How many are on their way at once when it is not known which znodes there are."""


@dataclass(slots=True)
class _Lead:
    """What a leader knows of its journal, all groups counted that were sent: the head, the version of the head's data,
    and which znodes there are.
    """

    head: Head
    version: int
    znodes: Znodes = field(default_factory=Znodes)


@dataclass(frozen=True, slots=True)
class _Flight:
    """A group that was sent, and will leave ``head``."""

    lead: _Lead
    head: Head
    results: asyncio.Future[Any]
    paths: list[str]


class ZooKeeperPointers:
    """A `PointerStore` under ``address``; ``timeout`` (seconds) bounds the wait for each answer.

    A session that is lost does not matter: nothing here depends on it. ``accept_loss``: see `JournalDamaged`.
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
        self.place = f"zookeeper:{','.join(sorted(address.hosts.split(',')))}{address.root}"
        self._root = address.root
        self._connection = ZooKeeperConnection(address, "pointers", timeout)
        self._heads = Heads(self._connection, accept_loss)
        self._leads: dict[str, _Lead] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._known: set[str] = set()
        self._digests: dict[str, deque[str]] = {}
        self._learning: asyncio.Task[None] | None = None

    @property
    def full(self) -> str | None:
        """See `PointerStore.full`: nothing is kept for removals here."""
        return None

    async def open(self) -> None:
        """See `PointerStore.open`. What is absent of the place is made."""
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
        """See `PointerStore.close`."""
        self._leads.clear()
        learning, self._learning = self._learning, None
        if learning is not None:
            learning.cancel()
        await self._connection.close()

    async def journals(self) -> Sequence[str]:
        """See `PointerStore.journals`."""
        place = journals_of(self._root)
        await self._heads.sync(place)
        return sorted(await self._list())

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """See `PointerStore.take_over`."""
        layout = ZnodeLayout(self._root, check_key(journal))
        self._leads.pop(journal, None)
        digests = self._digests.setdefault(journal, deque(maxlen=2 * self.limits.in_flight))
        head = await self._heads.take_over(layout, ours, digests=digests, known=journal in self._known)
        self._known.add(journal)
        self._leads[journal] = _Lead(head, 0)
        return head

    async def load(self, head: Head) -> AsyncGenerator[Change, None]:
        """See `PointerStore.load`. From then on it is known which znodes there are, which makes commits cheaper."""
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
            # A new session may be with a server that lags behind what the old one had seen.
            raise StorageUnavailable(f"the session with ZooKeeper was lost while {head.journal!r} was loaded")
        present = [*walk.present, layout.witness]  # which the take-over has written
        self._leads[head.journal] = _Lead(head, version, Znodes(present, complete=True, strange=walk.strange))

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """See `PointerStore.commit`. If the waiting task is cancelled, a group that was sent goes its way."""
        if revision <= head.revision:
            raise ValueError(f"revision {revision} does not follow {head.revision}")
        for key, _ in changes:
            check_key(key)
        if excess := self.limits.excess(changes):
            return CommitRefused(Refusal.TOO_LARGE, excess)
        after = replace(head, revision=revision, digest=head.digest if digest is None else digest)
        async with self._turns.setdefault(head.journal, asyncio.Lock()):  # groups are sent in the order they come
            try:
                flight = await self._send(head, changes, after)
            except JournalDamaged as error:
                return CommitRefused(Refusal.HEAD_MOVED, str(error))  # by a foreign hand; a take-over puts it right
            except BackendError as error:
                return CommitRefused(Refusal.FAILED, str(error))
        if not isinstance(flight, _Flight):
            return flight
        end = await self._end(flight)
        if not isinstance(end, Done) and self._leads.get(head.journal) is flight.lead:
            del self._leads[head.journal]  # what was staged on this group is not there
        return end

    async def confirm(self, head: Head) -> bool:
        """See `PointerStore.confirm`."""
        return await self._heads.confirm(ZnodeLayout(self._root, head.journal), head)

    async def _list(self) -> list[str]:
        place = journals_of(self._root)
        names: list[str] = await self._connection.ask(
            "list the journals", lambda client: client.get_children_async(place)
        )
        self._known.update(names)
        return names

    async def _learn(self) -> None:
        """Hear of journals that others make after this store was opened, so as not to make one anew that is gone."""
        while True:
            await asyncio.sleep(_LEARN_SECONDS)
            try:
                await self._list()
            except BackendError as error:
                log.debug("cannot look for journals now: %s", error)

    async def _send(self, head: Head, changes: Sequence[Change], after: Head) -> _Flight | CommitRefused:
        """Send a group, and count on it from now on. Raises `BackendError`: nothing was sent."""
        self._connection.require()
        layout = ZnodeLayout(self._root, head.journal)
        lead = self._leads.get(head.journal)
        if lead is None or lead.head != head:
            lead = await self._recalled(layout, head)
        if lead is None:
            return CommitRefused(Refusal.HEAD_MOVED, f"the head of {head.journal!r} is not {head}")
        if lead.version >= _LAST_VERSION:
            return CommitRefused(Refusal.FAILED, f"the head of {head.journal!r} had too many groups: take over anew")
        await self._look_up(layout, changes, lead.znodes)
        if not lead.znodes.has(layout.witness):
            log.error("%s, the witness of journal %r, was deleted; it is written anew", layout.witness, head.journal)
            await self._heads.make(founded_of(self._root))
        transaction = build(layout, changes, lead.znodes, after)
        if transaction.size > MAX_TRANSACTION_BYTES:
            return CommitRefused(Refusal.TOO_LARGE, f"the group takes {transaction.size} bytes on its way to ZooKeeper")
        version = lead.version
        results = self._connection.submit(lambda client: transaction.send(client, layout, after, version))
        self.bytes_sent += transaction.size
        if (digests := self._digests.get(head.journal)) is not None:
            digests.append(after.digest)
        transaction.stage(lead.znodes)
        lead.head, lead.version = after, version + 1
        self._leads[head.journal] = lead
        return _Flight(lead, after, results, transaction.paths(layout.head(after)))

    async def _recalled(self, layout: ZnodeLayout, head: Head) -> _Lead | None:
        """A leader that was not followed from its take-over on, as after `open`; None if the head is another one."""
        await self._heads.sync(layout.place)
        version = await self._heads.version(layout, head)
        return None if version is None else _Lead(head, version)

    async def _look_up(self, layout: ZnodeLayout, changes: Sequence[Change], znodes: Znodes) -> None:
        """Learn which of the znodes that this group has to do with are there. After a `load` that is known."""
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
            return Unknown("ZooKeeper gives no answer")
        except KazooException as error:
            # Also for an expired session: what was on its way when it expired may have landed.
            return Unknown(f"ZooKeeper gives no answer: {name_of(error)}")
