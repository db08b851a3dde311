"""Requests that are valid once and then damaged, byte by byte and line by line, as no HTTP library would send them."""

from __future__ import annotations

import http.client
import io
import random
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.fuzz.generated import World
from tests.fuzz.verdicts import Wrong
from tests.wire.support import raw

_TIMEOUT_SECONDS = 45.0
"""More than the server has for a peer that is slow."""
_REFERENCE = b'{"upload": "u", "size": 5, "sha256": "' + b"0" * 64 + b'"}'
_LINES = (
    b"Host: evil.example",
    b"Host:",
    b"Content-Length: 3",
    b"Content-Length: 18446744073709551616",
    b"Content-Length: -0",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding : chunked",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk",
    b"Connection: close",
    b"Connection: keep-alive, Upgrade",
    b"Expect: 100-continue",
    b"Expect: the impossible",
    b"Range: bytes=0-0,2-3",
    b"Range: bytes=9999999999999999999-",
    b"Accept: */*;q=x",
    b"Content-Type: application/json; charset=\xff",
    b"Content-Type:",
    b"Content-Digest: sha-256=:AAAA:",
    b"If-Match: *",
    b'If-Match: W/"a"',
    b"Idempotency-Key: k",
    b"Milepost-Attempt: 2",
    b"Milepost-Epoch: 1",
    b"Milepost-Label-a: b",
    b"Milepost-Label-: b",
    b'Milepost-Labels: {"a": "b"}',
    b'Milepost-Labels: {"a": {"b": ',
    b"Milepost-Session: ../x",
    b"X-Request-Id: \x7f",
    b" compacted: x",
    b": nameless",
    b"no colon",
    b"X-Long: " + b"x" * 70_000,
)


def _templates(session: str) -> list[bytes]:
    acting = {"Milepost-Session": session}
    chunked = {**acting, "Transfer-Encoding": "chunked"}
    opening = b'{"ttl": 60, "holder": "h"}'
    as_json = {"Content-Type": "application/json", "Content-Length": str(len(opening))}
    upload = {"Content-Type": "application/vnd.milepost.upload+json", "Content-Length": str(len(_REFERENCE))}
    store = "/v1/stores/wild"
    return [
        raw.head("POST", f"{store}/handles/a", {**acting, "Content-Length": "5"}) + b"hello",
        raw.head("POST", f"{store}/handles/b", chunked) + b"3;e=1\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: v\r\n\r\n",
        raw.head("PUT", f"{store}/handles/a", {**acting, "If-Match": '"1.1"', "Content-Length": "1"}) + b"x",
        raw.head("POST", f"{store}/handles/c", {**acting, **upload}) + _REFERENCE,
        raw.head("POST", "/v1/sessions", as_json) + opening,
        raw.head("POST", f"{store}/epoch", {**acting, **as_json, "Content-Length": "11"}) + b'{"wait": 0}',
        raw.head("DELETE", f"{store}/handles/a", {**acting, "Idempotency-Key": "k", "Milepost-Attempt": "1"}),
        raw.head("POST", f"{store}/locks", acting),
        raw.head("GET", f"{store}/handles?limit=3&token=x", {"Accept": "application/json"}),
        raw.head("GET", f"{store}/handles/a/state?redirect=true", {"Range": "bytes=1-2"}),
        raw.head("HEAD", f"{store}/handles/a"),
        raw.head("GET", f"/v1/sessions/{session}"),
        raw.head("GET", "/readyz?verbose&exclude=blobs"),
        raw.head("GET", "http://localhost/v1/status"),
        raw.head("OPTIONS", "*"),
    ]


