"""Speak to the leader, as one replica to another."""

from __future__ import annotations

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
from milepost_server.http.webhdfs.datanode.messages import (
    Heartbeat,
    Publish,
    Published,
    signed,
)

__all__ = ["NoAnswer", "NotReached", "Peer"]


class Peer:
    """The leader as another replica sees it. It closes its connections when the ``async with`` block ends.

    ``tls`` is that of `Exchanges`.
    """

    def __init__(self, key: SharedKey, clock: Callable[[], float], tls: Callable[[], ssl.SSLContext]) -> None:
        self._key = key
        self._exchanges = Exchanges(clock, tls)

    async def heartbeat(self, leader: str, message: Heartbeat, seconds: float) -> None:
        """Tell the leader that this replica is a data node. Raises `NotReached`, `NoAnswer` and problems."""
        await self._send(leader + HEARTBEAT_DATA_NODE.path, message, seconds)

    async def publish(self, leader: str, message: Publish, seconds: float) -> Published:
        """Have the leader publish a file. Raises `NotReached`, `NoAnswer` and problems."""
        answer = await self._send(leader + PUBLISH_FILE.path, message, seconds)
        try:
            return msgspec.json.decode(answer, type=Published)
        except msgspec.DecodeError as error:
            raise NoAnswer(f"{leader} answered what no replica answers") from error

    async def _send(self, url: str, message: Heartbeat | Publish, seconds: float) -> bytes:
        body, headers = signed(message, await self._key.get())
        answer = await self._exchanges.post(url, body, headers, seconds)
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
        self._exchanges.close()


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
