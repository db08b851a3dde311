"""Upload and download tokens. A token is part of the address to which the leader redirects a client; it tells a data
node what the client may do there.

A token is signed with the key that the replicas share. So a data node verifies it without the leader, which it needs
only to publish the received bytes. A token does not bypass the epoch: the leader checks the epoch before it issues a
token, and again when it publishes the file.
"""

from __future__ import annotations

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
"""The seconds within which a put or a read may begin with a token. The clocks of the replicas must differ by less than
that.
"""

LATE_SECONDS = int(REMEMBERED_SECONDS) - 2 * LIFE_SECONDS
"""The seconds after `LIFE_SECONDS` for which a file may still be published with the token, so a body may take this
long.

The leader remembers committed writes for longer, by its monotonic clock. So a token that is used a second time cannot
create again a file that was renamed or deleted since.
"""


class UploadToken(msgspec.Struct, frozen=True, tag="put"):
    """Permits a client to put a file at a path, under an epoch. ``key`` is the idempotency key of the put: repeated
    publications count as one. The put must begin before ``until``, a Unix time.

    The bytes become a blob whose key has ``deployment`` and ``term``, those of the leader that issued the token; the
    garbage collector of that leader spares blobs of its own term. ``begun`` is the directory that must still exist when
    the file is published.
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
    """Permits a client to begin to read the blob of a file before ``until``, a Unix time. A small file has no blob of
    its own: ``blob`` is then empty, and the leader itself sends the bytes.
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
    """Return the token as text for an address, signed with ``key``, the key that the replicas share."""
    text = msgspec.json.encode(token)
    # the module base64 calls this too, and takes several times as long for what it does around it
    encoded = binascii.b2a_base64(proof_of(text, key, _TOKEN) + text, newline=False)
    return encoded.translate(_TO_URL).rstrip(b"=").decode("ascii")


def verify(text: str, key: bytes, kind: type[Kind], at: At) -> Kind:
    """Return the token in ``text``. Raises a ``forbidden`` problem unless it is a token of this ``kind`` for the file
    ``at``, signed with ``key``.
    """
    try:
        data = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"=" * (-len(text) % 4))
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
    """Raise a ``forbidden`` problem if the token is too old at ``now``, a Unix time, to begin a put or a read."""
    if token.until < now:
        raise problem(Code.FORBIDDEN, "the token in this address has expired: ask again without it")


def check_not_late(token: UploadToken, now: float) -> None:
    """Raise a ``forbidden`` problem if the token is too old at ``now``, a Unix time, to publish a file."""
    if token.until + LATE_SECONDS < now:
        raise problem(Code.FORBIDDEN, "the bytes came too late for the token in this address: ask again without it")


def proof_of(said: bytes, key: bytes, kind: bytes) -> bytes:
    """Return the proof, an HMAC, that a replica sent the text ``said``: only the replicas know the ``key``. A proof is
    valid for texts of one ``kind`` only, such as tokens or messages.
    """
    return hmac.digest(key, kind + b"\0" + said, hashlib.sha256)


_TOKEN = b"token"
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_PROOF_BYTES = hashlib.sha256().digest_size


def _not_given() -> Exception:
    return problem(Code.FORBIDDEN, "the token in this address is not one that this service gave for this request")
