"""Both drivers before what is not the service: portals, gateways, proxies that mangle. The servers are fakes."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable

import pytest

import milepost
from tests.client.core.world import RECORD
from tests.client.flavours import connected
from tests.support.network.scripted_server import Behaviour, Hangup, ScriptedServer, Seen, cut, head_of, reply

HANDLE = {**RECORD, "name": "h"}
BODY = json.dumps(HANDLE).encode()


def raw(answer: bytes) -> Behaviour:
    """Take the request in, answer these bytes, close."""
    return cut(after=answer, reset=False)


def endless(_: ScriptedServer, connection: socket.socket, __: Seen, receive: Callable[[], None]) -> None:
    """A portal's page that does not end, as fast as it is read."""
    receive()
    connection.sendall(head_of(200, Milepost_Term="", Content_Type="text/html"))
    for _page in range(50_000):
        connection.sendall(b"<p>sign in</p>" * 1000)
    raise Hangup


def chunked(body: bytes, *, twice: str = "") -> bytes:
    """An answer in one chunk, with a header that stands there a second time."""
    head = head_of(200, Transfer_Encoding="chunked", Connection="close")[:-2] + twice.encode() + b"\r\n"
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


STRANGE: dict[str, Behaviour] = {
    "page": reply(200, b"<html>", Milepost_Term="", Content_Type="text/html"),
    "absent": reply(404, b"nothing here", Milepost_Term=""),
    "record": reply(200, HANDLE, Milepost_Term=""),
    "portal": reply(307, Milepost_Term="", Location="http://127.0.0.1:1/login"),
    "their-leader": reply(307, Milepost_Term="", Location="http://127.0.0.1:1/v1/stores/s/handles/h"),
    "endless": endless,
    "cut-json": reply(200, BODY[:-20]),
    "cut-json-in-a-chunk": raw(chunked(BODY[:-20])),
    "two-terms": raw(chunked(BODY, twice="Milepost-Term: 3\r\n")),
    "cut-body": raw(head_of(200, Content_Length=str(len(BODY))) + BODY[:-20]),
    "other-shape": reply(200, {"status": "ok"}),
    "no-http": raw(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "no-status": raw(b"HTTP/1.1 two hundred\r\n\r\n"),
    "bad-length": raw(b"HTTP/1.1 200 OK\r\nMilepost-Term: 3\r\nContent-Length: many\r\n\r\n"),
    "gzip": reply(200, b"\x1f\x8b\x08\x00", Content_Encoding="gzip"),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_what_is_not_the_service_is_not_believed_and_the_service_is_asked_again(
    flavour: str, strange: Behaviour
) -> None:
    with (
        ScriptedServer([strange, reply(200, HANDLE)]) as server,
        connected(flavour, server.url, timeout=20.0) as client,
    ):
        assert client.store("s").get("h").version == "abc.7"
    assert [seen.path for seen in server.seen] == ["/v1/stores/s/handles/h"] * 2


def test_redirects_in_a_circle_end_with_the_deadline(flavour: str) -> None:
    def on(server: ScriptedServer, connection: socket.socket, seen: Seen, receive: Callable[[], None]) -> None:
        reply(307, Location=f"{server.url}{seen.path}")(server, connection, seen, receive)

    with (
        ScriptedServer([on] * 10_000) as server,
        connected(flavour, server.url, timeout=1.0) as client,
        pytest.raises((milepost.ConnectionFailed, milepost.DeadlineExceeded), match=r"circle|deadline"),
    ):
        client.store("s").get("h")
    assert len(server.seen) < 500


def test_nobody_there_is_logged_at_the_first_retry(flavour: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        ScriptedServer([cut(), reply(200, HANDLE)]) as server,
        connected(flavour, server.url, timeout=20.0, token="very-secret") as client,
        caplog.at_level(logging.INFO, "milepost"),
    ):
        client.store("s").get("h")
        url = server.url
    warning, information = [record for record in caplog.records if record.name == "milepost.calls"]
    assert (warning.levelno, information.levelno) == (logging.WARNING, logging.INFO)
    assert warning.getMessage().startswith(f"GET /v1/stores/s/handles/h failed at {url} (")
    assert "asking again in" in warning.getMessage()
    assert information.getMessage().startswith(f"replica {url} is the leader, found after ")
    assert "very-secret" not in caplog.text
