"""Tokens for the files of one job, under one epoch: OAuth2 client credentials, and the bearer tokens made of them.

A job's credential is derived from the listed token with which the driver asked for it. So every replica that has the
same list knows it, nothing is stored, and it is worth nothing any more once that token has left the list. Neither
credential nor token can be turned into one for another epoch. A deposed driver keeps its token, whose writes are
refused because of its epoch: Hadoop's client ends at that refusal, but asks again and again for a token refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from milepost.wire import Code
from service.basics.problems import problem
from service.http.access.tokens import Token, Tokens

LIFE_SECONDS: Final = 7 * 24 * 3600
"""How long a bearer token is good for. A new one can be had at any time, so this only bounds the use of an old copy."""

_PREFIX = "milepost-job"
_TOKEN = re.compile(
    rf"{_PREFIX}~(?P<parent>[0-9a-f]{{16}})~(?P<store>[A-Za-z0-9._-]{{1,200}})~(?P<epoch>[1-9][0-9]{{0,17}})"
    r"~(?P<expires>[1-9][0-9]{0,11})~(?P<proof>[0-9a-f]{64})"
)
_SECRET = re.compile(r"(?P<parent>[0-9a-f]{16})~(?P<proof>[0-9a-f]{64})")
_CLIENT = re.compile(r"(?P<store>[A-Za-z0-9._-]{1,200})-(?P<epoch>[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Job:
    """Who acts with a job's token: the driver and the executors of a store, under one epoch."""

    store: str
    epoch: int
    parent: str

    @property
    def name(self) -> str:
        """The name for the log."""
        return f"{self.parent}/{self.store}-{self.epoch}"


@dataclass(frozen=True, slots=True)
class Credential:
    """What a job shows to get its tokens."""

    client_id: str
    client_secret: str = field(repr=False)


class JobTokens:
    """The tokens of jobs that the holders of ``tokens`` have asked for. ``wall`` gives seconds since 1970."""

    def __init__(self, tokens: Tokens, wall: Callable[[], float]) -> None:
        self._parents = {_id_of(token): token for token in tokens.that_may_write}
        self._wall = wall

    def credential(self, parent: Token, store: str, epoch: int) -> Credential:
        """Return the credential of a job under an epoch: the same one each time."""
        return Credential(f"{store}-{epoch}", f"{_id_of(parent)}~{_proof(parent, 'credential', store, str(epoch))}")

    def token_for(self, client_id: str, client_secret: str) -> str | None:
        """Return a new token for who shows this credential; None if it is wrong."""
        client, secret = _CLIENT.fullmatch(client_id), _SECRET.fullmatch(client_secret)
        if client is None or secret is None or (parent := self._parents.get(secret["parent"])) is None:
            return None
        store, epoch = client["store"], client["epoch"]
        if not hmac.compare_digest(secret["proof"], _proof(parent, "credential", store, epoch)):
            return None
        expires = str(int(self._wall()) + LIFE_SECONDS)
        proof = _proof(parent, "token", store, epoch, expires)
        return "~".join((_PREFIX, secret["parent"], store, epoch, expires, proof))

    def known(self, bearer: str) -> Job | None:
        """Return the job whose token this is; None if it is no job's. Raises ``unauthenticated`` if it is over."""
        match = _TOKEN.fullmatch(bearer)
        if match is None or (parent := self._parents.get(match["parent"])) is None:
            return None
        proof = _proof(parent, "token", match["store"], match["epoch"], match["expires"])
        if not hmac.compare_digest(match["proof"], proof):
            return None
        if int(match["expires"]) <= self._wall():
            raise problem(Code.UNAUTHENTICATED, "the token of this job has expired: ask for another one")
        return Job(match["store"], int(match["epoch"]), parent.name)


def _id_of(token: Token) -> str:
    return hmac.digest(token.digest, b"id", hashlib.sha256).hex()[:16]


def _proof(parent: Token, *said: str) -> str:
    return hmac.digest(parent.digest, "~".join(said).encode(), hashlib.sha256).hex()
