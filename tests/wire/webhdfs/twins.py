"""A request that is sent in both ways: as it is, so that it may go the short way, and behind an empty line.

HTTP allows that line, and with it no request is of the usual form, so the parser and the routes answer it. Both answers
must be equal.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from milepost_server.http.access.tokens import Principal, Tokens
from milepost_server.http.connection.short_exchange import Answered, Missing
from milepost_server.http.short_ways import ShortWays
from tests.support.servers.replicas import PROMPT
from tests.wire.support import raw
from tests.wire.support.api import Api, until
from tests.wire.support.in_process import InProcess, in_process
from tests.wire.webhdfs.hadoop import Tree

JOB = "flights"
BYTES = b"bytes of a small file"
FILES = {"checkpoint/offsets/0": b"v1", "checkpoint/commits/0": b"v1", "checkpoint/state/0/1/1.delta": b"x" * 300}
MANY = 70
JAVA = {"Accept": "text/html, */*; q=0.2", "Connection": "keep-alive"}
READER = "token-of-a-reader-of-flights"
STRANGER = "token-of-a-client-of-trains"
_LIVEZ = raw.head("GET", "/livez", {"Connection": "close"})
_NEW = re.compile(r'token=[A-Za-z0-9_-]+|"version":"[0-9]+"|"revision":[0-9]+')
"""What differs in the answers to two requests that are the same otherwise."""
_CHANGING = ("date", "x-request-id", "milepost-revision")

Request = Callable[[Tree, str], bytes]
"""Makes a request about the file of a name."""


@dataclass
class Clients:
    """A server with the tree of a job, the key of its replicas, and which of its requests went the short way."""

    served: InProcess
    tree: Tree
    key: bytes
    went: list[bool] = field(default_factory=list)

    def sent(self, request: bytes) -> tuple[Any, ...]:
        """Return what a client sees: status, fields and body of the answer, and the status of a request behind it."""
        with raw.connected(str(self.served.http.base_url)) as connection:
            connection.sendall(request)
            answer = raw.answer(connection, request.lstrip().split(b" ", 1)[0].decode("latin-1"))
            behind = None
            with suppress(OSError, http.client.HTTPException):
                connection.sendall(_LIVEZ)
                behind = raw.answer(connection).status_code
        given = [(name, value) for name, value in answer.headers.multi_items() if name not in _CHANGING]
        fields = [(name, _NEW.sub("…", value)) for name, value in given]
        return answer.status_code, fields, _NEW.sub("…", answer.text), behind

    def twins(self, request: bytes) -> tuple[tuple[Any, ...], bool]:
        """Send a request in both ways, which must get the same answer. Return it, and whether the first one went the
        short way.
        """
        return self.pair(request, request)

    def pair(self, request: bytes, same: bytes, *names: tuple[str, str]) -> tuple[tuple[Any, ...], bool]:
        """Send a request as it is, and another one the long way, for which the answer must be the same once the
        ``names`` in it are replaced. Return it, and whether the first one went the short way.
        """
        self.went.clear()
        status, fields, content, behind = self.sent(request)
        is_quick = any(self.went)
        for name, other in names:
            fields = [(field, value.replace(name, other)) for field, value in fields]
            content = content.replace(name, other)
        self.went.clear()
        assert (status, fields, content, behind) == self.sent(b"\r\n" + same)
        assert not any(self.went)
        return (status, fields, content, behind), is_quick


class Changing:
    """A list of clients that a test changes, as a token file is read again."""

    def __init__(self, listed: list[Principal]) -> None:
        self.listed = listed
        self.now = Tokens(listed)


def served(directory: Path, tokens: Changing | None, headers: dict[str, str], stack: ExitStack) -> Clients:
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    place = stack.enter_context(in_process(directory, replace(PROMPT, inline_below=4096), tokens=tokens))
    place.http.headers.update(headers)
    driver = Api.on(place.http, JOB)
    epoch = driver.granted()
    tree = Tree(place.http, JOB, epoch)
    for path, content in FILES.items():
        assert tree.create(path, content).status_code == 201
    for number in range(MANY):
        assert tree.mkdirs(f"many/{number}").status_code == 200
    assert tree.delete("checkpoint/state/0/1/1.delta").status_code == 200
    (stored,) = (each for each in directory.rglob("doors/*") if each.is_file())
    clients = Clients(place, tree, bytes.fromhex(stored.read_text()[:64]))
    answer = ShortWays.answer

    def noted(self: ShortWays, data: bytes, common: Any) -> Answered:
        found = answer(self, data, common)
        clients.went.append(found is not None and not isinstance(found, Missing))
        return found

    patched.setattr(ShortWays, "answer", noted)
    return clients


def write(tree: Tree, name: str, query: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    told = {**JAVA, **tree.told(), "Content-Length": str(len(body)), **(headers or {})}
    return raw.head("PUT", f"/webhdfs/v1/jobs/{JOB}/{name}?{query}", told) + body


def pair(clients: Clients, request: Request, names: Iterator[str], tree: Tree | None = None) -> tuple[int, bool, int]:
    """Send a request about two files, one of them the long way; return the status, whether the first went the short
    way, and the status of a request behind it.
    """
    quick, slow = next(names), next(names)
    tree = tree or clients.tree
    first, second = request(tree, quick), request(tree, slow)
    (status, *_, behind), is_quick = clients.pair(first, second, (quick, slow))
    return status, is_quick, behind


def in_two(clients: Clients, putting: Request, name: str, at: int) -> list[bool]:
    """Put a file in two pieces, of which the first ends ``at`` bytes behind the head, and read it. Return which of the
    pieces went the short way, of those that were not given to the parser at once.
    """
    request = putting(clients.tree, name)
    end = request.index(b"\r\n\r\n") + 4 + at
    with raw.connected(str(clients.served.http.base_url)) as connection:
        clients.went.clear()
        connection.sendall(request[:end])
        until(lambda: bool(clients.went), "the first piece came")
        went = list(clients.went)
        clients.served.http.get("/livez")  # by now the loop has done what is due
        clients.went.clear()
        connection.sendall(request[end:])
        assert raw.answer(connection, "PUT").status_code == 201
        went += clients.went
    assert clients.tree.read(f"checkpoint/.{name}.tmp").content == BYTES
    return went
