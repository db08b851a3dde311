"""The messages of a replica to the leader: that the replica is a data node, and that it has received the bytes of a
file.

Each message proves that it comes from a replica of the same deployment.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import Callable
from types import TracebackType

import msgspec

from milepost.errors import Problem
from milepost.operations.replicas import HEARTBEAT_DATA_NODE, PUBLISH_FILE
from milepost.wire import PROBLEM_MEDIA_TYPE, PROBLEM_TYPE_PREFIX, Code, Header, Outcome
from milepost_server.basics.problems import problem
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.webhdfs.datanode.exchanges import Answer, Exchanges, NoAnswer, NotReached
from milepost_server.http.webhdfs.datanode.transfer_tokens import proof_of
from milepost_server.journal import Journal
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.submitter import Reply

log = logging.getLogger("milepost.datanodes")
PROOF = "Milepost-Proof"
_MESSAGE = b"message"

_INTERVAL_SECONDS = 2.0
"""The seconds between two heartbeats of a replica. A replica without heartbeats counts as gone."""

_ANSWER_SECONDS = 2.0
_LEAVE_SECONDS = 1.0


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The message to the leader that the replica at ``url`` is a data node, to which the leader can send clients. With
    ``leaving``, the replica is no longer a data node.
    """

    url: str
    leaving: bool = False


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The message with which a data node asks the leader to publish a file whose bytes it has received.

    ``token`` is the client's upload token. The bytes are ``data`` or, if that is None, in the blob with the key
    ``blob``. ``attempt`` rises with each attempt to publish the file, from 1 on.
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
    """The leader's answer to `Publish`.

    If ``term`` is set, the file is not published: its bytes must first be put again under this newer term. Otherwise
    the answer has the ``version`` of the file, whether it was newly ``created``, whether the answer is ``replayed``,
    that is, repeats the first one, and the revision and term that it reflects. A leader of an older release sends none
    of these.
    """

    term: int | None = None
    version: str = ""
    created: bool = True
    replayed: bool = False
    revision: int | None = None
    by_term: int = 0


def published(ended: Reply | int) -> Published:
    """Return the answer to `Publish` for ``ended``, the result of `Publisher.publish`: a reply, or the newer term under
    which the bytes must be put again.
    """
    if isinstance(ended, int):
        return Published(ended)
    answer = ended.answer
    return Published(None, answer.version or "", answer.created, answer.replayed, ended.revision, ended.term)


def signed(message: Heartbeat | Publish, key: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a message as bytes, and its headers, one of which proves with ``key`` that a replica sent it."""
    body = msgspec.json.encode(message)
    return body, {"Content-Type": "application/json", PROOF: proof_of(body, key, _MESSAGE).hex()}


def checked(body: bytes, proof: str, key: bytes) -> None:
    """Raise an ``unauthenticated`` problem unless ``proof`` shows that a replica of this deployment sent ``body``."""
    if not hmac.compare_digest(proof.encode(), proof_of(body, key, _MESSAGE).hex().encode()):
        raise problem(Code.UNAUTHENTICATED, "this is for the replicas of this deployment among themselves")


class Peer:
    """Sends messages from this replica to the leader. Its connections are closed when the ``async with`` block ends.

    ``key`` is the key that the replicas share, which signs the messages. ``clock`` returns monotonic seconds, and
    ``tls`` the TLS context for a new connection.
    """

    def __init__(self, key: SharedKey, clock: Callable[[], float], tls: Callable[[], ssl.SSLContext]) -> None:
        self._key = key
        self.exchanges = Exchanges(clock, tls)

    async def heartbeat(self, leader: str, message: Heartbeat, seconds: float) -> None:
        """Tell the leader, at the address ``leader``, that this replica is a data node, or leaves. Wait ``seconds`` at
        most.

        Raises `NotReached`, `NoAnswer`, and the `Problem` with which the leader answers.
        """
        await self._send(leader + HEARTBEAT_DATA_NODE.path, message, seconds)

    async def publish(self, leader: str, message: Publish, seconds: float) -> Published:
        """Have the leader, at the address ``leader``, publish a file, and return its answer. Wait ``seconds`` at most.

        Raises `NotReached`, `NoAnswer`, and the `Problem` with which the leader answers.
        """
        answer = await self._send(leader + PUBLISH_FILE.path, message, seconds)
        try:
            return msgspec.json.decode(answer, type=Published)
        except msgspec.DecodeError as error:
            raise NoAnswer(f"{leader} answered what no replica answers") from error

    async def _send(self, url: str, message: Heartbeat | Publish, seconds: float) -> bytes:
        body, headers = signed(message, await self._key.get())
        answer = await self.exchanges.post(url, body, headers, seconds)
        if Header.TERM.lower() not in answer.headers:
            raise NoAnswer(f"{url} is answered by something else than a replica, with status {answer.status}")
        if answer.status != 200:
            raise _problem_in(answer)
        return answer.content

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exchanges.close()


class _Document(msgspec.Struct):
    type: str
    detail: str
    retryable: bool
    outcome: str


def _problem_in(answer: Answer) -> Problem | NoAnswer:
    if answer.headers.get("content-type") == PROBLEM_MEDIA_TYPE:
        try:
            found = msgspec.json.decode(answer.content, type=_Document)
            code = Code(found.type.removeprefix(PROBLEM_TYPE_PREFIX))
            return problem(code, found.detail, retryable=found.retryable, outcome=Outcome(found.outcome))
        except (msgspec.DecodeError, ValueError):
            pass
    return NoAnswer(f"an answer with status {answer.status} that says nothing")


async def announce(journal: Journal, leader_locator: LeaderLocator, peer: Peer) -> None:
    """Send heartbeats to the leader while another replica leads, until cancelled; then tell the leader that this
    replica leaves.

    A replica that cannot reach the leader could not publish files; its heartbeats do not arrive, so it gets no clients.
    """
    heartbeat = Heartbeat(leader_locator.advertise)
    said_to, failed = "", ""
    async with peer:
        try:
            while True:
                if not journal.lease_holds() and (leader := await leader_locator.elsewhere()) is not None:
                    try:
                        await peer.heartbeat(leader.rstrip("/"), heartbeat, _ANSWER_SECONDS)
                        said_to, failed = leader, ""
                    except (NotReached, NoAnswer, Problem) as error:
                        if leader != failed:  # log a failure once for each leader, not for each heartbeat
                            log.info("cannot tell %s that this replica takes and gives bytes too: %s", leader, error)
                        failed = leader
                await asyncio.sleep(_INTERVAL_SECONDS)
        finally:
            if said_to:
                await _leave(peer, said_to, heartbeat)


async def _leave(peer: Peer, leader: str, heartbeat: Heartbeat) -> None:
    try:
        await peer.heartbeat(leader.rstrip("/"), Heartbeat(heartbeat.url, leaving=True), _LEAVE_SECONDS)
    except (NotReached, NoAnswer, Problem) as error:
        log.info("%s could not be told that this replica leaves; it notices by itself: %s", leader, error)
