"""Keeps pointers in ConfigMaps: each journal is a chain of segments, of which only the last one is written.

A group is one conditional PUT of a ConfigMap of some 32 KiB, whatever the size of the journal, because etcd limits the
bytes that are written to it. `milepost_backends.kubernetes.configmaps.chain` describes the layout of a journal, and
`milepost_backends.kubernetes.pointers.takeover` how a new leader fences the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from msgspec import structs

from milepost_backends.contract import (
    BackendError,
    Change,
    Commit,
    CommitRefused,
    GroupLimits,
    Head,
    Misconfigured,
    Refusal,
    StorageUnavailable,
    TakeOverLost,
    check_key,
)
from milepost_backends.kubernetes.address import KubernetesAddress, labels_of
from milepost_backends.kubernetes.client import KubernetesClient
from milepost_backends.kubernetes.configmaps.chain import chain_of
from milepost_backends.kubernetes.configmaps.head import WitnessAnnotation, decode
from milepost_backends.kubernetes.configmaps.maps import Maps
from milepost_backends.kubernetes.configmaps.memory import ChainMemory
from milepost_backends.kubernetes.configmaps.objects import HEAD, NAME, ConfigMap, ConfigMapLayout
from milepost_backends.kubernetes.pointers.checks import stored_head
from milepost_backends.kubernetes.pointers.journal import ConfigMapJournal
from milepost_backends.kubernetes.pointers.takeover import retake, take_over

log = logging.getLogger("milepost.kubernetes")

LIMITS: Final = GroupLimits(requests=128, bytes=256 * 1024, in_flight=1, value_bytes=256 * 1024)

_CHECK_SECONDS: Final = 30.0
_DENIED_SECONDS: Final = 5.0
"""The seconds for which a denied read is repeated: an API server that has just started may deny it at first."""
_DENIED_PAUSE: Final = 0.5


class KubernetesPointers:
    """A `PointerStore` in the namespace of ``address``. ``timeout`` (seconds) bounds the wait for each answer.

    Every ``check_seconds`` it undoes changes that other programs made to the ConfigMaps of the journals that this
    process leads. ``accept_loss`` has the values of ``--accept-loss``, see `JournalDamaged`.
    """

    def __init__(
        self,
        address: KubernetesAddress,
        *,
        limits: GroupLimits = LIMITS,
        timeout: float = 5.0,
        check_seconds: float = _CHECK_SECONDS,
        accept_loss: Collection[str] = (),
    ) -> None:
        self.limits = replace(limits, journal_bytes=address.most_bytes)
        self._instance = address.name
        self._client = KubernetesClient(address, "pointers", timeout=timeout)
        self._maps = Maps(self._client)
        self._check_seconds = check_seconds
        self._accept_loss = frozenset(accept_loss)
        self._journals: dict[str, ConfigMapJournal] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._attempted: dict[str, set[str]] = {}
        self._known: set[str] = set()
        self._checking: asyncio.Task[None] | None = None
        self._check_now = asyncio.Event()

    @property
    def place(self) -> str:
        """Return the namespace and the name of this deployment; see `PointerStore.place`.

        The text does not name the cluster, since a program inside of it cannot know its name.
        """
        return f"kubernetes:{self._client.namespace}/{self._instance}"

    @property
    def bytes_sent(self) -> int:
        """Return the number of bytes sent in ConfigMaps since this object was made; see `PointerStore.bytes_sent`."""
        return self._client.bytes_sent

    @property
    def full(self) -> str | None:
        """Return None: this pointer store does not know beforehand when etcd is full. See `PointerStore.full`.

        It limits the size of each journal instead, to `GroupLimits.journal_bytes`, which a commit checks.
        """
        return None

    @property
    def commit_delay(self) -> float:
        """Return the seconds until the byte budget allows another write; see `PointerStore.commit_delay`."""
        return self._maps.budget.wait_seconds

    async def open(self) -> None:
        """Connect to Kubernetes, check that ConfigMaps can be read, and start the regular checks; see
        `PointerStore.open`.
        """
        await self._client.open()
        try:
            await self._permitted()
        except BaseException:
            await self.close()
            raise
        if self._checking is None:
            self._keep_checking()

    async def close(self) -> None:
        """End the checks, record the last groups in the witnesses, and disconnect; see `PointerStore.close`."""
        checking, self._checking = self._checking, None
        if checking is not None:
            checking.cancel()
            await asyncio.wait([checking])
        journals, self._journals = self._journals, {}
        for journal in journals.values():
            await journal.flush()
        await self._client.close()
        for journal in journals.values():
            await journal.close()

    async def journals(self) -> Sequence[str]:
        """Return the names of the journals whose ConfigMaps exist in this deployment; see `PointerStore.journals`."""
        listed = await self._maps.listed(labels_of(self._instance), data=False)
        names = {item.metadata.annotations[NAME] for item in listed if self._was_taken_over(item)}
        self._known |= names
        return sorted(names)

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """Raise the term of the journal, and lead it; see `PointerStore.take_over`.

        Raises `StorageUnavailable` if a journal that this process has seen was deleted.
        """
        layout = self._layout(check_key(journal))
        async with self._turn(journal):
            attempted = self._attempted.setdefault(journal, set())
            memory = await self._retaken(ours, attempted)
            if memory is None:
                await self._forget(journal)
                known = ours or journal in self._known
                memory = await take_over(self._maps, layout, attempted, known=known, accepted=self._accept_loss)
            attempted.clear()
            self._known.add(journal)
            self._follow(memory)
            return memory.head

    async def _retaken(self, ours: Head | None, attempted: set[str]) -> ChainMemory | None:
        """Take the journal over from this process's own memory, and return that memory under its next term.

        None means that the memory is not current, so the journal must be listed. ``ours`` is the head that this process
        committed last, and ``attempted`` has the lineages of its earlier attempts, to which this one adds its own.
        """
        journal = None if ours is None else self._journals.get(ours.journal)
        if ours is None or journal is None or not journal.memory.knows(ours):
            return None
        await journal.close()  # ends the journal's tasks, but keeps its memory for `retake`
        if not await retake(self._maps, journal.memory, attempted):
            return None
        self._check_now.set()
        return journal.memory

    async def load(self, head: Head) -> AsyncGenerator[Change, None]:
        """Yield the journal's records, as the take-over has listed them; see `PointerStore.load`.

        The stored head is read again, to check that no group has followed since.
        """
        async with self._turn(head.journal):
            journal = await self._followed(head)
        if journal is None:
            raise TakeOverLost(f"another leader took {head.journal!r} over")
        stored = await stored_head(self._maps, journal.memory)
        if stored != head:
            if stored is not None and journal.memory.is_behind(stored):
                raise TakeOverLost(f"another leader took {head.journal!r} over")
            raise StorageUnavailable(f"another program changed the head of {head.journal!r} since it was taken over")
        for change in journal.memory.records():
            yield change

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        """Write a group into the journal's last ConfigMap; see `PointerStore.commit`.

        If the waiting task is cancelled, a request that was sent may still be applied.
        """
        if revision <= head.revision:
            raise ValueError(f"revision {revision} does not follow {head.revision}")
        for key, _ in changes:
            check_key(key)
        if excess := self.limits.excess(changes):
            return CommitRefused(Refusal.TOO_LARGE, excess)
        after = structs.replace(head, revision=revision, digest=head.digest if digest is None else digest)
        # the lock lets waiting tasks in by turns, so groups are written in the order of the calls
        async with self._turn(head.journal):
            try:
                journal = await self._followed(head)
            except BackendError as error:
                return CommitRefused(Refusal.FAILED, str(error))
            if journal is None:
                return CommitRefused(Refusal.HEAD_MOVED, f"the head of {head.journal!r} is not {head}")
            try:
                return await journal.commit(changes, after)
            finally:
                await self._forget_if_superseded(head.journal, journal)

    async def confirm(self, head: Head) -> bool:
        """Return whether the stored head has the term and lineage of ``head``; see `PointerStore.confirm`."""
        journal = self._journals.get(head.journal)
        stored = None if journal is None else await stored_head(self._maps, journal.memory)
        if stored is None:
            chain = chain_of(layout := self._layout(head.journal), await self._maps.listed(layout.labels, data=False))
            stored = None if chain is None else chain.head
        return stored is not None and (stored.term, stored.lineage) == (head.term, head.lineage)

    async def check(self) -> None:
        """Undo changes that other programs made to the journals that this process leads. Raises `BackendError`."""
        for name, journal in list(self._journals.items()):
            if journal.stands:
                await journal.check()
            if not journal.stands:
                async with self._turn(name):
                    await self._forget_if_superseded(name, journal)

    # -- private ---------------------------------------------------------------------------------------------------

    def _layout(self, journal: str) -> ConfigMapLayout:
        return ConfigMapLayout(self._instance, journal)

    def _turn(self, journal: str) -> asyncio.Lock:
        return self._turns.setdefault(journal, asyncio.Lock())

    async def _followed(self, head: Head) -> ConfigMapJournal | None:
        """Return the journal that this process leads under ``head``; None if the stored head is another one.

        If this process has not loaded the journal since `open`, it lists the ConfigMaps first. Raises `BackendError`.
        """
        journal = self._journals.get(head.journal)
        if journal is not None and journal.memory.head == head:
            return journal if journal.stands else None
        chain = chain_of(layout := self._layout(head.journal), await self._maps.listed(layout.labels, data=True))
        if chain is None or chain.head != head:
            return None
        await self._forget(head.journal)
        return self._follow(ChainMemory(layout, chain))

    def _follow(self, memory: ChainMemory) -> ConfigMapJournal:
        """Lead the journal in ``memory``, and return it. Raises `StorageUnavailable` if the pointer store was closed
        meanwhile.
        """
        if self._checking is None:
            raise StorageUnavailable("the pointer store was closed meanwhile")
        name = memory.layout.journal
        self._journals[name] = ConfigMapJournal(self._maps, memory, self._turn(name))
        return self._journals[name]

    async def _forget_if_superseded(self, name: str, journal: ConfigMapJournal) -> None:
        """Forget ``journal`` if another leader has taken it over. The caller must hold the lock under which its groups
        are written.
        """
        if journal.memory.is_superseded and self._journals.get(name) is journal:
            await self._forget(name)

    async def _forget(self, journal: str) -> None:
        forgotten = self._journals.pop(journal, None)
        if forgotten is not None:
            await forgotten.close()

    def _was_taken_over(self, item: ConfigMap) -> bool:
        annotations = item.metadata.annotations
        if NAME not in annotations:
            return False
        number = self._layout(annotations[NAME]).number(item.metadata.name)
        if number is None:
            return WitnessAnnotation.decode(annotations.get(HEAD), item.metadata.name) is not None
        head = decode(annotations.get(HEAD), item.metadata.name)
        return head is not None and head.term > 0

    async def _permitted(self) -> None:
        """List the journals' ConfigMaps once, to check whether this process may read them.

        Raises `Misconfigured`, `StorageUnavailable`.
        """
        end = asyncio.get_running_loop().time() + _DENIED_SECONDS
        while True:
            try:
                await self.journals()
            except Misconfigured:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(_DENIED_PAUSE)
            else:
                return

    def _keep_checking(self) -> None:
        self._checking = asyncio.create_task(self._check_always())
        self._checking.add_done_callback(self._checking_ended)

    def _checking_ended(self, task: asyncio.Task[None]) -> None:
        """Log the exception that ended the task of regular checks, which is a bug, and start that task again."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.critical("a check of the pointers' ConfigMaps failed by a bug; checks go on", exc_info=fault)
            if self._checking is task:
                self._keep_checking()

    async def _check_always(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_seconds):
                    await self._check_now.wait()
            self._check_now.clear()
            try:
                await self.check()
            except BackendError as error:
                log.warning("cannot check the ConfigMaps of the pointers now, and try again later: %s", error)
