"""Slowness is bounded as silence is: of heads, of bodies, of readers, and of connections on which nothing happens."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from milepost_server.blobs.delivery import AHEAD_BYTES
from milepost_server.http.connection.connections import Connections
from milepost_server.model.paths import path_key
from milepost_server.model.trees import Entry, TreePath
from testbed.server import DEADLINE_SECONDS, ServerProcess
from tests.support.servers.replicas import PROMPT
from tests.support.servers.served import free_socket
from tests.wire.support import raw
from tests.wire.support.api import Api, connect, problem, until
from tests.wire.support.in_process import InProcess, in_process
from tests.wire.webhdfs.hadoop import Tree, refused

pytestmark = pytest.mark.later

SLOW = replace(PROMPT, idle_seconds=2.0)
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with in_process(tmp_path_factory.mktemp("slow"), SLOW) as running:
        yield running


def url_of(here: InProcess) -> str:
    return str(here.http.base_url)


def drip(connection: socket.socket, piece: Callable[[int], bytes]) -> int:
    """Send a piece each 20 ms until the server has closed; how many it took."""
    connection.settimeout(0.02)
    end, pieces = time.monotonic() + DEADLINE_SECONDS, 0
    while time.monotonic() < end:
        with suppress(TimeoutError):
            if connection.recv(65536) == b"":
                return pieces
        connection.sendall(piece(pieces))
        pieces += 1
    raise AssertionError("a slow sender is heard without end")


HEADS: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "a target": (b"GET /", lambda _: b"a"),
    "fields": (b"GET /livez HTTP/1.1\r\n", lambda number: b"x: y\r\n"[number % 6 :][:1]),
    "empty lines": (b"", lambda _: b"\r\n"),
}


@pytest.mark.parametrize("kept", [False, True], ids=["first", "second"])
@pytest.mark.parametrize(("begin", "piece"), HEADS.values(), ids=HEADS)
def test_a_head_must_be_there_in_time_in_all(
    here: InProcess, begin: bytes, piece: Callable[[int], bytes], kept: bool
) -> None:
    """What a kept connection may wait for its next head is another time, and nothing but a head begins it anew."""
    with raw.connected(url_of(here)) as connection:
        if kept and begin:
            connection.sendall(raw.head("GET", "/livez"))
            assert raw.answer(connection).status_code == 200
        connection.sendall(begin)
        with suppress(ConnectionError):
            drip(connection, piece)


FRAMINGS: dict[str, tuple[dict[str, str], bytes]] = {
    "length": ({"Content-Length": "100000"}, b"x"),
    "chunked": ({"Transfer-Encoding": "chunked"}, b"1\r\nx\r\n"),
}


@pytest.mark.parametrize(("framing", "piece"), FRAMINGS.values(), ids=FRAMINGS)
def test_a_body_below_the_least_rate_is_incomplete(here: InProcess, framing: dict[str, str], piece: bytes) -> None:
    api = Api.on(here.http, "s")
    request = raw.head("POST", "/v1/stores/s/handles/a", {"Milepost-Session": str(api.session), **framing})
    with raw.connected(url_of(here)) as connection:
        connection.sendall(request)
        connection.settimeout(0.02)
        end, answered = time.monotonic() + DEADLINE_SECONDS, False
        while not answered:
            assert time.monotonic() < end
            try:
                answered = bool(connection.recv(1, socket.MSG_PEEK))
            except TimeoutError:
                connection.sendall(piece)
        connection.settimeout(DEADLINE_SECONDS)
        document = problem(raw.answer(connection), 400, "incomplete-body")
    assert document["retryable"] is True
    assert api.exists("a").status_code == 404


def test_a_body_above_the_least_rate_may_take_longer_than_silence_may(here: InProcess) -> None:
    api = Api.on(here.http, "s")

    def content() -> Iterator[bytes]:
        end = time.monotonic() + 3 * SLOW.idle_seconds
        while time.monotonic() < end:
            time.sleep(SLOW.idle_seconds / 20)
            yield b"x" * 1000

    assert api.add("steady", content()).status_code == 201


def put_slowly(here: InProcess, name: str) -> httpx.Response:
    """Put a file as a task does that works for long while the file is open."""
    tree = Tree(here.http, "slow")
    data_node = tree.ask("PUT", name, "CREATE").headers["location"]

    def content() -> Iterator[bytes]:
        yield b"first"
        time.sleep(3 * SLOW.idle_seconds)
        yield b"last"

    return here.http.put(data_node, content=content())


def test_a_file_may_be_open_for_longer_than_silence_may_last_elsewhere(here: InProcess) -> None:
    assert put_slowly(here, "state/1.delta").status_code == 201
    assert Tree(here.http, "slow").read("state/1.delta").content == b"firstlast"


def test_a_file_is_not_open_for_ever(tmp_path: Path) -> None:
    with in_process(tmp_path, replace(SLOW, file_idle_seconds=SLOW.idle_seconds)) as here:
        refused(put_slowly(here, "state/1.delta"), 403, "IOException")
        assert Tree(here.http, "slow").read("state/1.delta").status_code == 404


def answered(connections: list[socket.socket]) -> list[socket.socket]:
    return select.select(connections, [], [], 0)[0]


def test_files_that_are_half_sent_keep_nobody_out(tmp_path: Path) -> None:
    """Those whose sender has been silent for longest make room, and are told so."""
    now = [0.0]
    connections = Connections(most=30, clock=lambda: now[0])
    with in_process(tmp_path, connections=connections) as here, ExitStack() as held:
        tree = Tree(here.http, "slow")
        data_nodes = [httpx.URL(tree.ask("PUT", f"half{n}", "CREATE").headers["location"]) for n in range(12)]

        def half(data_node: httpx.URL) -> socket.socket:
            connection = held.enter_context(raw.connected(url_of(here)))
            connection.sendall(raw.head("PUT", data_node.raw_path.decode(), {"Content-Length": "100000"}))
            connection.sendall(b"x" * 50_000)
            return connection

        def whole(name: str) -> int:
            with connect(url_of(here)) as another:
                return Tree(another, "slow").create(name, b"x" * 50_000).status_code

        early: list[socket.socket] = []
        for data_node in data_nodes[:8]:
            early.append(half(data_node))
            until(lambda: len(connections.bodies.silent) == len(early), "it is waited for")
        assert whole("whole") == 201
        now[0] = 60.0
        late: list[socket.socket] = []
        for data_node in data_nodes[8:]:
            late.append(half(data_node))
            until(
                lambda: len(connections.bodies.silent) + len(answered(early)) == len(early) + len(late),
                "it is waited for, perhaps in the place of another",
            )
        assert answered(early)
        for connection in answered(early):
            refused(raw.answer(connection), 403, "RetriableException")
        assert whole("another") == 201
        late[-1].sendall(b"x" * 50_000)
        assert raw.answer(late[-1]).status_code == 201


def test_the_rest_of_a_body_that_nobody_wants_is_not_read_for_ever(here: InProcess) -> None:
    """Also where its answer is out: a GET with a body."""
    with raw.connected(url_of(here)) as connection:
        connection.sendall(raw.head("GET", "/livez", {"Content-Length": "100000"}))
        assert raw.answer(connection).status_code == 200
        with suppress(ConnectionError):
            assert drip(connection, lambda _: b"x") < 100_000


def test_a_reader_that_does_not_read_is_cut(here: InProcess) -> None:
    api = Api.on(here.http, "s")
    large = b"x" * (64 * MIB)
    until(lambda: api.add("large", large).status_code == 201, "the bytes have come without a pause")
    with raw.connected(url_of(here)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(raw.head("GET", "/v1/stores/s/handles/large/state"))
        cut(connection)
        received = 0
        with suppress(ConnectionError):
            while part := connection.recv(MIB):
                received += len(part)
    assert received < 64 * MIB


def test_files_that_nobody_reads_are_bounded_together(tmp_path: Path) -> None:
    """Little of each is in its socket, and more of it waits behind that."""
    count, most = 24, 20 * MIB
    connections = Connections(most_unsent=most)
    with in_process(tmp_path, connections=connections) as here, ExitStack() as held:
        tree = Tree(here.http, "slow")
        assert tree.create("large", b"x" * (20 * MIB)).status_code == 201
        data_node = httpx.URL(tree.ask("GET", "large", "OPEN").headers["location"])
        readers = [held.enter_context(raw.connected(url_of(here))) for _ in range(count)]
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(raw.head("GET", data_node.raw_path.decode()))
        until(lambda: len(readers) - len(closed(readers)) <= most // MIB, "those that are too many are cut")


@pytest.mark.parametrize("first", [b"", raw.head("GET", "/openapi.json")], ids=["alone", "behind another answer"])
def test_listings_that_nobody_reads_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """Each is in memory as a whole. Sockets keep little, so that the other answer is sent but not read."""
    count, files, most, in_socket = 5, 10_000, 6 * MIB, MIB // 4
    bound, url = free_socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, in_socket // 4)
    monkeypatch.setattr("tests.wire.support.in_process.free_socket", lambda: (bound, url))
    connections, patient = Connections(most_unsent=most), replace(PROMPT, idle_seconds=10 * DEADLINE_SECONDS)
    with in_process(tmp_path, patient, connections=connections) as here, ExitStack() as held:
        tree = Tree(here.http, "slow")
        assert tree.create("many/first").status_code == 201
        entry = Entry(1, "2026-01-01T00:00:00.000Z", 1, data=b"")
        paths = [TreePath(f"many/{number:05}", (entry,)) for number in range(files)]
        here.rig.replica.journal.read().view.state.apply([(path_key("slow", path.path), path) for path in paths])
        size = len(tree.ask("GET", "many", "LISTSTATUS").content)
        assert size > 2 * MIB
        assert len(here.http.get("/openapi.json").content) > in_socket
        readers = [held.enter_context(raw.connected(url_of(here))) for _ in range(count)]
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(first + raw.head("GET", "/webhdfs/v1/jobs/slow/many?op=LISTSTATUS"))
        left = most // (size - in_socket + AHEAD_BYTES)
        until(lambda: len(readers) - len(closed(readers)) <= left < count, "those that are too many are cut")


def closed(connections: list[socket.socket]) -> list[socket.socket]:
    established = 1
    return [each for each in connections if each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != established]


def test_answers_that_nobody_reads_do_not_pile_up(here: InProcess) -> None:
    """Requests sent one behind the other, none of whose answers is read: they are not even parsed."""
    with raw.connected(url_of(here)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(DEADLINE_SECONDS)
        many = raw.head("GET", "/openapi.json") * 200_000
        with pytest.raises(ConnectionError):
            connection.sendall(many)


def cut(connection: socket.socket) -> None:
    """Wait, without reading, until the peer has closed."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        if info[0] != 1:  # TCP_ESTABLISHED
            return
        time.sleep(0.05)
    raise AssertionError("the server waits for a reader without end")


@pytest.mark.parametrize("begun", [b"", b"GET /livez HT"], ids=["idle", "inside a head"])
def test_idle_connections_make_room(tmp_path: Path, begun: bytes) -> None:
    """With files for 200 connections or fewer, 600 that do nothing keep nobody out, nor a request that runs."""
    with ServerProcess(tmp_path, wrapper=["prlimit", "--nofile=300:300"]) as server, ExitStack() as held:
        server.start()
        http = held.enter_context(connect(server.url))
        api = Api.on(http, "s")
        poll = replace(api.other(), http=held.enter_context(connect(server.url)))
        api.granted()
        waiting = held.enter_context(ThreadPoolExecutor(1)).submit(poll.campaign, wait=3)
        for _ in range(600):
            held.enter_context(raw.connected(server.url)).sendall(begun)
        with connect(server.url) as another:
            assert replace(api, http=another, epoch=1).add("a").status_code == 201
        problem(waiting.result(DEADLINE_SECONDS), 409, "held")
        assert server.running
        assert "Too many open files" not in server.logged()
