"""Tokens: the leader's permissions for a data node, in the address to which the leader redirects a client.

A token proves itself, by the key that the replicas share. So a data node needs no leader to give bytes, and needs one
only at the end to publish those that it took. A token cannot bypass the epoch, which is checked before a token is
issued, and again by the leader that publishes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TypeVar

import msgspec

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal.attempts import REMEMBERED_SECONDS
from milepost_server.model.requests.trees import NOW, Begun
from milepost_server.operations.trees import At

PARAMETER = "token"
"""The query parameter of a redirect's address that carries the token."""

LIFE_SECONDS = 600
"""The seconds within which a put or a read may be begun with a token. The clocks of replicas may differ by less than
that.
"""

LATE_SECONDS = int(REMEMBERED_SECONDS) - 2 * LIFE_SECONDS
"""The seconds after that for which a file may still be published with the token: the most time that a body takes.

The leader that publishes remembers committed writes for longer, also if its wall clock was set meanwhile. So a token
that is used once more cannot make a file anew that was renamed or deleted since.
"""


class UploadToken(msgspec.Struct, frozen=True, tag="put"):
    """Permits a client to put a file at a path, under an epoch; ``key`` makes it the same put however often it is
    published.

    The bytes become a blob of ``deployment`` and ``term``, the leadership that issued the token: no collector touches
    such a blob while that leadership lasts. ``begun`` is the entry at the path when the token was issued.
    """

    store: str
    path: str
    epoch: int | None
    overwrite: bool
    key: str
    deployment: str
    term: int
    until: int
    begun: Begun = NOW


class DownloadToken(msgspec.Struct, frozen=True, tag="read"):
    """Permits a client to read the blob of a file. The leader itself gives the bytes of a small file, which has no blob
    of its own.
    """

    store: str
    path: str
    blob: str
    size: int
    sha256: str
    until: int


TransferToken = UploadToken | DownloadToken
Kind = TypeVar("Kind", UploadToken, DownloadToken)


def sign(token: TransferToken, key: bytes) -> str:
    """Return the token as text for an address."""
    text = msgspec.json.encode(token)
    return base64.urlsafe_b64encode(proof_of(text, key, _TOKEN) + text).decode().rstrip("=")


def verify(text: str, key: bytes, kind: type[Kind], at: At) -> Kind:
    """Return the token of this kind in a text. Raises a ``forbidden`` problem unless it is one for ``at``."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        proof, said = data[:_PROOF_BYTES], data[_PROOF_BYTES:]
        if not hmac.compare_digest(proof, proof_of(said, key, _TOKEN)):
            raise _not_given()
        token = msgspec.json.decode(said, type=UploadToken | DownloadToken)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise _not_given() from error
    if not isinstance(token, kind) or At(token.store, token.path) != at:
        raise _not_given()
    return token


def check_time(token: TransferToken, now: float) -> None:
    """Raise a ``forbidden`` problem for a token that is too old to begin a put or a read."""
    if token.until < now:
        raise problem(Code.FORBIDDEN, "the token in this address has expired: ask again without it")


def check_not_late(token: UploadToken, now: float) -> None:
    """Raise a ``forbidden`` problem for a token that is too old to publish a file."""
    if token.until + LATE_SECONDS < now:
        raise problem(Code.FORBIDDEN, "the bytes came too late for the token in this address: ask again without it")


def proof_of(said: bytes, key: bytes, kind: bytes) -> bytes:
    """Return the proof that a replica sent this as a message of this ``kind``, and of no other."""
    return hmac.digest(key, kind + b"\0" + said, hashlib.sha256)


_TOKEN = b"token"
_PROOF_BYTES = hashlib.sha256().digest_size


def _not_given() -> Exception:
    return problem(Code.FORBIDDEN, "the token in this address is not one that this service gave for this request")
