"""Translates answers of the Kubernetes API, and missing answers, into the errors of the contract.

A request for a change ends in one of three ways (`Fate`):

- applied: the answer is 2xx;
- not applied: the API server refused the request before it wrote to etcd. This is so for every 4xx, except two that a
  proxy may also send, and for the 500 of a request that is too large for etcd;
- unknown: the answer is any other one, or there is no answer although the request may have been sent. An API server may
  send a 5xx after etcd has written: after a 504, for example, a write was seen committed.

If etcd answers that it has no space left, the outcome is unknown as well, since etcd compares its size with its quota
twice. When a request arrives, etcd may refuse it, and does not write it. When etcd applies a request, it may answer the
same, although it writes the change.

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
"""etcd's message when its quota is used up. It then refuses every create and update in the whole cluster."""

_IMMUTABLE: Final = "`immutable` is set"
_REQUEST_TOO_LARGE: Final = "request is too large"
_TOO_LONG: Final = "Too long"
_OVER_QUOTA: Final = "exceeded quota"
_PERHAPS_OF_A_PROXY: Final = (408, 499)
"""The statuses that may come from a proxy, which may have passed the request on to the API server."""
_MEANINGLESS: Final = (400, 405, 406, 415)
"""The statuses that mean a wrong configuration: the server is not a Kubernetes API, accepts only HTTPS, or has a policy
against the request.
"""
_SHOWN_CHARACTERS: Final = 300
"""The most characters of the API's message that errors and logs show."""


class NotSent(StorageUnavailable):
    """The request did not reach the Kubernetes API server, so it was not applied, and never will be."""


class NoAnswer(StorageUnavailable):
    """The request to the Kubernetes API may have been sent, but got no complete answer.

    It may have been applied, or may still be applied.
    """


class Fate(Enum):
    """What became of a request for a change: it was applied, was not applied, or that is unknown."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer of the API: its status, its body and, for a failure, the description in the body.

    ``reason`` is the API's name of the failure (``Conflict``, ``AlreadyExists``, …), and ``message`` explains it. If
    the body is plain text, ``reason`` is empty, and ``message`` is that text.
    """

    status: int
    body: bytes
    reason: str = ""
    message: str = ""

    @classmethod
    def read(cls, status: int, body: bytes) -> ApiAnswer:
        """Return the answer with this HTTP status and body."""
        if status < 300:
            return cls(status, body)
        try:
            failure = msgspec.json.decode(body, type=_Status)
        except msgspec.MsgspecError:  # a 429, or the answer of a proxy, is plain text
            return cls(status, body, "", body[:_SHOWN_CHARACTERS].decode("utf-8", "replace").strip())
        return cls(status, body, failure.reason, failure.message)

    @property
    def done(self) -> bool:
        """Return whether the request succeeded: whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def fate(self) -> Fate:
        """Return whether the request for a change was applied, was not applied, or may have been."""
        if self.done:
            return Fate.APPLIED
        if 400 <= self.status < 500 and self.status not in _PERHAPS_OF_A_PROXY:
            return Fate.NOT_APPLIED
        if self.status == 500 and _REQUEST_TOO_LARGE in self.message:
            return Fate.NOT_APPLIED
        return Fate.UNKNOWN

    @property
    def is_out_of_space(self) -> bool:
        """Return whether etcd answered that it has no space left. It may have written the change all the same, see
        `Fate`.
        """
        return SPACE_EXCEEDED in self.message

    @property
    def is_of_immutable(self) -> bool:
        """Return whether the request was refused because the object is immutable."""
        return self.status == 422 and _IMMUTABLE in self.message

    @property
    def refusal(self) -> Refusal:
        """Return the contract's reason for which the API server refused the request. Do not use this for an applied
        request.

        A conflict has no reason of its own: callers first check for it, by ``status`` and `is_of_immutable`.
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
        """Return status, reason and message of the answer, for error messages."""
        return f"{self.status} {self.reason} {self.message[:_SHOWN_CHARACTERS]}".replace("  ", " ").strip()


class _Status(msgspec.Struct):
    """The API's ``Status`` object, which describes a failed request."""

    kind: str = ""
    reason: str = ""
    message: str = ""


def backend_error(answer: ApiAnswer, doing: str) -> BackendError:
    """Return the error to raise for an answer other than success. ``doing`` is the attempt, such as "read the Lease".

    `PointerStore.commit` does not use this: it returns the outcome, and does not raise.
    """
    said = f"cannot {doing}: the Kubernetes API answers {answer}"
    refused = answer.fate is Fate.NOT_APPLIED
    if refused and (answer.refusal is Refusal.DENIED or answer.status in _MEANINGLESS):
        return Misconfigured(said)
    if answer.is_out_of_space or (refused and answer.refusal is Refusal.FULL):
        return StorageFull(said)
    return StorageUnavailable(said)


def transport_error(error: HTTPError, doing: str) -> BackendError:
    """Return the error for an exception of the connection pool, to be raised ``from`` it.

    ``doing`` is the attempt, such as "read the Lease". A failure of TLS proves that nothing was sent only if the
    server's certificate is not trusted.
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
