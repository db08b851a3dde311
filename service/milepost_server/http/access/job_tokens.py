"""Tokens for the files of one job, under one epoch: OAuth2 client credentials, and the bearer tokens issued for them.

A job's credential is derived from the token of the client that requested it, and stored nowhere. If the token file has
only the digest of that token, the key that the replicas share is part of the derivation, so that a reader of the file
cannot derive the credential. Every replica with the same token file derives the same credential. The credential becomes
invalid once the client is removed from the file, or may no longer write the store. Credentials and bearer tokens are
valid for one epoch only. The token of a deposed driver stays valid, and its writes are refused because of its epoch:
Hadoop's client ends after that refusal, but retries without end if its token is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.access.tokens import ACCOUNT_PREFIX, Principal, Tokens, TokenSource, digest_of, id_of
from milepost_server.http.webhdfs.datanode.transfer_tokens import proof_of

LIFE_SECONDS: Final = 7 * 24 * 3600
"""The lifetime of a bearer token. A job can get a new token at any time, so this only limits how long a copied token
can be used.
"""

MOST_REMEMBERED: Final = 4096
"""The most bearer tokens whose verification is remembered; new tokens replace the oldest."""

_PREFIX = "milepost-job"
_PARENT = r"(?P<parent>[0-9a-f]{16}|account\.[a-z0-9-]{1,63}\.[a-z0-9.-]{1,253})"
_TOKEN = re.compile(
    rf"{_PREFIX}~{_PARENT}~(?P<store>[A-Za-z0-9._-]{{1,200}})~(?P<epoch>[1-9][0-9]{{0,17}})"
    r"~(?P<expires>[1-9][0-9]{0,11})~(?P<proof>[0-9a-f]{64})"
)
_SECRET = re.compile(rf"{_PARENT}~(?P<proof>[0-9a-f]{{64}})")
_CLIENT = re.compile(r"(?P<store>[A-Za-z0-9._-]{1,200})-(?P<epoch>[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Job:
    """The caller that a job's token identifies: the driver and the executors of one store under one epoch."""

    store: str
    epoch: int
    parent: str

    @property
    def name(self) -> str:
        """The name of the job in the access log and in problems."""
        return f"{self.parent}/{self.store}-{self.epoch}"


@dataclass(frozen=True, slots=True)
class Credential:
    """The OAuth2 client credential with which a job gets its bearer tokens."""

    client_id: str
    client_secret: str = field(repr=False)


class JobTokens:
    """Makes and verifies the credentials and the bearer tokens of jobs, which clients in ``tokens`` request. ``key`` is
    the key that the replicas share, and ``wall`` returns the Unix time.

    All methods raise ``storage-unavailable`` and ``corrupt`` problems if they need that key and it cannot be read or
    made.
    """

    def __init__(self, tokens: TokenSource, key: SharedKey, wall: Callable[[], float]) -> None:
        self._tokens = tokens
        self._key = key
        self._wall = wall
        self._verified: dict[bytes, tuple[Job, int]] = {}
        """Verified tokens by their digest: the job, and the Unix time at which the token expires."""
        self._verified_by: Tokens | None = None
        """The list of clients by which those tokens were verified."""

    async def credential(self, parent: Principal, store: str, epoch: int) -> Credential:
        """Return the credential of the job of ``store`` under ``epoch``, requested by the client ``parent``. Repeated
        calls return the same credential.
        """
        proof = _proof(await self._secret_of(parent), "credential", store, str(epoch))
        return Credential(f"{store}-{epoch}", f"{_id(parent)}~{proof}")

    async def token_for(self, client_id: str, client_secret: str) -> str | None:
        """Return a new bearer token for this credential; None if the credential is wrong, or no longer valid."""
        client, shown = _CLIENT.fullmatch(client_id), _SECRET.fullmatch(client_secret)
        if client is None or shown is None or (parent := self._parent(shown["parent"], client["store"])) is None:
            return None
        store, epoch, secret = client["store"], client["epoch"], await self._secret_of(parent)
        if not hmac.compare_digest(shown["proof"], _proof(secret, "credential", store, epoch)):
            return None
        expires = str(int(self._wall()) + LIFE_SECONDS)
        proof = _proof(secret, "token", store, epoch, expires)
        return "~".join((_PREFIX, shown["parent"], store, epoch, expires, proof))

    async def known(self, bearer: str) -> Job | None:
        """Return the job that owns this token; None if no job does. Raises ``unauthenticated`` if the token has
        expired.
        """
        digest = digest_of(bearer)
        if (job := self.remembered(digest)) is not None:
            return job
        clients, match = self._tokens.now, _TOKEN.fullmatch(bearer)
        if match is None or (parent := self._parent(match["parent"], match["store"])) is None:
            return None
        proof = _proof(await self._secret_of(parent), "token", match["store"], match["epoch"], match["expires"])
        if not hmac.compare_digest(match["proof"], proof):
            return None
        if int(match["expires"]) <= self._wall():
            raise problem(Code.UNAUTHENTICATED, "the token of this job has expired: ask for another one")
        job = Job(match["store"], int(match["epoch"]), parent.name)
        if clients is self._tokens.now:
            self._remember(digest, job, int(match["expires"]), clients)
        return job

    def remembered(self, digest: bytes) -> Job | None:
        """Return the job that owns the token with this digest, if the token was verified before, has not expired, and
        the list of clients has not changed since; else None.
        """
        job, expires = self._verified.get(digest, (None, 0))
        return job if self._verified_by is self._tokens.now and expires > self._wall() else None

    def _remember(self, digest: bytes, job: Job, expires: int, clients: Tokens) -> None:
        if clients is not self._verified_by:
            self._verified, self._verified_by = {}, clients
        self._verified[digest] = job, expires
        while len(self._verified) > MOST_REMEMBERED:
            del self._verified[next(iter(self._verified))]

    def _parent(self, identity: str, store: str) -> Principal | None:
        """Return the client that requested a job's credential, by the ``identity`` in it; None if that client is no
        longer listed, or may no longer write the store.
        """
        first, *rest = identity.split(".", 2)
        tokens = self._tokens.now
        parent = tokens.account(*rest) if rest else tokens.by_id(first)
        return parent if parent is not None and parent.rights.may_write(store) else None

    async def _secret_of(self, parent: Principal) -> bytes:
        """Return the secret from which the credentials of this client's jobs are derived. Only the replicas, and a
        holder of the client's token, can know it.
        """
        if parent.digest is not None and not parent.secret:
            return parent.digest
        return proof_of(parent.digest or parent.name.encode(), await self._key.get(), _JOB)


_JOB: Final = b"job"


def _id(parent: Principal) -> str:
    if parent.digest is not None:
        return id_of(parent.digest)
    return "account." + parent.name.removeprefix(ACCOUNT_PREFIX).replace("/", ".", 1)


def _proof(secret: bytes, *said: str) -> str:
    return hmac.digest(secret, "~".join(said).encode(), hashlib.sha256).hex()