def _damage(request: bytes, others: list[bytes], choice: random.Random) -> bytes:
    """One act of damage."""
    at = choice.randrange(len(request))
    lines = request.split(b"\r\n")
    line = choice.randrange(len(lines))

    def bytewise() -> bytes:
        return request[:at] + choice.randbytes(choice.randrange(4)) + request[at + choice.randrange(4) :]

    def linewise() -> bytes:
        lines[line : line + choice.randrange(2)] = choice.choices([choice.choice(_LINES), lines[line], b""], k=1)
        return b"\r\n".join(lines)

    def numeric() -> bytes:
        number = choice.choice([b"0", b"1", b"-1", b"7fffffffffffffff", b"1e3", b"0x5", b"99999999999999999999", b""])
        found = [match.span() for match in re.finditer(rb"\d+", request)]
        start, end = choice.choice(found or [(at, at)])
        return request[:start] + number + request[end:]

    def escaped() -> bytes:
        place = choice.randrange(min(len(request), 60))
        return (
            request[:place] + choice.choice([b"%00", b"%2f", b"%", b"%ff", b"..", b"//", b"?", b"#"]) + request[place:]
        )

    def repeated() -> bytes:
        piece = request[at : at + choice.randrange(1, 40)]
        return request[:at] + piece * choice.choice([2, 3, 3000]) + request[at:]

    def followed() -> bytes:
        return request + choice.choice(others)

    def cut() -> bytes:
        return request[:at] or b"G"

    acts: list[Callable[[], bytes]] = [bytewise, linewise, linewise, numeric, escaped, repeated, followed, cut]
    return choice.choice(acts)()


def wild(world: World, cases: int, seed: int) -> None:
    """So many damaged requests, each on a connection of its own."""
    choice = random.Random(seed)
    templates = _templates(world.sessions[0])
    known = world.page.all_codes()
    for _ in range(cases):
        world.budget.take()
        request = choice.choice(templates)
        for _ in range(choice.choice([0, 1, 1, 2, 3])):
            request = _damage(request, templates, choice) or b"\n"
        pieces = sorted(choice.randrange(len(request)) for _ in range(choice.choice([0, 0, 1, 3])))
        try:
            _judge(_said(world.url, request, pieces), request, world, known)
        except Wrong as wrong:
            raise Wrong(f"{wrong}: {request[:2000]!r} (cut at {pieces})") from wrong


def _said(url: str, request: bytes, pieces: list[int]) -> bytes:
    """All that the server says before it closes, to who sends this and then nothing more. Raises `Wrong`."""
    end = time.monotonic() + _TIMEOUT_SECONDS
    said = bytearray()
    with raw.connected(url) as connection, suppress(ConnectionError):
        for start, stop in zip([0, *pieces], [*pieces, len(request)], strict=True):
            connection.sendall(request[start:stop])
        connection.shutdown(socket.SHUT_WR)
        while True:
            connection.settimeout(max(0.01, end - time.monotonic()))
            try:
                part = connection.recv(1 << 16)
            except TimeoutError as error:
                raise Wrong(f"the server neither answers nor closes within {_TIMEOUT_SECONDS:g} s") from error
            if not part:
                break
            said += part
    return bytes(said)


def _judge(said: bytes, request: bytes, world: World, known: dict[str, int]) -> None:
    """Each answer must be whole; behind a HEAD, whose answer has no body, no more can be checked. Raises `Wrong`."""
    rest = io.BytesIO(said)
    while rest.tell() < len(said) and said[rest.tell() :].strip():
        answer = http.client.HTTPResponse(raw.Shared(rest), method="GET")  # type: ignore[arg-type]
        try:
            answer.begin()
            if b"HEAD" in request:
                return
            body = answer.read()
        except http.client.HTTPException as error:
            raise Wrong(f"what is no HTTP answer: {error!r} in {said[:500]!r}") from error
        headers: Any = answer.headers
        if answer.status >= 400 and headers.get_content_type() != "text/plain":
            world.page.judge_problem(answer.status, body, known)
        if answer.status >= 500 and headers.get_content_type() == "text/plain":
            raise Wrong(f"{answer.status} in plain text: {body[:300]!r}")
        if "Milepost-Term" not in answer.headers or "X-Request-Id" not in answer.headers:
            raise Wrong(f"an answer of nobody: {answer.status} {answer.getheaders()}")
