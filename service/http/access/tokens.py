"""Authenticate clients by bearer tokens. Tokens are kept as digests, and none is ever logged."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from milepost.wire import Code
from service.basics.problems import problem

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Token:
    """A client's credential: its name for the log, the digest of its token, and whether it may only read."""

    name: str
    digest: bytes
    read_only: bool = False


class Tokens:
    """The accepted tokens. If there are none, every client is accepted."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = tuple(tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    @property
    def that_may_write(self) -> tuple[Token, ...]:
        """The tokens that may do more than read."""
        return tuple(token for token in self._tokens if not token.read_only)

    def known(self, authorization: str | None) -> Token:
        """Return the accepted token that the header ``authorization`` carries. Raises ``unauthenticated``.

        If the same token is listed twice, this is the entry that may write.
        """
        digest = _digest(bearer_of(authorization))
        found = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        if not found:
            raise problem(Code.UNAUTHENTICATED, "the bearer token is not known")
        return min(found, key=lambda token: token.read_only)


def bearer_of(authorization: str | None) -> str:
    """Return the bearer token in the header ``authorization``. Raises ``unauthenticated`` if there is none."""
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        raise problem(Code.UNAUTHENTICATED, "the request needs a header Authorization with a bearer token")
    return given.strip()


def check(token: Token, method: str) -> None:
    """Raise ``forbidden`` for a change by a client whose token may only read."""
    if token.read_only and method not in _READING:
        raise problem(Code.FORBIDDEN, f"the token {token.name!r} may only read")


def read_tokens(path: Path) -> Tokens:
    """Read tokens from a file, one on each line: ``name token`` or ``name token read-only``; ``#`` begins a comment.

    Raises a ValueError that names the line, but never its token.
    """
    tokens: list[Token] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        if len(fields) not in (2, 3) or fields[2:] not in ([], ["read-only"]):
            raise ValueError(f"{path}, line {number}: expected 'name token' or 'name token read-only'")
        if len(fields[1]) < 16:
            raise ValueError(f"{path}, line {number}: a token needs at least 16 characters")
        tokens.append(Token(fields[0], _digest(fields[1]), len(fields) == 3))
    if not tokens:
        raise ValueError(f"{path} holds no token")
    return Tokens(tokens)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
