"""The head of a journal in ZooKeeper: how it is read, made, and taken over."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from backends.contract import Head, JournalDamaged, StorageUnavailable, TakeOverLost
from backends.pointers.zookeeper_layout import HEAD_PREFIX, Layout, decode_head, encode_head
from backends.zookeeper.connection import Connection
from backends.zookeeper.errors import backend_error, culprit

_ATTEMPTS: Final = 20
"""Of a take-over, while groups of the older leader still land; no more than a few of those are on their way."""


class Heads:
    """Heads of journals, over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def sync(self, path: str) -> None:
        """Let the server that we are connected to catch up with the ensemble."""
        await self._connection.ask(f"catch up on {path}", lambda client: client.sync_async(path))

    async def version(self, layout: Layout, head: Head) -> int | None:
        """The version of the znode's data, if the stored head is this one. Raises `JournalDamaged`."""
        path = layout.head(head)
        try:
            data, stat = await self._connection.ask(
                f"read the head of {layout.journal!r}", lambda client: client.get_async(path), NoNodeError
            )
        except NoNodeError:
            return None
        stored = decode_head(layout, path.rpartition("/")[2], data)
        return int(stat.version) if stored == head else None

    async def confirm(self, layout: Layout, head: Head) -> bool:
        """Whether the stored head is of this term."""
        path = layout.head(head)
        await self.sync(path)
        doing = f"read the head of {layout.journal!r}"
        return await self._connection.ask(doing, lambda client: client.exists_async(path)) is not None

    async def take_over(self, layout: Layout, *, known: bool) -> Head:
        """See `PointerStore.take_over`. A journal that was there, which is ``known`` or was noted, is not made anew."""
        await self.sync(layout.place)
        for _ in range(_ATTEMPTS):
            stored = await self._stored(layout)
            founded = await self._founded(layout)
            if stored is None and (known or founded):
                raise StorageUnavailable(f"{layout.place} was deleted while in use")
            head = await (self._create(layout) if stored is None else self._succeed(layout, *stored, founded=founded))
            if head is not None:
                return head
        raise StorageUnavailable(f"groups of an older leader keep landing in {layout.journal!r}")

    async def _stored(self, layout: Layout) -> tuple[Head, int] | None:
        """The head and the version of its data; None for an absent journal."""
        doing = f"read the head of {layout.journal!r}"
        try:
            names = await self._connection.ask(
                doing, lambda client: client.get_children_async(layout.place), NoNodeError
            )
        except NoNodeError:
            return None
        heads = [name for name in names if name.startswith(HEAD_PREFIX)]
        if len(heads) != 1 or layout.records.rpartition("/")[2] not in names:
            raise JournalDamaged(f"{layout.place} is no journal with one head and its records: {sorted(names)[:20]}")
        path = f"{layout.place}/{heads[0]}"
        try:
            data, stat = await self._connection.ask(doing, lambda client: client.get_async(path), NoNodeError)
        except NoNodeError as error:
            raise TakeOverLost(f"another leader took {layout.journal!r} over just now") from error
        return decode_head(layout, heads[0], data), int(stat.version)

    async def _founded(self, layout: Layout) -> bool:
        doing = f"look for {layout.founded}"
        return await self._connection.ask(doing, lambda client: client.exists_async(layout.founded)) is not None

    async def _create(self, layout: Layout) -> Head | None:
        """Make the journal, all of it at once; None if another did just now."""
        head = Head(layout.journal, 1, 1, secrets.token_hex(6))

        def make(request: Any) -> None:
            request.create(layout.place, b"")
            request.create(layout.records, b"")
            request.create(layout.head(head), encode_head(head))
            request.create(layout.founded, b"")

        failure = await self._transact(layout, make)
        if failure is None:
            return head
        if isinstance(failure, NodeExistsError):
            return None
        raise backend_error(failure, f"make {layout.place}") from failure

    async def _succeed(self, layout: Layout, last: Head, version: int, *, founded: bool) -> Head | None:
        """Put a new head in the place of the last one; None if a group under the last one landed just now."""
        head = Head(layout.journal, last.term + 1, last.revision + 1, secrets.token_hex(6), last.digest)

        def replace(request: Any) -> None:
            request.delete(layout.head(last), version)
            request.create(layout.head(head), encode_head(head))
            if not founded:
                request.create(layout.founded, b"")

        failure = await self._transact(layout, replace)
        if failure is None:
            return head
        if isinstance(failure, BadVersionError | NodeExistsError):
            return None
        if isinstance(failure, NoNodeError):
            raise TakeOverLost(f"another leader took {layout.journal!r} over just now") from failure
        raise backend_error(failure, f"take over {layout.journal!r}") from failure

    async def _transact(self, layout: Layout, fill: Callable[[Any], None]) -> KazooException | None:
        """Make a transaction; what it failed of."""

        def act(client: Any) -> Any:
            request = client.transaction()
            fill(request)
            return request.commit_async()

        results = await self._connection.ask(f"take over {layout.journal!r}", act)
        failure = culprit(results)
        return None if failure is None else failure[1]
