"""One request and its answer, between an application and what is written to the connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.delivery import DeliveryCut
from milepost_server.http.connection.closing import LingeringTransport
from milepost_server.http.connection.exchange import Exchange, exchange_of, head, whole

pytestmark = pytest.mark.anyio

DATE = (b"date", b"today")
FAILED = b"HTTP/1.1 500 Internal Server Error\r\ndate: today\r\ncontent-type: text/plain; charset=utf-8\r\n"
FAILED += b"content-length: 21\r\nconnection: close\r\n\r\nInternal Server Error"


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """It reads nothing anyway."""

    def resume_reading(self) -> None:
        """It reads nothing anyway."""


class Made:
    """An exchange, and what it did."""

    def __init__(
        self, method: str = "GET", *, keep_alive: bool = True, awaits_continue: bool = False, version: str = "1.1"
    ) -> None:
        self.wire = Wire()
        self.line = LingeringTransport(self.wire, lambda: False, lambda: None)
        self.answered = 0
        self.exchange = Exchange(
            {"type": "http", "http_version": version, "method": method, "path": "/p", "extensions": {}},
            self.line,
            [DATE],
            keep_alive=keep_alive,
            awaits_continue=awaits_continue,
            answered=self._answered,
            read_on=self.line.resume_reading,
            note_waiting=lambda _: None,
        )

    def _answered(self) -> None:
        self.answered += 1

    async def by(self, app: ASGIApp) -> bytes:
        await self.exchange.answer(app)
        return self.wire.sent


def start(status: int = 200, *fields: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": fields}


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def sending(*messages: dict[str, Any]) -> ASGIApp:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


FIVE = (b"content-length", b"5")


async def test_an_answer_with_a_length() -> None:
    made = Made()
    sent = await made.by(sending(start(200, FIVE), part(b"he", more=True), part(b"llo")))
    assert sent == b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 5\r\n\r\nhello"
    assert (made.answered, made.wire.closed) == (1, False)


async def test_an_answer_without_a_length_comes_in_chunks() -> None:
    sent = await Made().by(sending(start(), part(b"hello", more=True), part(b"", more=True), part(b"")))
    assert sent.endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


async def test_a_large_body_that_has_come_whole_holds_up_no_reading() -> None:
    made = Made()
    made.exchange.take(b"x" * (65 * 1024))
    made.exchange.end_body()
    assert not made.line.is_reading()
    assert made.exchange.take_whole() == b"x" * (65 * 1024)
    assert made.line.is_reading()


async def test_a_client_that_knows_no_chunks_gets_an_answer_without_a_length_until_the_connection_closes() -> None:
    made = Made(keep_alive=False, version="1.0")
    sent = await made.by(sending(start(), part(b"hel", more=True), part(b"", more=True), part(b"lo")))
    assert sent == b"HTTP/1.1 200 OK\r\ndate: today\r\nconnection: close\r\n\r\nhello"
    assert (made.answered, made.wire.closed) == (1, True)


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_an_answer_that_has_no_body(method: str, status: int) -> None:
    made = Made(method)
    sent = await made.by(sending(start(status), part(b"hello" if method == "HEAD" else b"")))
    assert sent.endswith(b"\r\ndate: today\r\n\r\n")
    assert made.answered == 1


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"keep_alive": False}, []),
        ({"awaits_continue": True}, []),
        ({"awaits_continue": True}, [(b"connection", b"keep-alive")]),
        ({}, [(b"connection", b"close")]),
    ],
    ids=["not kept", "body not asked for", "body not asked for, kept by the answer", "closed by the answer"],
)
async def test_the_last_answer_of_a_connection_says_so(
    given: dict[str, Any], fields: list[tuple[bytes, bytes]]
) -> None:
    made = Made("POST", **given)
    sent = await made.by(sending(start(200, FIVE, *fields), part(b"hello")))
    assert sent.count(b"connection: close\r\n") == 1
    assert made.wire.closed


async def refuses(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise OSError("no")


NO_ANSWERS = {
    "nothing": sending(),
    "an error": refuses,
    "no field": sending(start(200, (b"a", b"\n"))),
    "no head": sending(part(b"hello")),
}


@pytest.mark.parametrize("app", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_who_gives_no_answer_is_answered_for(app: ASGIApp, caplog: pytest.LogCaptureFixture) -> None:
    made = Made()
    assert await made.by(app) == FAILED
    assert (made.answered, made.wire.closed) == (1, True)
    assert "GET /p" in caplog.text


CUT = {
    "too short": sending(start(200, FIVE), part(b"hell")),
    "too long": sending(start(200, FIVE), part(b"hello!")),
    "without an end": sending(start(200, FIVE), part(b"hello", more=True)),
    "two heads": sending(start(200, FIVE), start(200, FIVE)),
}


@pytest.mark.parametrize("app", CUT.values(), ids=CUT)
async def test_an_answer_that_is_not_whole_ends_the_connection(app: ASGIApp, caplog: pytest.LogCaptureFixture) -> None:
    made = Made()
    sent = await made.by(app)
    assert sent.count(b"HTTP/1.1") == 1
    assert (made.answered, made.wire.closed) == (0, True)
    assert "GET /p" in caplog.text


async def test_damaged_bytes_are_no_fault_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, FIVE))
        raise DeliveryCut("damaged")

    made = Made()
    await made.by(app)
    assert made.wire.closed
    (record,) = caplog.records
    assert (record.levelno, record.exc_info) == (logging.ERROR, None)


async def test_a_body_comes_in_parts_and_is_asked_for() -> None:
    got: list[Any] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        while not got or got[-1]["more_body"]:
            got.append(await receive())
        await send(start(204))
        await send(part(b""))
        got.append(await receive())

    made = Made("POST", awaits_continue=True)
    answering = asyncio.create_task(made.by(app))
    await asyncio.sleep(0)
    assert made.wire.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    made.exchange.take(b"x" * 70_000)
    assert not made.line.is_reading(), "more than enough waits"
    await asyncio.sleep(0)
    assert made.line.is_reading()
    made.exchange.end_body()
    await answering
    assert [(each["type"], len(each.get("body", b""))) for each in got] == [
        ("http.request", 70_000),
        ("http.request", 0),
        ("http.disconnect", 0),
    ]
    assert not made.wire.closed, "the body was asked for, and came"


async def test_why_a_body_ended() -> None:
    made = Made()
    made.exchange.end_body(problem(Code.INCOMPLETE_BODY, "early"))
    made.exchange.end_body(problem(Code.SHUTTING_DOWN, "late"))
    assert made.exchange.cut is not None
    assert made.exchange.cut.code is Code.INCOMPLETE_BODY


async def test_a_slow_reader_is_waited_for_and_one_that_is_gone_is_not() -> None:
    made = Made()
    made.line.drained.clear()
    answering = asyncio.create_task(made.by(sending(start(200, FIVE), part(b"hello"))))
    await asyncio.sleep(0.01)
    assert not made.wire.sent
    made.exchange.lose()
    made.line.drained.set()
    assert await answering == b""


@pytest.mark.parametrize("way", ["ended", "lost"])
async def test_who_waits_learns_that_the_peer_has_hung_up(way: str) -> None:
    waited = asyncio.Event()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await exchange_of(scope).hung_up()
        waited.set()
        await send(start(204))
        await send(part(b""))

    made = Made()
    made.exchange.end_body()
    answering = asyncio.create_task(made.by(app))
    await asyncio.sleep(0.01)
    assert not waited.is_set()
    (made.exchange.end_peer if way == "ended" else made.exchange.lose)()
    await answering
    assert waited.is_set()
    assert bool(made.wire.sent) == (way == "ended")


async def test_a_head_has_its_fields_in_their_order() -> None:
    assert head(404, [(b"b", b"1"), (b"a", b"\tx \xe9")]) == b"HTTP/1.1 404 Not Found\r\nb: 1\r\na: \tx \xe9\r\n\r\n"


@pytest.mark.parametrize("field", [(b"a", b"1\r\nb: 2"), (b"a", b"1\n"), (b"a", b"\0"), (b"a: b", b"1"), (b"", b"1")])
async def test_nothing_gets_into_a_head_that_would_be_another_line(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="no field"):
        head(200, [field])


async def test_a_whole_answer_closes_its_connection() -> None:
    sent = whole(Response(b"hello", 400, {"Connection": "keep-alive"}))
    assert sent == b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
