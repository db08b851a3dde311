"""The head of a journal in ZooKeeper, and its witness: how they are read, made, and taken over."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection
from typing import Any, Final

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from backends.contract import Head, JournalDamaged, StorageUnavailable, TakeOverLost
from backends.pointers.zookeeper_layout import (
    HEAD_PREFIX,
    RECORDS,
    Layout,
    decode_head,
    encode_head,
    founded_of,
    head_name,
    journals_of,
)
from backends.pointers.zookeeper_succession import Found, Stored, succession
from backends.zookeeper.connection import Connection
from backends.zookeeper.errors import backend_error, culprit

log = logging.getLogger("milepost.zookeeper")

_ATTEMPTS: Final = 20
"""Of a take-over, while groups of the older leader still land; no more than a few of those are on their way."""


class Heads:
    """Heads of journals, over one connection. ``accepted``: losses that the owner goes on from."""

    def __init__(self, connection: Connection, accepted: Collection[str] = ()) -> None:
        self._connection = connection
        self._accepted = accepted

    async def sync(self, path: str) -> None:
        """Let the server that we are connected to catch up with the ensemble."""
        await self._connection.ask(f"catch up on {path}", lambda client: client.sync_async(path))

    async def make(self, place: str) -> None:
        """Make a directory and what lies above it, where it is not there."""
        await self._connection.ask(f"make {place}", lambda client: client.ensure_path_async(place))

    async def version(self, layout: Layout, head: Head) -> int | None:
        """The version of the znode's data, if the stored head is this one. Raises `JournalDamaged`."""
        path = layout.head(head)
        found = await self._stored(layout, path)
        if found is None:
            return None
        if found.head is None:
            raise JournalDamaged(f"{path} does not prove itself to be a head: {found.data[:300]!r}")
        return found.version if found.head == head else None

    async def confirm(self, layout: Layout, head: Head) -> bool:
        """Whether the stored head is of this term."""
        path = layout.head(head)
        await self.sync(path)
        doing = f"read the head of {layout.journal!r}"
        return await self._connection.ask(doing, lambda client: client.exists_async(path)) is not None

    async def take_over(self, layout: Layout, ours: Head | None, *, known: bool) -> Head:
        """See `PointerStore.take_over`. ``known``: the journal was there once."""
        session = self._connection.lost_sessions
        await self.sync(layout.place)
        begun: Head | None = None
        for _ in range(_ATTEMPTS):
            found = await self._found(layout)
            try:
                judged = succession(found, layout.witness, ours=ours, known=known, accepted=self._accepted)
            except JournalDamaged as error:
                if self._connection.lost_sessions != session:
                    # A new session may be with a server that lags behind what the old one had seen.
                    raise StorageUnavailable(f"the session with ZooKeeper was lost before: {error}") from error
                raise
            if begun is not None and 0 < begun.term < judged.last.term:
                raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
            begun = begun or judged.last
            head = await self._succeed(layout, found, judged.last)
            if head is not None:
                for line in judged.told:
                    log.error("%s", line)
                return head
        raise StorageUnavailable(f"groups of an older leader keep landing in {layout.journal!r}")

    async def _found(self, layout: Layout) -> Found:
        """What there is of the journal. The witness is read before the heads; see `Found`."""
        witness = await self._stored(layout, layout.witness)
        try:
            names = await self._connection.ask(
                f"read the head of {layout.journal!r}",
                lambda client: client.get_children_async(layout.place),
                NoNodeError,
            )
        except NoNodeError:
            return Found(layout.journal, layout.place, False, False, (), witness)
        heads = []
        for name in sorted(names):
            if name.startswith(HEAD_PREFIX):
                stored = await self._stored(layout, f"{layout.place}/{name}")
                if stored is None:
                    raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
                heads.append(stored)
        return Found(layout.journal, layout.place, True, RECORDS in names, tuple(heads), witness)

    async def _stored(self, layout: Layout, path: str) -> Stored | None:
        """A znode that is meant to hold a head: that of a term, which is named after it, or the witness."""
        try:
            data, stat = await self._connection.ask(f"read {path}", lambda client: client.get_async(path), NoNodeError)
        except NoNodeError:
            return None
        head = decode_head(layout.journal, data)
        if head is not None and path not in (layout.witness, layout.head(head)):
            head = None
        return Stored(path, bytes(data), int(stat.version), head)

    async def _succeed(self, layout: Layout, found: Found, last: Head) -> Head | None:
        """Put a new head in the place of all that was found; None if something of it is not as it was found."""
        head = Head(layout.journal, last.term + 1, last.revision + 1, secrets.token_hex(6), last.digest)
        content = encode_head(head)
        if not found.there:
            await self.make(journals_of(layout.root))
        if found.witness is None:
            await self.make(founded_of(layout.root))

        def replace(request: Any) -> None:
            for stored in found.heads:
                request.delete(stored.path, stored.version)
            if not found.there:
                request.create(layout.place, b"")
            if not found.records:
                request.create(layout.records, b"")
            request.create(f"{layout.place}/{head_name(head)}", content)
            if found.witness is None:
                request.create(layout.witness, content)
            else:
                request.set_data(layout.witness, content, found.witness.version)

        failure = await self._transact(layout, replace)
        if failure is None:
            return head
        if isinstance(failure, BadVersionError | NodeExistsError | NoNodeError):
            return None
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
