"""A list of cells at a URL is read within a time and a size, and neither its secrets nor a weaker address get out."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from milepost.drivers import cell_lists
from milepost.drivers.cell_lists import Place
from tests.client.self_signed import self_signed
from tests.support.network.scripted_server import Behaviour, ScriptedServer, Seen, head_of, reply, trickle, trickle_head

LIST = b"a=http://a-0:7070\nb=http://b-0:7070\n"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += cell_lists._AGAIN_SECONDS
        return self.now


def without_end(_: ScriptedServer, connection: socket.socket, __: Seen, receive: Callable[[], None]) -> None:
    """A gigabyte."""
    receive()
    connection.sendall(head_of(200, Content_Length=str(2**30)))
    with suppress(OSError):
        for _block in range(1024):
            connection.sendall(b"#" * 2**20)


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (trickle(b"#" * 1000, 0.1), "timed out|the time for this attempt is up"),
        (trickle_head(0.1), "timed out|the time for this attempt is up"),
        (without_end, "more than 65536 bytes"),
        (reply(404, b"gone"), "HTTP status 404"),
        (reply(200, b"<html>sign in</html>"), "NAME=ADDRESS"),
        (reply(307, Location="ftp://elsewhere"), "unsupported protocol"),
    ],
)
def test_a_url_without_a_list_leaves_the_one_before(
    then: Behaviour, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_lists, "_TIMEOUT_SECONDS", 1.0)
    with ScriptedServer([reply(200, LIST), then]) as server, caplog.at_level(logging.INFO):
        place = Place(f"{server.url}/cells?signature=secret", True, Clock())
        assert place().names == ("a", "b")
        server.cut()
    assert re.search(why, caplog.text)
    assert "/cells" in caplog.text
    assert "secret" not in caplog.text


def test_a_url_is_followed_but_not_from_https_to_http(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    with ScriptedServer([reply(200, LIST)] * 2) as plain:
        onward = reply(307, Location=f"{plain.url}/list")
        with ScriptedServer([onward]) as first:
            assert Place(f"{first.url}/cells", True)().names == ("a", "b")
        with ScriptedServer([onward], tls) as secure, pytest.raises(ValueError, match="from https to http"):
            Place(f"https://127.0.0.1:{secure.port}/cells", certificate)


@pytest.mark.parametrize("place", ["http://user:secret@127.0.0.1:1/cells", "http://127.0.0.1:1/cells?sig=secret"])
def test_no_secret_of_a_url_is_in_an_error(place: str) -> None:
    with pytest.raises(ValueError, match="list of cells") as refused:
        Place(place, True)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
