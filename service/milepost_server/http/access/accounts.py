"""Authenticates clients by their Kubernetes tokens: the service asks the cluster for a token's owner, and caches the
answer for a while.

Unknown clients may send any number of different tokens. So the number of checks that run or wait, the time of each
check, and the number of cached answers are limited. A token whose claims name another audience is refused without
asking the cluster. A token whose claims name this service is accepted only if the cluster confirms it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from milepost.wire import Code
from milepost_backends.contract import Account, Accounts, BackendError
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import seen
from milepost_server.http.access.tokens import Principal, TokenSource, digest_of

log = logging.getLogger("milepost.tokens")

KNOWN_SECONDS: Final = 60.0
"""The seconds for which the cluster's answer for a token is used, or until the token expires if that is earlier. The
token of a deleted Pod may be accepted for this long.
"""
UNKNOWN_SECONDS: Final = 5.0
"""The seconds for which a token that the cluster does not know is refused without asking again."""
MOST_KEPT: Final = 4096
"""The most cached answers for known tokens, and for unknown tokens; new answers replace the oldest."""
AT_ONCE: Final = 4
MOST_ASKED: Final = 64
"""The most tokens whose check by Kubernetes runs or waits. Requests with further tokens get a problem that can be
retried.
"""
ASK_SECONDS: Final = 10.0

_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.(?P<claims>[A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
_MOST_CHARACTERS: Final = 16 * 1024
_SUBJECT: Final = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")


class Claims(msgspec.Struct):
    """The claims that a token makes, which are not verified: its owner, its audience, and its expiry (Unix time)."""

    sub: str = ""
    aud: str | list[str] | None = None
    exp: float | None = None


class AskedAccounts:
    """Finds the Kubernetes account to which a token belongs, and its rights.

    ``accounts`` asks the cluster for the owner of a token, and ``tokens`` has the rights of each account. ``audience``
    is the name of this service in the claims of a token. ``clock`` returns monotonic seconds, ``wall`` the Unix time.
    """

    def __init__(
        self,
        accounts: Accounts,
        audience: str,
        tokens: TokenSource,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._accounts = accounts
        self._audience = audience
        self._tokens = tokens
        self._clock = clock
        self._wall = wall
        self._known = _Remembered()
        self._nobodys = _Remembered()
        self._asking: dict[bytes, asyncio.Task[Account | None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._trouble = ""

    async def principal(self, bearer: str) -> Principal | None:
        """Return the client that owns this token; None if it belongs to no account that has rights here.

        Raises a ``storage-unavailable`` problem if the cluster does not answer, and a ``too-many-requests`` problem if
        too many tokens wait for the cluster's answer. In both cases the token may still be valid.
        """
        digest, now = digest_of(bearer), self._clock()
        account = self._known.get(digest, now)
        if account is None:
            if self._nobodys.holds(digest, now) or (claims := claims_of(bearer)) is None or not self._may_be(claims):
                return None
            account = await self._asked(digest, bearer, claims)
        return None if account is None else self._tokens.now.account(account.namespace, account.name)

    def remembered(self, digest: bytes) -> Principal | None:
        """Return the client that owns the token with this digest, by the cached answer of the cluster; None without
        one.
        """
        account = self._known.get(digest, self._clock())
        return None if account is None else self._tokens.now.account(account.namespace, account.name)

    def _may_be(self, claims: Claims) -> bool:
        """Return whether a token would be valid for this service now if its claims were true."""
        subject = _SUBJECT.fullmatch(claims.sub)
        if subject is None or self._tokens.now.account(subject["namespace"], subject["name"]) is None:
            return False
        if claims.exp is not None and claims.exp <= self._wall():
            return False
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        return audiences is None or self._audience in audiences

    async def _asked(self, digest: bytes, bearer: str, claims: Claims) -> Account | None:
        """Ask the cluster for the owner of a token; return None if the cluster knows no owner. Concurrent requests with
        the same token share one question.
        """
        task = self._asking.get(digest)
        if task is None:
            if len(self._asking) >= MOST_ASKED:
                raise problem(Code.TOO_MANY_REQUESTS, "too many tokens have to be looked up at the moment")
            task = asyncio.create_task(self._ask(digest, bearer, claims))
            self._asking[digest] = task
            task.add_done_callback(lambda _: self._asking.pop(digest))
            task.add_done_callback(seen)
        try:
            return await asyncio.shield(task)
        except (BackendError, TimeoutError) as error:
            detail = "the Kubernetes API does not say at the moment whose the bearer token is"
            raise problem(Code.STORAGE_UNAVAILABLE, detail) from error

    async def _ask(self, digest: bytes, bearer: str, claims: Claims) -> Account | None:
        try:
            async with asyncio.timeout(ASK_SECONDS), self._turns:
                asked = self._clock()
                account = await self._accounts.owner(bearer)
        except (BackendError, TimeoutError) as error:
            self._say(str(error) or "no answer in time")
            raise
        self._say("")
        if account is None:
            self._nobodys.put(digest, None, asked + UNKNOWN_SECONDS)
        else:
            left = KNOWN_SECONDS if claims.exp is None else min(KNOWN_SECONDS, claims.exp - self._wall())
            self._known.put(digest, account, asked + left)
        return account

    def _say(self, trouble: str) -> None:
        """Log when the cluster stops answering and when it answers again, but not each request in between. ``trouble``
        is the error, or empty if the cluster answered.
        """
        if trouble and not self._trouble:
            log.error("tokens of ServiceAccounts cannot be looked up, and their requests are answered 503: %s", trouble)
        if self._trouble and not trouble:
            log.info("tokens of ServiceAccounts are looked up again")
        self._trouble = trouble


class _Remembered:
    """A cache of the cluster's answers, each by the digest of its token and with its own expiry. It keeps the
    `MOST_KEPT` newest answers.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, tuple[Account | None, float]] = OrderedDict()

    def holds(self, digest: bytes, now: float) -> bool:
        return self._answers.get(digest, (None, now))[1] > now

    def get(self, digest: bytes, now: float) -> Account | None:
        return self._answers[digest][0] if self.holds(digest, now) else None

    def put(self, digest: bytes, account: Account | None, until: float) -> None:
        self._answers.pop(digest, None)
        self._answers[digest] = (account, until)
        if len(self._answers) > MOST_KEPT:
            self._answers.popitem(last=False)


def claims_of(bearer: str) -> Claims | None:
    """Return the claims of a token; None if it does not look like a JSON Web Token (RFC 7519)."""
    match = _JWT.fullmatch(bearer) if len(bearer) <= _MOST_CHARACTERS else None
    if match is None:
        return None
    try:
        text = base64.urlsafe_b64decode(match["claims"] + "=" * (-len(match["claims"]) % 4))
        return msgspec.json.decode(text, type=Claims)
    except (
        binascii.Error,
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
    ):  # the errors of msgspec are subclasses of the last two exceptions in this list
        return None
