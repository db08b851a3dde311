"""The data nodes of a deployment, as the leader knows them from heartbeats, and the tokens with which it redirects
clients.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container
from dataclasses import dataclass
from urllib.parse import urlsplit

from milepost_backends.contract import PATIENCE_SECONDS
from milepost_server.blobs.intake import Incoming
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.webhdfs.datanode.data_node import DataNode, Taken
from milepost_server.http.webhdfs.datanode.transfer_tokens import (
    LIFE_SECONDS,
    DownloadToken,
    Kind,
    UploadToken,
    check_not_late,
    check_time,
    sign,
    verify,
)
from milepost_server.journal import Journal
from milepost_server.model.requests.trees import NOW, Begun
from milepost_server.model.trees import Entry
from milepost_server.operations.trees import At

_MOST_TRIES = 10**9

_KNOWN_SECONDS = 7.0
"""The seconds for which clients are sent to a data node after its last heartbeat."""

_MOST = 100


class DataNodeRegistry:
    """The addresses of a deployment's data nodes, which the leader chooses in turn: the other replicas that lately sent
    a heartbeat, and ``own``, that of this replica. ``clock`` returns monotonic seconds.
    """

    def __init__(self, own: str, clock: Callable[[], float]) -> None:
        self.own = own.rstrip("/")
        self._clock = clock
        self._until: dict[str, float] = {}

    def note(self, url: str) -> None:
        """Note a heartbeat of the data node at this address. Clients are sent there for some seconds."""
        url = url.rstrip("/")
        if url != self.own and (url in self._until or len(self._until) < _MOST):
            self._until[url] = self._clock() + _KNOWN_SECONDS

    def forget(self, url: str) -> None:
        """Forget the data node at this address, because it leaves."""
        self._until.pop(url.rstrip("/"), None)

    def all(self) -> list[str]:
        """Return the addresses of all data nodes, this replica's own first."""
        now = self._clock()
        return [self.own, *sorted(url for url, until in self._until.items() if until > now)]

    def next(self, excluded: Container[str] = ()) -> str:
        """Return the address of the next data node in turn.

        ``excluded`` has the hosts and ports that did not answer the client. The result is this replica's own address
        only if there is no other data node: if the leader received bodies itself, its death would interrupt them.
        """
        now = self._clock()
        self._until = {url: until for url, until in self._until.items() if until > now}
        for url in self._until:
            if urlsplit(url).netloc not in excluded:
                # put the data node at the end of the order, so that the others get their turn first
                self._until[url] = self._until.pop(url)
                return url
        return self.own


@dataclass(frozen=True, slots=True)
class DataNodes:
    """Sends clients to data nodes, and makes and verifies their tokens.

    ``own`` is this replica's own data node, and ``known`` the data nodes that it knows while it leads. ``key`` is the
    key that replicas share, which signs the tokens. ``wall`` returns the Unix time.
    """

    own: DataNode
    known: DataNodeRegistry
    key: SharedKey
    journal: Journal
    wall: Callable[[], float]

    async def upload_token(
        self, at: At, epoch: int | None, *, overwrite: bool, excluded: Container[str], begun: Begun = NOW
    ) -> tuple[str, str]:
        """Return the address of a data node, and the token for one put there.

        ``excluded`` has the hosts and ports of data nodes that did not answer the client. ``begun`` is the directory
        that must still exist when the file is published.
        """
        await self.key.get()
        return self.signed_upload_token(at, epoch, overwrite=overwrite, excluded=excluded, begun=begun)

    def signed_upload_token(
        self, at: At, epoch: int | None, *, overwrite: bool, excluded: Container[str] = (), begun: Begun
    ) -> tuple[str, str]:
        """Return what `upload_token` does, once the shared key is in memory."""
        token = self._upload_token(at, epoch, overwrite, secrets.token_hex(16), begun)
        return self.known.next(excluded), sign(token, self.key.known)

    async def take(
        self,
        at: At,
        epoch: int | None,
        incoming: Incoming,
        *,
        overwrite: bool,
        key: str | None,
        tries: int,
        begun: Begun = NOW,
        patience: float = PATIENCE_SECONDS,
    ) -> Taken:
        """Receive the bytes of a file without a redirect, as this replica's own data node.

        So the file is still published if another replica becomes the leader meanwhile. ``key`` is the client's
        idempotency key, and ``tries`` how often the client has sent the bytes before. ``begun`` is the directory that
        must still exist when the file is published. ``patience`` is that of `DataNode.take`, whose problems are raised.
        """
        token = self._upload_token(at, epoch, overwrite, key or secrets.token_hex(16), begun)
        text = sign(token, await self.key.get())
        return await self.own.take(token, text, incoming, min(tries, _MOST_TRIES), patience)

    def _upload_token(self, at: At, epoch: int | None, overwrite: bool, key: str, begun: Begun) -> UploadToken:
        journal = self.journal
        deployment, term = journal.deployment, journal.term
        return UploadToken(at.store, at.path, epoch, overwrite, key, deployment, term, self._until(), begun)

    async def download_token(self, at: At, entry: Entry, excluded: Container[str]) -> tuple[str, str]:
        """Return the address of a data node for the bytes of a file, and the token to read them. The bytes of a small
        file, which has no blob of its own, come from this replica, the leader.
        """
        blob = entry.blob if entry.has_own_blob else ""
        token = DownloadToken(at.store, at.path, blob, entry.size, entry.sha256, self._until())
        data_node = self.known.next(excluded) if blob else self.known.own
        return data_node, sign(token, await self.key.get())

    async def token(self, text: str, kind: type[Kind], at: At) -> Kind:
        """Return the token that a client sent as ``text``, a part of the address. Raises a ``forbidden`` problem unless
        the token is of this ``kind``, was signed with the key of the deployment, is for the file ``at``, and is not too
        old.
        """
        await self.key.get()
        return self.verified(text, kind, at)

    def verified(self, text: str, kind: type[Kind], at: At) -> Kind:
        """Return what `token` does, once the shared key is in memory."""
        token = verify(text, self.key.known, kind, at)
        check_time(token, self.wall())
        return token

    async def to_publish(self, text: str, at: At) -> UploadToken:
        """Return the upload token in ``text``, with which a data node asks to publish a file. Raises a ``forbidden``
        problem unless the token was signed with the key of the deployment, is for the file ``at``, and is not too old
        to publish with.
        """
        token = verify(text, await self.key.get(), UploadToken, at)
        check_not_late(token, self.wall())
        return token

    def _until(self) -> int:
        return int(self.wall()) + LIFE_SECONDS
