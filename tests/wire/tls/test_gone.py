"""A client that dies without the closing alert of TLS, while its request is under way."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path

import httpx

from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support import raw
from tests.wire.support.api import Api, until


def sockets(server: ServerProcess) -> int:
    """How many sockets the server has open."""
    count = 0
    for each in Path(f"/proc/{server.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed since
            count += os.readlink(each).startswith("socket:")
    return count


def test_it_leaves_no_connection(server: ServerProcess, http: httpx.Client, certificates: Certificates) -> None:
    Api.on(http, "held").granted()
    waiting = Api.on(http, "held")
    body = json.dumps({"wait": 2}).encode()
    headers = {
        "Milepost-Session": str(waiting.session),
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    request = raw.head("POST", "/v1/stores/held/epoch", headers) + body
    before = sockets(server)
    for _ in range(5):
        below = socket.create_connection(("127.0.0.1", server.port), raw.DEADLINE_SECONDS)
        with certificates.trusting().wrap_socket(below, server_hostname="127.0.0.1") as connection:
            connection.sendall(request)
            socket.socket.shutdown(connection, socket.SHUT_WR)
            while socket.socket.recv(connection, 65536):
                pass
    until(lambda: sockets(server) <= before, "every connection is closed")
    assert "was never retrieved" not in server.logged()
