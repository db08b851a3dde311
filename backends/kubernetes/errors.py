"""Translate the answers of the Kubernetes API, and the lack of them, into the words of the contract; only here.

A request ends in one of three ways. What the API server refuses while it reads, checks or compares was not applied:
4xx, but for those that a proxy on the way may send. A 5xx may come after etcd was written, and was seen to: after a 504
the write landed. Two 500s are exceptions, which etcd sends instead of writing. No answer means the same as a 5xx,
unless nothing was sent.

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

from backends.contract import BackendError, Misconfigured, Refusal, StorageFull, StorageUnavailable

SPACE_EXCEEDED: Final = "mvcc: database space exceeded"
"""etcd says this when its quota is used up; it then refuses every create and update in the whole cluster."""

_IMMUTABLE: Final = "`immutable` is set"
_REQUEST_TOO_LARGE: Final = "request is too large"
_TOO_LONG: Final = "Too long"
_OVER_QUOTA: Final = "exceeded quota"
_OF_A_PROXY: Final = (408, 499)
_SHOWN: Final = 300


class NotSent(StorageUnavailable):
    """Nothing reached the API server, so nothing was applied, nor ever will be."""


class NoAnswer(StorageUnavailable):
    """The request was sent, or perhaps was, and no whole answer came: it may have been applied, or may yet be."""


class Fate(Enum):
    """The fate of a request that was to change something."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer of the API: its status, its body, and what the body says if it is the API's ``Status`` of a failure.

    ``reason`` is the API's word (``Conflict``, ``AlreadyExists``, …), or empty where there is none, as in plain text.
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
            return cls(status, body, "", body[:_SHOWN].decode("utf-8", "replace").strip())
        return cls(status, body, failure.reason, failure.message)

    @property
    def done(self) -> bool:
        """Return whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def fate(self) -> Fate:
        """Return what became of the request."""
        if self.done:
            return Fate.APPLIED
        if 400 <= self.status < 500 and self.status not in _OF_A_PROXY:
            return Fate.NOT_APPLIED
        if self.status == 500 and (_REQUEST_TOO_LARGE in self.message or SPACE_EXCEEDED in self.message):
            return Fate.NOT_APPLIED
        return Fate.UNKNOWN

    @property
    def is_of_immutable(self) -> bool:
        """Return whether the answer refuses to change an object that somebody has made immutable."""
        return self.status == 422 and _IMMUTABLE in self.message

    @property
    def refusal(self) -> Refusal:
        """Return why the request was not applied, if that is its fate; the caller explains a conflict."""
        if SPACE_EXCEEDED in self.message or (self.status == 403 and _OVER_QUOTA in self.message):
            return Refusal.FULL
        too_long = self.status == 422 and _TOO_LONG in self.message
        if self.status == 413 or too_long or _REQUEST_TOO_LARGE in self.message:
            return Refusal.TOO_LARGE
        if self.status in (401, 403):
            return Refusal.DENIED
        return Refusal.FAILED

    def __str__(self) -> str:
        """Return status, reason and message."""
        return f"{self.status} {self.reason} {self.message[:_SHOWN]}".replace("  ", " ").strip()


class _Status(msgspec.Struct):
    """These parts of the API's ``Status`` matter here."""

    kind: str = ""
    reason: str = ""
    message: str = ""


def backend_error(answer: ApiAnswer, doing: str) -> BackendError:
    """Return the contract's error for an answer that is no success, for anything but a commit."""
    said = f"cannot {doing}: the Kubernetes API answers {answer}"
    if answer.fate is Fate.NOT_APPLIED:
        if answer.refusal is Refusal.DENIED:
            return Misconfigured(said)
        if answer.refusal is Refusal.FULL:
            return StorageFull(said)
    return StorageUnavailable(said)


def transport_error(error: HTTPError, doing: str) -> BackendError:
    """Return the contract's error for an exception of the connection pool; the caller raises it ``from error``.

    Of the failures of TLS, only an untrusted certificate certainly comes before anything was sent.
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
