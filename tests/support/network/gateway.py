"""A gateway of HTTP in front of a real server, for what no real server does when it is told to.

It hands requests on one by one and unchanged, each over a connection of its own, until a fault is set: then it answers
itself, loses an answer, cuts one short, or damages a body. Like nginx, it can drop headers by their names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.network.listener import Listener, listening

_PIECE = 65536


@dataclass(frozen=True)
class Request:
    """The head of one request, as the gateway took it."""

    method: str
    target: str


@dataclass
class Fault:
    """What happens to the requests that ``matches``, ``times`` times at most."""

    matches: Callable[[Request], bool]
    times: int = 1_000_000
    answer: tuple[int, str] | None = None
    """Answer this status and error code (or body, where the status is none of an error), without asking the server."""
    in_its_place: tuple[int, str] | None = None
    """Let the server do it, and answer this status and body in the place of its answer."""
    drop: bool = False
    """Close the connection instead of handing the request on."""
    lose_answer: bool = False
    """Let the server do it, and close the connection instead of handing its answer on."""
    twice: bool = False
    """Hand the request on twice, as a proxy does to which the first answer was lost."""
    cut_after: int | None = None
    """Hand on so many bytes of the answer's body, then close the connection."""
    damage: bool = False
    """Turn round the bits of the last byte of the request's body."""


class Gateway(Listener):
    """Listens at ``url`` for what is meant for ``upstream``, the URL of a server."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        place = urlsplit(upstream)
        assert place.hostname is not None
        self._upstream = (place.hostname, place.port)
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.passes: Callable[[str], object] = lambda _: True
        """Which headers of requests are handed on, by their names in lower case."""

    @property
    def url(self) -> str:
        """Where it is to be found."""
        return f"http://{self.address}"

    def __call__(self, *faults: Fault) -> None:
        """Set the faults; none: hand everything on."""
        self.faults = list(faults)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request, and give what becomes of it."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.decode().split("\r\n")[0].split(" ", 2)
        request = Request(method, target)
        self.requests.append(request)
        fault = self._fault(request)
        if "100-continue" in head.decode().lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(_length(head))
        if fault.damage and body:
            body = body[:-1] + bytes([body[-1] ^ 0xFF])
        if fault.drop:
            return
        if fault.answer is not None:
            status, text = fault.answer
            content = f"<Error><Code>{text}</Code></Error>" if text and status >= 400 else text
            await _tell(writer, method, status, content)
            return
        if fault.in_its_place is not None:
            await self._hand_on(head, body, writer, Fault(fault.matches, lose_answer=True))
            await _tell(writer, method, *fault.in_its_place)
            return
        if fault.twice:
            await self._hand_on(head, body, writer, Fault(fault.matches, lose_answer=True))
        await self._hand_on(head, body, writer, fault)

    async def _hand_on(self, head: bytes, body: bytes, writer: asyncio.StreamWriter, fault: Fault) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        try:
            up_writer.write(_closing(self._passed(head)) + body)
            answer = await up_reader.readuntil(b"\r\n\r\n")
            if fault.lose_answer:
                await up_reader.read()
                return
            writer.write(answer)
            left = fault.cut_after
            while piece := await up_reader.read(_PIECE if left is None else min(left, _PIECE)):
                writer.write(piece)
                await writer.drain()
                left = None if left is None else left - len(piece)
        finally:
            up_writer.close()

    def _passed(self, head: bytes) -> bytes:
        first, *fields = head.rstrip(b"\r\n").split(b"\r\n")
        passed = [field for field in fields if self.passes(field.partition(b":")[0].decode().lower())]
        return b"\r\n".join([first, *passed, b"", b""])

    def _fault(self, request: Request) -> Fault:
        for fault in self.faults:
            if fault.times and fault.matches(request):
                fault.times -= 1
                return fault
        return Fault(lambda _: True)


def gateway(upstream: str) -> AbstractAsyncContextManager[Gateway]:
    """Make a gateway that listens within the block."""
    return listening(Gateway(upstream))


async def _tell(writer: asyncio.StreamWriter, method: str, status: int, text: str) -> None:
    content = b"" if method == "HEAD" else text.encode()
    writer.write(f"HTTP/1.1 {status} As told\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode())
    writer.write(content)
    await writer.drain()


def _length(head: bytes) -> int:
    for line in head.decode().lower().split("\r\n"):
        if line.startswith("content-length:"):
            return int(line.partition(":")[2])
    return 0


def _closing(head: bytes) -> bytes:
    """Make the head ask for the connection to be closed after the answer, and for no leave to send the body."""
    lines = [
        line
        for line in head.rstrip(b"\r\n").split(b"\r\n")
        if not line.lower().startswith((b"connection:", b"expect:"))
    ]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])
