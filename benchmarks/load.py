"""A load generator that costs little itself: HTTP/1.1 on raw sockets, a request at a time on each connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast
from urllib.parse import urlsplit


class LoadFailed(Exception):
    """An answer was not the expected one, or none came."""


class Answer(NamedTuple):
    """An answer as it came in: ``head`` ends before the empty line."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header that stands there. Raises `LoadFailed`."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        raise LoadFailed(f"an answer has no {name}: {self.head!r}")


Next = Callable[[Answer | None], bytes]
"""The next request of a connection, given the answer to the last one (None before the first)."""


def request(method: str, path: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b"") -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in headers)]
    if method not in ("GET", "HEAD"):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class Load:
    """What was measured. Latencies and ``elapsed`` are seconds."""

    elapsed: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many requests were answered."""
        return len(self.latencies)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.count / self.elapsed

    def quantile(self, share: float) -> float:
        """The latency that this share of the answers did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Connection(asyncio.Protocol):
    """Sends the next request when the answer to the last one is whole, until ``over()``."""

    def __init__(self, following: Next, over: Callable[[], bool], load: Load) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._following = following
        self._over = over
        self._load = load
        self._received = b""
        self._sent = 0.0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are of no class of asyncio's
        self._send(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = _whole(self._received)
        if answer is None:
            return
        self._load.latencies.append(time.perf_counter() - self._sent)
        self._received = b""
        if self._over():
            self._end(None)
        else:
            self._send(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(LoadFailed(f"the connection was lost: {exc}"))

    def _send(self, answer: Answer | None) -> None:
        assert self._transport is not None
        try:
            following = self._following(answer)
        except LoadFailed as error:
            self._end(error)
            return
        self._sent = time.perf_counter()
        self._transport.write(following)

    def _end(self, error: LoadFailed | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
        if self._transport is not None:
            self._transport.close()


async def run(url: str, clients: Sequence[Next], *, seconds: float, requests: int) -> Load:
    """Let each client have a connection of its own for so many seconds, or until so many requests are answered.

    Raises `LoadFailed`, also when the answers do not come to an end in time.
    """
    loop, load, (host, _, port) = asyncio.get_running_loop(), Load(), urlsplit(url).netloc.rpartition(":")
    began = time.perf_counter()

    def over() -> bool:
        return load.count >= requests or time.perf_counter() - began >= seconds

    ended: list[asyncio.Future[None]] = []
    for client in clients:

        def connection(client: Next = client) -> _Connection:
            return _Connection(client, over, load)

        _, protocol = await loop.create_connection(connection, host, int(port))
        ended.append(protocol.ended)
    try:
        async with asyncio.timeout(seconds + 60.0):
            await asyncio.gather(*ended)
    except TimeoutError as error:
        raise LoadFailed("the answers did not come to an end in time") from error
    load.elapsed = time.perf_counter() - began
    return load


def _whole(received: bytes) -> Answer | None:
    """The answer, once all of it is there. Answers come with their length, or are 204."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, status = received[:end], int(received[9:12])
    place = head.lower().find(b"\r\ncontent-length:")
    length = 0 if place < 0 else int(head[place + 17 :].split(b"\r\n", 1)[0])
    body = received[end + 4 :]
    return Answer(status, head, body) if len(body) >= length else None
