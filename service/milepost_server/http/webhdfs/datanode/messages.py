"""What a data node says to the leader, and how each proves that it is a replica of the same deployment."""

from __future__ import annotations

import hmac

import msgspec

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.webhdfs.datanode.transfer_tokens import proof_of
from milepost_server.replica.submitter import Reply

PROOF = "Milepost-Proof"
_MESSAGE = b"message"


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A replica is a data node: clients can be sent to it. With ``leaving`` it is not any more."""

    url: str
    leaving: bool = False


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data node has taken the bytes that a token is for: they are ``data``, or else a blob. ``attempt`` counts
    from 1.
    """

    token: str
    store: str
    path: str
    size: int
    sha256: str
    blob: str
    data: bytes | None
    attempt: int


class Published(msgspec.Struct, frozen=True):
    """The answer: the file is there, or (``term``) its bytes have to be a blob of this newer leadership first.

    Of a file that is there it tells its version, whether nothing was there before, whether this is the first answer
    again, and the revision and term that it reflects. A leader of an older release tells nothing of this.
    """

    term: int | None = None
    version: str = ""
    created: bool = True
    replayed: bool = False
    revision: int | None = None
    by_term: int = 0


def published(ended: Reply | int) -> Published:
    """Return how a publication ended at the leader."""
    if isinstance(ended, int):
        return Published(ended)
    answer = ended.answer
    return Published(None, answer.version or "", answer.created, answer.replayed, ended.revision, ended.term)


def signed(message: Heartbeat | Publish, key: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a message's bytes, and the headers to send them with."""
    body = msgspec.json.encode(message)
    return body, {"Content-Type": "application/json", PROOF: proof_of(body, key, _MESSAGE).hex()}


def checked(body: bytes, proof: str, key: bytes) -> None:
    """Raise an ``unauthenticated`` problem unless a replica of this deployment said this."""
    if not hmac.compare_digest(proof.encode(), proof_of(body, key, _MESSAGE).hex().encode()):
        raise problem(Code.UNAUTHENTICATED, "this is for the replicas of this deployment among themselves")
