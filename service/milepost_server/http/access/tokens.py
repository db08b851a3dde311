"""The clients that a deployment knows: by their bearer tokens, of which it keeps digests, or by their accounts."""

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
    """The caller, and its rights.

    ``digest`` is that of a listed token, None for an account. ``secret`` says whether a reader of the token file knows
    only the digest, and not the token.
    """

    name: str
    rights: Rights
    digest: bytes | None = field(default=None, repr=False)
    secret: bool = True


@dataclass(frozen=True, slots=True)
class AccountRights:
    """The rights of the account ``name`` of a namespace, or of each account of it if ``name`` is a star."""

    namespace: str
    name: str
    rights: Rights

    def __str__(self) -> str:
        return f"{ACCOUNT_PREFIX}{self.namespace}/{self.name}"


class Tokens:
    """The known clients. If there are none, everyone is accepted."""

    def __init__(self, listed: Iterable[Principal] = (), accounts: Iterable[AccountRights] = ()) -> None:
        self._by_digest = {each.digest: each for each in listed if each.digest is not None}
        self._by_id = {id_of(digest): each for digest, each in self._by_digest.items()}
        self._accounts = {(each.namespace, each.name): each for each in accounts}

    def __bool__(self) -> bool:
        return bool(self._by_digest or self._accounts)

    @property
    def now(self) -> Tokens:
        """Return this list itself, which does not change. See `TokenSource`."""
        return self

    @property
    def names(self) -> list[str]:
        """The names of all clients, sorted, each once; accounts as the list has them."""
        return sorted({each.name for each in self._by_digest.values()} | set(map(str, self._accounts.values())))

    def known(self, bearer: str) -> Principal | None:
        """Return the owner of this token; None for a token that is not listed.

        The token is looked up by its digest. The time for this reveals nothing about the listed tokens: it depends on
        the digest of the sent text, and no one can find a text whose SHA-256 begins like a listed one without knowing
        that token.
        """
        return self._by_digest.get(digest_of(bearer))

    def account(self, namespace: str, name: str) -> Principal | None:
        """Return the rights of an account, by the lines for it and for its namespace together; None if there are
        none.
        """
        lines = [self._accounts.get((namespace, each)) for each in (name, STAR)]
        rights = [line.rights for line in lines if line is not None]
        if not rights:
            return None
        return Principal(f"{ACCOUNT_PREFIX}{namespace}/{name}", sum(rights[1:], rights[0]))

    def by_id(self, identity: str) -> Principal | None:
        """Return the client whose token has this `id_of`; None if it is not, or no longer, listed."""
        return self._by_id.get(identity)


class TokenSource(Protocol):
    """The source of the present list of clients."""

    @property
    def now(self) -> Tokens:
        """The list that counts from now on, until it is replaced as a whole."""


def bearer_of(authorization: str | None) -> str:
    """Return the bearer token in the header ``authorization``. Raises ``unauthenticated`` if there is none."""
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        raise problem(Code.UNAUTHENTICATED, "the request needs a header Authorization with a bearer token")
    return given.strip()


def digest_of(token: str) -> bytes:
    """Return the digest that is stored instead of a token."""
    return hashlib.sha256(token.encode()).digest()


def id_of(digest: bytes) -> str:
    """Return a name for a token that reveals nothing about it, for values that are derived from the token."""
    return hmac.digest(digest, b"id", hashlib.sha256).hex()[:16]
