"""Messages to another replica go over kept connections, and an answer is that to its own message or none.

The other side is a server of this test, since no replica ends a connection or says too much at a chosen moment.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trustme

from milepost_server.http.tls.certificates import public_authorities
from milepost_server.http.webhdfs.datanode import exchanges
from milepost_server.http.webhdfs.datanode.exchanges import Exchanges, NoAnswer, NotReached
from testbed.ports import Port

pytestmark = pytest.mark.anyio

SECONDS = 20.0


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """The loop that servers run on, and Python's own."""
    return "asyncio", {"use_uvloop": request.param}


def answer(content: str, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers, "", content]
    return "\r\n".join(lines).encode()


@dataclass
class Other:
    """Answers each message with the next of ``answers``, by default with the message itself; "" is an end."""

    url: str = ""
    answers: list[bytes] = field(default_factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("Content-Length"))
                body = (await reader.readexactly(size)).decode()
                said = self.answers.pop(0) if self.answers else answer(body, f"Said: {head.split()[1]}")
                if not said:
                    break
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def other(tls: ssl.SSLContext | None = None) -> AsyncIterator[Other]:
    there = Other()
    server = await asyncio.start_server(there.serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        there.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield there


@pytest.fixture
async def ours() -> AsyncIterator[Exchanges]:
    found = Exchanges(time.monotonic, public_authorities)
    yield found
    found.close()


async def said(ours: Exchanges, there: Other, text: str) -> str:
    return (await ours.post(f"{there.url}/datanodes/x", text.encode(), {"A": "b"}, SECONDS)).content.decode()


async def test_one_connection_carries_message_after_message(ours: Exchanges) -> None:
    async with other() as there:
        whole = await ours.post(f"{there.url}/datanodes/x", b"first", {}, SECONDS)
        assert (whole.status, whole.content, whole.headers["said"]) == (200, b"first", "/datanodes/x")
        assert [await said(ours, there, text) for text in ("second", "third")] == ["second", "third"]
        assert there.connections == 1


async def test_messages_at_a_time_have_a_connection_each(ours: Exchanges) -> None:
    async with other() as there:
        texts = [str(number) for number in range(20)]
        assert await asyncio.gather(*(said(ours, there, text) for text in texts)) == texts
        assert 1 < there.connections <= 20


async def test_a_connection_that_was_closed_meanwhile_is_not_used(ours: Exchanges) -> None:
    async with other() as there:
        await said(ours, there, "first")
        there.writers[0].close()
        await there.writers[0].wait_closed()
        await asyncio.sleep(0.05)
        assert await said(ours, there, "second") == "second"
        there.answers = [answer("last one", "Connection: close")]
        assert await said(ours, there, "third") == "last one"
        assert await said(ours, there, "fourth") == "fourth"
        assert there.connections == 3


async def test_a_connection_that_nobody_used_for_long_is_given_up() -> None:
    now = [0.0]
    ours = Exchanges(lambda: now[0], public_authorities)
    async with other() as there:
        await said(ours, there, "first")
        now[0] += 60.0
        await said(ours, there, "second")
        assert there.connections == 2
    ours.close()


@pytest.mark.parametrize("late", [answer("stale"), b"HTTP/1.1 200"])
async def test_what_comes_unasked_for_answers_nothing(ours: Exchanges, late: bytes) -> None:
    async with other() as there:
        await said(ours, there, "first")
        there.writers[0].write(late)
        await asyncio.sleep(0.05)
        assert await said(ours, there, "second") == "second"
        there.answers = [answer("one") + answer("two")]
        assert await said(ours, there, "third") == "one"
        assert await said(ours, there, "fourth") == "fourth"


@pytest.mark.parametrize("broken", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0\r\n\r\n", answer("x" * 300_000)])
async def test_without_an_answer_it_is_not_known_what_was_done(ours: Exchanges, broken: bytes) -> None:
    async with other() as there:
        there.answers = [broken, b""] if broken else [broken]
        with pytest.raises(NoAnswer):
            await ours.post(there.url, b"message", {}, 0.5)
        there.answers = []
        assert await said(ours, there, "again") == "again"


async def test_nobody_there_is_known(ours: Exchanges) -> None:
    port = Port()
    for url in (f"http://{port.address}/x", "http:///x", "ftp://127.0.0.1/x", "http://127.0.0.1:99999/x"):
        with pytest.raises(NotReached):
            await ours.post(url, b"", {}, SECONDS)


async def test_so_many_messages_are_under_way_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_MOST", 2)
    ours = Exchanges(time.monotonic, public_authorities)
    async with other() as there:
        there.answers = [b"HTTP/1.1 200 OK\r\n"] * 2
        waiting = [asyncio.create_task(ours.post(there.url, b"", {}, SECONDS)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(NotReached, match="under way"):
            await ours.post(there.url, b"", {}, 0.2)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        there.answers = []
        assert await said(ours, there, "again") == "again"
    ours.close()


async def test_a_place_that_does_not_answer_holds_up_no_message_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_MOST", 2)
    ours = Exchanges(time.monotonic, public_authorities)
    async with other() as frozen, other() as next_leader:
        frozen.answers = [b"HTTP/1.1 200 OK\r\n"] * 2
        waiting = [asyncio.create_task(ours.post(frozen.url, b"", {}, SECONDS)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await said(ours, next_leader, "here") == "here"
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    ours.close()


async def test_over_tls_only_a_trusted_replica_is_told(ours: Exchanges) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with other(server) as there:
        with pytest.raises(NotReached, match="CERTIFICATE_VERIFY_FAILED"):
            await said(ours, there, "secret")
        told = Exchanges(time.monotonic, lambda: trusting)
        assert [await said(told, there, text) for text in ("first", "second")] == ["first", "second"]
        told.close()
