"""Translates answers of the Kubernetes API, and missing answers, into the errors of the contract; no other module does.

A request for a change ends in one of three ways (`Fate`):

- applied: the answer is 2xx;
- not applied: the API server refused the request while it read, checked or compared it. That is every 4xx but the two
  that a proxy on the way may send as well, and the 500 by which etcd says that the request is too large;
- unknown: any other answer, since the API server may send it after etcd has written. (After a 504 that was seen: the
  write had been committed.) That etcd has no space left proves nothing either: it compares its size with its quota when
  a write comes in, which is then refused, and again when it applies one, which it then writes *and* refuses. It is also
  unknown if there is no answer, unless nothing was sent.

::

    StorageUnavailable
    ├── NotSent      nothing was sent: it is certain that nothing was applied
    └── NoAnswer     sent, or perhaps sent: it may have been applied, or may yet be
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    SSLError,
)

from milepost_backends.contract import BackendError, Misconfigured, Refusal, StorageFull, StorageUnavailable

SPACE_EXCEEDED: Final = "mvcc: database space exceeded"
"""etcd's message when its quota is used up; from then on it refuses every create and update in the whole cluster."""

_IMMUTABLE: Final = "`immutable` is set"
_REQUEST_TOO_LARGE: Final = "request is too large"
_TOO_LONG: Final = "Too long"
_OVER_QUOTA: Final = "exceeded quota"
_PERHAPS_OF_A_PROXY: Final = (408, 499)
"""The statuses with which a proxy may answer after it has passed the request on."""
_MEANINGLESS: Final = (400, 405, 406, 415)
"""The statuses of a server that is not a Kubernetes API, speaks only HTTPS, or has a policy against the request, and
always will be.
"""
_SHOWN_CHARACTERS: Final = 300
"""The number of characters of a message that errors and logs show."""


class NotSent(StorageUnavailable):
    """Nothing reached the API server, so nothing was applied, nor ever will be."""


class NoAnswer(StorageUnavailable):
    """The request was sent, or perhaps was, and no complete answer came: it may have been applied, or may yet be."""


class Fate(Enum):
    """The fate of a request for a change."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer of the API: its status, its body and, for a failure, the body's description of it.

    ``reason`` is the API's own word for the failure (``Conflict``, ``AlreadyExists``, …), and ``message`` explains it.
    A body in plain text has no ``reason``, and is the ``message`` itself.
    """

    status: int
    body: bytes
    reason: str = ""
    message: str = ""

    @classmethod
    def read(cls, status: int, body: bytes) -> ApiAnswer:
        """Return the answer with this status and body."""
        if status < 300:
            return cls(status, body)
        try:
            failure = msgspec.json.decode(body, type=_Status)
        except msgspec.MsgspecError:  # 429, and answers of proxies, are plain text
            return cls(status, body, "", body[:_SHOWN_CHARACTERS].decode("utf-8", "replace").strip())
        return cls(status, body, failure.reason, failure.message)

    @property
    def done(self) -> bool:
        """Return whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def fate(self) -> Fate:
        """Return the fate of a request for a change."""
        if self.done:
            return Fate.APPLIED
        if 400 <= self.status < 500 and self.status not in _PERHAPS_OF_A_PROXY:
            return Fate.NOT_APPLIED
        if self.status == 500 and _REQUEST_TOO_LARGE in self.message:
            return Fate.NOT_APPLIED
        return Fate.UNKNOWN

    @property
    def is_out_of_space(self) -> bool:
        """Return whether etcd has no space left; etcd may still have written a write that gets this answer, see
        `Fate`.
        """
        return SPACE_EXCEEDED in self.message

    @property
    def is_of_immutable(self) -> bool:
        """Return whether the request was refused because the object is immutable."""
        return self.status == 422 and _IMMUTABLE in self.message

    @property
    def refusal(self) -> Refusal:
        """Return the contract's reason why the request was refused; it has no meaning for an applied request.

        A conflict has no reason of its own here: callers check for it first, by ``status`` and `is_of_immutable`.
        """
        if self.is_out_of_space or (self.status == 403 and _OVER_QUOTA in self.message):
            return Refusal.FULL
        too_long = self.status == 422 and _TOO_LONG in self.message
        if self.status == 413 or too_long or _REQUEST_TOO_LARGE in self.message:
            return Refusal.TOO_LARGE
        if self.status in (401, 403):
            return Refusal.DENIED
        return Refusal.FAILED

    def __str__(self) -> str:
        """Return status, reason and message."""
        return f"{self.status} {self.reason} {self.message[:_SHOWN_CHARACTERS]}".replace("  ", " ").strip()


class _Status(msgspec.Struct):
    """The API's ``Status`` object, with which it answers a failed request; other members of it are ignored."""

    kind: str = ""
    reason: str = ""
    message: str = ""


def backend_error(answer: ApiAnswer, doing: str) -> BackendError:
    """Return the error for an answer other than success; ``doing`` describes the attempt ("read the Lease").

    Only a commit raises nothing for such an answer: it returns its outcome.
    """
    said = f"cannot {doing}: the Kubernetes API answers {answer}"
    refused = answer.fate is Fate.NOT_APPLIED
    if refused and (answer.refusal is Refusal.DENIED or answer.status in _MEANINGLESS):
        return Misconfigured(said)
    if answer.is_out_of_space or (refused and answer.refusal is Refusal.FULL):
        return StorageFull(said)
    return StorageUnavailable(said)


def transport_error(error: HTTPError, doing: str) -> BackendError:
    """Return the error to raise ``from`` an exception of the connection pool; ``doing`` is as in `backend_error`.

    Of the TLS failures, only an untrusted certificate proves that nothing was sent.
    """
    said = f"cannot {doing}: {type(error).__name__}: {error}"
    if isinstance(error, LocationParseError):
        return Misconfigured(said)
    untrusted = isinstance(error, SSLError) and any(
        isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args
    )
    if untrusted or isinstance(error, NewConnectionError | ConnectTimeoutError):
        return NotSent(said)
    return NoAnswer(said)
