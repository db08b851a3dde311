"""Whoever sends nothing any more inside of a request does not hold on to the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.servers.replicas import PROMPT
from tests.wire.support import raw
from tests.wire.support.api import Api, problem
from tests.wire.support.in_process import InProcess, in_process

IDLE = replace(PROMPT, idle_seconds=0.2)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with in_process(tmp_path_factory.mktemp("idle"), IDLE) as running:
        yield running


@pytest.mark.parametrize("framing", [{"Content-Length": "50"}, {"Transfer-Encoding": "chunked"}], ids=str)
def test_a_body_that_does_not_go_on_is_incomplete(here: InProcess, framing: dict[str, str]) -> None:
    api = Api.on(here.http, "s")
    begun = raw.head("POST", "/v1/stores/s/handles/a", {"Milepost-Session": str(api.session), **framing})
    part = b"he" if "Content-Length" in framing else b"2\r\nhe\r\n"
    problem(raw.ask(str(here.http.base_url), begun + part), 400, "incomplete-body")
    assert api.exists("a").status_code == 404


@pytest.mark.parametrize("begun", [b"", b"GET /livez HT"], ids=["nothing", "a part"])
def test_a_head_that_does_not_come_ends_the_connection(here: InProcess, begun: bytes) -> None:
    with raw.connected(str(here.http.base_url)) as connection:
        connection.sendall(begun)
        assert connection.recv(1024) == b""


@pytest.mark.parametrize("first", ["/livez", "/webhdfs/v1/?op=GETFILESTATUS"], ids=["health", "a look"])
def test_a_second_head_that_does_not_end_ends_the_connection(here: InProcess, first: str) -> None:
    """An idle connection waits for longer than this test does, a head does not."""
    with raw.connected(str(here.http.base_url)) as connection:
        connection.sendall(raw.head("GET", first))
        assert raw.answer(connection).status_code == 200
        connection.sendall(b"GET /livez HT")
        assert connection.recv(1024) == b""
