"""Reads, makes and takes over the head of a journal in ZooKeeper, together with the witness, a copy of the head."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

from milepost_backends.contract import (
    BackendError,
    Head,
    JournalDamaged,
    Misconfigured,
    StorageUnavailable,
    TakeOverLost,
)
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.errors import backend_error, first_failure
from milepost_backends.zookeeper.pointers.layout import (
    HEAD_PREFIX,
    RECORDS,
    ZnodeLayout,
    decode_head,
    encode_head,
    founded_of,
    head_name,
    journals_of,
)
from milepost_backends.zookeeper.pointers.succession import Remembered, Stored, StoredJournal, succession

log = logging.getLogger("milepost.zookeeper")

_ATTEMPTS: Final = 20
"""The most attempts at a take-over. An attempt fails while the last leader still commits groups that were in flight."""

_ANY_VERSION: Final = -1
"""The version that matches any znode. It is used for a znode that may not be read: the take-over is then conditional on
the witness alone.
"""

_MOST_BELOW: Final = 1000
"""The most znodes of other programs below a head that one attempt deletes."""


class Heads:
    """Reads and changes the heads of journals, over one connection to ZooKeeper.

    ``accepted`` has the values of ``--accept-loss``. This object remembers lineage and term of each take-over that this
    process has sent, until it is certain that a later one has replaced it.
    """

    def __init__(self, connection: ZooKeeperConnection, accepted: Collection[str] = ()) -> None:
        self._connection = connection
        self._accepted = accepted
        self._attempted: dict[str, dict[str, int]] = {}

    async def sync(self, path: str) -> None:
        """Let the server of this connection catch up with the ensemble, so that later reads of ``path`` are current."""
        await self._connection.ask(f"catch up on {path}", lambda client: client.sync_async(path))

    async def make(self, place: str) -> None:
        """Make the znode at ``place`` and its parents, if they are absent."""
        await self._connection.ask(f"make {place}", lambda client: client.ensure_path_async(place))

    async def version(self, layout: ZnodeLayout, head: Head) -> int | None:
        """Return the version of the znode of ``head``, on which a write can be conditional; None if ``head`` is not
        stored.

        Raises `JournalDamaged`.
        """
        path = layout.head(head)
        found = await self._stored(layout, path)
        if found is None:
            return None
        if not found.readable:
            raise _not_permitted(path)
        if found.head is None:
            raise JournalDamaged(f"{path} does not hold a valid head: {found.data[:300]!r}")
        return found.version if found.head == head else None

    async def missing(self, layout: ZnodeLayout, head: Head) -> BackendError:
        """Return the error for ``head``, which a take-over of this process has written, but which is no longer stored.

        It is `TakeOverLost` if another leader has a later term, and `StorageUnavailable` if another program deleted or
        altered the head.
        """
        ours = self._attempted.get(layout.journal, {})
        found = await self._found(layout)
        heads = [] if found is None else [stored.head for stored in found.stored if stored.head is not None]
        if head.lineage not in ours or any(each.term > head.term and each.lineage not in ours for each in heads):
            return TakeOverLost(f"another leader took {layout.journal!r} over")
        return StorageUnavailable(f"another program deleted or altered {layout.head(head)}")

    async def confirm(self, layout: ZnodeLayout, head: Head) -> bool:
        """Return whether a head with the term and lineage of ``head`` is stored: no take-over has replaced it."""
        path = layout.head(head)
        await self.sync(path)
        doing = f"read the head of {layout.journal!r}"
        return await self._connection.ask(doing, lambda client: client.exists_async(path)) is not None

    async def take_over(self, layout: ZnodeLayout, ours: Head | None, *, digests: Collection[str], known: bool) -> Head:
        """Take over the journal of ``layout``, and return its new head; see `PointerStore.take_over`.

        ``digests`` are the digests after the last groups of this process, which may be committed or not. ``known`` says
        that this process has seen the journal before.
        """
        session = self._connection.lost_sessions
        attempted = self._attempted.setdefault(layout.journal, {})
        memory = None if ours is None else Remembered(ours, attempted, digests)
        await self.sync(layout.place)
        begun: Head | None = None
        for _ in range(_ATTEMPTS):
            found = await self._found(layout)
            if found is None:
                continue
            unreadable = [stored.path for stored in found.stored if not stored.readable]
            try:
                judged = succession(found, layout.witness, ours=memory, known=known, accepted=self._accepted)
            except JournalDamaged as error:
                if self._connection.lost_sessions != session:
                    # The journal may be undamaged: a new session may be with a server that lags behind.
                    raise StorageUnavailable(f"the ZooKeeper session was lost meanwhile: {error}") from error
                if unreadable:
                    raise _not_permitted(unreadable[0]) from error
                raise
            if unreadable and (found.witness is None or not found.witness.readable):
                raise _not_permitted(unreadable[0])
            last = judged.last
            if ours is None and begun is not None and 0 < begun.term < last.term and last.lineage not in attempted:
                raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
            begun = begun or last
            head = await self._succeed(layout, found, last, attempted)
            if head is not None:
                for line in judged.log_lines:
                    log.error("%s", line)
                self._forget(attempted, head if ours is None else ours)
                return head
        raise StorageUnavailable(
            f"journal {layout.journal!r} keeps changing: groups of an older leader are still being committed"
        )

    def _forget(self, attempted: dict[str, int], oldest: Head) -> None:
        """Forget the remembered take-overs (``attempted``) of terms before ``oldest``.

        Their heads are gone, so they can no longer be committed.
        """
        for lineage in [lineage for lineage, term in attempted.items() if term < oldest.term]:
            del attempted[lineage]

    async def _found(self, layout: ZnodeLayout) -> StoredJournal | None:
        """Read the stored parts of the journal, in the order that `StoredJournal` requires.

        Return None if a head was deleted in the meantime, so that the parts must be read again.
        """
        witness = await self._stored(layout, layout.witness)
        try:
            names = await self._connection.ask(
                f"read the head of {layout.journal!r}",
                lambda client: client.get_children_async(layout.place),
                NoNodeError,
            )
        except NoNodeError:
            return StoredJournal(layout.journal, layout.place, False, False, (), witness)
        heads = []
        for name in sorted(names):
            if name.startswith(HEAD_PREFIX):
                stored = await self._stored(layout, f"{layout.place}/{name}")
                if stored is None:
                    return None
                heads.append(stored)
        return StoredJournal(layout.journal, layout.place, True, RECORDS in names, tuple(heads), witness)

    async def _stored(self, layout: ZnodeLayout, path: str) -> Stored | None:
        """Read the znode at ``path``, which is that of a head or of the witness; None if it does not exist.

        A head whose term and lineage differ from those in the znode's name is not valid.
        """
        try:
            data, stat = await self._connection.ask(
                f"read {path}", lambda client: client.get_async(path), NoNodeError, NoAuthError
            )
        except NoNodeError:
            return None
        except NoAuthError:
            return Stored(path, b"", _ANY_VERSION, None, readable=False)
        head = decode_head(layout.journal, data)
        if head is not None and path not in (layout.witness, layout.head(head)):
            head = None
        return Stored(path, bytes(data), int(stat.version), head)

    async def _succeed(
        self, layout: ZnodeLayout, found: StoredJournal, last: Head, attempted: dict[str, int]
    ) -> Head | None:
        """Replace all stored heads by a new head, which follows ``last``; return None if another process changed one
        meanwhile.

        The lineage of the new head is added to ``attempted``.
        """
        head = Head(layout.journal, last.term + 1, last.revision + 1, secrets.token_hex(6), last.digest)
        attempted[head.lineage] = head.term
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
        if isinstance(failure, NotEmptyError):
            for stored in found.heads:
                await self._empty(stored.path)
            return None
        if isinstance(failure, BadVersionError | NodeExistsError | NoNodeError):
            return None
        raise backend_error(failure, f"take over {layout.journal!r}") from failure

    async def _empty(self, path: str) -> None:
        """Delete the znodes that other programs made below the head at ``path``, since they prevent the deletion of the
        head.
        """
        below = [path]
        for each in below:
            names = await self._ask_of("get_children_async", each) or ()
            below.extend(f"{each}/{name}" for name in names[: _MOST_BELOW - len(below)])
        for each in reversed(below[1:]):
            log.error("another program made %s below a head; it is deleted", each)
            await self._ask_of("delete_async", each)

    async def _ask_of(self, method: str, path: str) -> Any:
        """Call ``method`` of kazoo's client with ``path``, and return the answer.

        None if the znode at ``path`` does not exist any more, or has children that prevent its deletion.
        """
        with suppress(NoNodeError, NotEmptyError):
            return await self._connection.ask(
                f"tidy up {path}", lambda client: getattr(client, method)(path), NoNodeError, NotEmptyError
            )
        return None

    async def _transact(self, layout: ZnodeLayout, fill: Callable[[Any], None]) -> KazooException | None:
        """Run a transaction, to which ``fill`` adds the operations.

        Return None on success, else the exception of the operation that failed.
        """

        def act(client: Any) -> Any:
            request = client.transaction()
            fill(request)
            return request.commit_async()

        results = await self._connection.ask(f"take over {layout.journal!r}", act)
        failure = first_failure(results)
        return None if failure is None else failure[1]


def _not_permitted(path: str) -> Misconfigured:
    return Misconfigured(f"cannot read {path}: ZooKeeper does not permit it")
