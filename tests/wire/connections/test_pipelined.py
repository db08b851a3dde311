"""Requests sent one behind the other without waiting: each gets its answer, in order, and none takes much of memory."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from testbed.server import DEADLINE_SECONDS, ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api

MIB = 1024 * 1024
SIZES = (0, 1, 100, 16_383, 16_384, 40_000, 70_000, 300_000)
OFFER = {"Upgrade": "h2c", "Connection": "Upgrade"}


def test_bodies_of_every_framing_and_size(api: Api, server: ServerProcess) -> None:
    choice = random.Random(1)
    bodies = [choice.randbytes(choice.choice(SIZES)) for _ in range(40)]
    sent = b""
    for number, body in enumerate(bodies):
        headers = {"Milepost-Session": str(api.session), **(OFFER if number % 2 else {})}
        target = f"/v1/stores/{api.store}/handles/h{number}"
        if number % 3:
            sent += raw.head("POST", target, {**headers, "Content-Length": str(len(body))}) + body
        else:
            parts = [body[at : at + 5000] for at in range(0, len(body), 5000)]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
            sent += (
                raw.head("POST", target, {**headers, "Transfer-Encoding": "chunked"}) + chunks + b"0\r\nA: b\r\n\r\n"
            )

    def send(connection: socket.socket) -> None:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)

    with raw.connected(server.url) as connection, ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send, connection)
        answers = list(raw.answers(connection, *["POST"] * len(bodies)))
        sending.result(DEADLINE_SECONDS)
        assert connection.recv(1) == b""
    assert [answer.status_code for answer in answers] == [201] * len(bodies)
    for number, body in enumerate(bodies):
        assert api.state(f"h{number}").content == body


def test_many_small_ones_are_parsed_as_they_are_answered(server: ServerProcess) -> None:
    """Nobody reads the answers: then the requests are not read either."""
    with little_memory(server), raw.connected(server.url) as connection, suppress(TimeoutError):
        connection.settimeout(2)
        connection.sendall(raw.head("GET", "/livez") * 200_000)


def test_small_ones_are_read_as_they_are_answered(server: ServerProcess) -> None:
    """The client reads the answers, sends faster than the server answers, and goes in the middle."""

    def read(connection: socket.socket) -> int:
        size = 0
        # Answers that arrive behind the shutdown meet a reset from the client's own kernel.
        with suppress(ConnectionResetError):
            while received := connection.recv(65536):
                size += len(received)
        return size

    with little_memory(server), raw.connected(server.url) as connection, ThreadPoolExecutor(1) as threads:
        connection.settimeout(4)
        reading = threads.submit(read, connection)
        with suppress(TimeoutError):
            connection.sendall(raw.head("GET", "/livez") * 1_500_000)
        connection.shutdown(socket.SHUT_RDWR)
        assert reading.result(DEADLINE_SECONDS) > MIB


@contextmanager
def little_memory(server: ServerProcess) -> Iterator[None]:
    """The server takes little more memory within the block than before."""
    server.forget_peak()
    before = server.memory("VmHWM")
    yield
    assert server.memory("VmHWM") - before < 32 * MIB
