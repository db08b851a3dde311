"""The clients that a deployment knows, by the digests of their bearer tokens or by their Kubernetes accounts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.rights import STAR, Rights

ACCOUNT_PREFIX: Final = "serviceaccount:"
"""The prefix of the names of accounts; names of listed tokens never have it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A client, and its rights. ``digest`` is the digest of the client's token, None for a Kubernetes account.
    ``secret`` is whether a reader of the token file does not know the token, since the file has only its digest.
    """

    name: str
    rights: Rights
    digest: bytes | None = field(default=None, repr=False)
    secret: bool = True


@dataclass(frozen=True, slots=True)
class AccountRights:
    """The rights of the account ``name`` of a namespace, or of all accounts of the namespace if ``name`` is ``*``."""

    namespace: str
    name: str
    rights: Rights

    def __str__(self) -> str:
        return f"{ACCOUNT_PREFIX}{self.namespace}/{self.name}"


class Tokens:
    """The clients that a deployment knows. If there are none, the service accepts every caller."""

    def __init__(self, listed: Iterable[Principal] = (), accounts: Iterable[AccountRights] = ()) -> None:
        self._by_digest = {each.digest: each for each in listed if each.digest is not None}
        self._by_id = {id_of(digest): each for digest, each in self._by_digest.items()}
        self._accounts = {(each.namespace, each.name): each for each in accounts}

    def __bool__(self) -> bool:
        return bool(self._by_digest or self._accounts)

    @property
    def now(self) -> Tokens:
        """This list itself, so that a list which never changes can be used as a `TokenSource`."""
        return self

    @property
    def names(self) -> list[str]:
        """The names of all clients, sorted, each once. Accounts have their names in the token file, which may contain
        stars.
        """
        return sorted({each.name for each in self._by_digest.values()} | set(map(str, self._accounts.values())))

    def known(self, bearer: str) -> Principal | None:
        """Return the owner of this token; None for a token that is not listed.

        The token is looked up by its digest. The look-up compares digests only, so the time that it takes reveals
        nothing about the listed tokens themselves.
        """
        return self.of_digest(digest_of(bearer))

    def of_digest(self, digest: bytes) -> Principal | None:
        """Return the owner of the token with this digest; None if no listed token has it."""
        return self._by_digest.get(digest)

    def account(self, namespace: str, name: str) -> Principal | None:
        """Return the client for a Kubernetes account, with the rights of the account's own line and of its namespace's
        line in the token file together; None without either line.
        """
        lines = [self._accounts.get((namespace, each)) for each in (name, STAR)]
        rights = [line.rights for line in lines if line is not None]
        if not rights:
            return None
        return Principal(f"{ACCOUNT_PREFIX}{namespace}/{name}", sum(rights[1:], rights[0]))

    def by_id(self, identity: str) -> Principal | None:
        """Return the client whose token has this id (`id_of`); None if no listed token has it."""
        return self._by_id.get(identity)


class TokenSource(Protocol):
    """The interface of an object whose ``now`` is the present list of clients, such as a watched token file."""

    @property
    def now(self) -> Tokens:
        """The present list of clients. After a change of the token file, this is another object."""


def bearer_of(authorization: str | None) -> str:
    """Return the bearer token in the header ``authorization``. Raises ``unauthenticated`` if there is none."""
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        raise problem(Code.UNAUTHENTICATED, "the request needs a header Authorization with a bearer token")
    return given.strip()


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of a token, by which the token is looked up; the service does not keep the token itself."""
    return hashlib.sha256(token.encode()).digest()


def id_of(digest: bytes) -> str:
    """Return a public id for the token with this digest. Credentials and tokens of jobs name their client's token by
    it. The id does not reveal the token.
    """
    return hmac.digest(digest, b"id", hashlib.sha256).hex()[:16]
