"""The requests by which a checkpoint file is written: each by itself, and whole files, as Hadoop's client writes them
and in one request.
"""

from __future__ import annotations

import http.client
import json
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import urlsplit

from benchmarks.load import Answer, LoadFailed, Next, request

BODY = b"x" * 300
"""The bytes of a small file, as one of Spark's with the changes of a partition."""

_TTL_SECONDS = 3600
_PARTITIONS = 4
_VERSIONS = 100
_KEPT = _PARTITIONS * _VERSIONS

Client = Generator[bytes, Answer, None]
"""A client that yields its requests, and is sent the answer to each."""


def sending(client: Client) -> Next:
    """Return a client in the form that `benchmarks.load.run` takes."""

    def following(answer: Answer | None) -> bytes:
        return next(client) if answer is None else client.send(answer)

    return following


@dataclass
class Tree:
    """The tree of a job that a session leads: where the requests go, and the header that carries the epoch."""

    store: str
    headers: list[tuple[str, str]]
    created: deque[tuple[str, str]] = field(default_factory=deque)
    """Files whose CREATE was answered: their temporary paths, and the addresses that take their bytes."""
    put: deque[str] = field(default_factory=deque)
    """The temporary paths of files whose bytes were put."""
    whole: deque[str] = field(default_factory=deque)
    """The paths of files that were written in one request."""
    numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    def led(cls, url: str, store: str) -> Tree:
        """Lead a job under a session of its own, and make the directory of its state."""
        opened = _call(url, "POST", "/v1/sessions", {}, {"ttl": _TTL_SECONDS, "holder": "benchmark"})
        said = {"Milepost-Session": opened["session"]}
        epoch = _call(url, "POST", f"/v1/stores/{store}/epoch", said, {"wait": 5})["epoch"]
        tree = cls(store, [(f"X-Milepost-{store}-{epoch}", '""')])
        _call(url, "PUT", f"{tree.path()}?op=MKDIRS", dict(tree.headers), None)
        return tree

    def path(self, below: str = "") -> str:
        """Return the path of a request about the directory of the state, or about something below it."""
        return f"/webhdfs/v1/jobs/{self.store}/checkpoint/state/0{below}"

    def ask(self, method: str, path: str, operation: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request."""
        return request(method, f"{path}?op={operation}", self.headers, body)

    def put_body(self, address: str) -> bytes:
        """Return the bytes of the request that puts a file at the address of a redirect."""
        kind = ("content-type", "application/octet-stream")
        return request("PUT", address, [*self.headers, kind], BODY)

    def put_whole(self, path: str, key: str) -> bytes:
        """Return the bytes of the request that writes a file at a path, under an idempotency key."""
        return self.put_body(f"{path}?op=CREATE&data=true&overwrite=true&key={key}&attempt=1")

    def delete(self, path: str) -> bytes:
        """Return the bytes of the request that deletes a file."""
        return self.ask("DELETE", path, "DELETE&recursive=true")

    def target(self, temporary: str) -> str:
        """Return the query of the RENAME that gives a file its final name."""
        final = temporary.removeprefix("/webhdfs/v1").replace("/.", "/").removesuffix(".tmp")
        return f"RENAME&destination={final}"


def livez(_tree: Tree) -> Client:
    """Ask what needs nothing of Milepost: what the HTTP server itself costs."""
    while True:
        _expect((yield request("GET", "/livez")), 200)


def look(tree: Tree) -> Client:
    """Look at a directory that exists."""
    while True:
        _expect((yield tree.ask("GET", tree.path(), "GETFILESTATUS")), 200)


def look_at_nothing(tree: Tree) -> Client:
    """Look at a file that does not exist."""
    while True:
        _expect((yield tree.ask("GET", tree.path("/nothing"), "GETFILESTATUS")), 404)


def create(tree: Tree) -> Client:
    """Ask where the bytes of a new file go."""
    while True:
        temporary = tree.path(f"/{next(tree.numbers)}/.delta.tmp")
        tree.created.append((temporary, _address((yield tree.ask("PUT", temporary, "CREATE&overwrite=true")))))


def put(tree: Tree) -> Client:
    """Put the bytes of a file, which publishes it under its temporary name."""
    while True:
        temporary, address = tree.created.popleft()
        _expect((yield tree.put_body(address)), 201)
        tree.put.append(temporary)


def rename(tree: Tree) -> Client:
    """Give a file its final name."""
    while True:
        temporary = tree.put.popleft()
        _expect((yield tree.ask("PUT", temporary, tree.target(temporary))), 200)


def put_whole(tree: Tree) -> Client:
    """Write a file in one request."""
    while True:
        number = next(tree.numbers)
        path = tree.path(f"/{number}/1.delta")
        _expect((yield tree.put_whole(path, f"step-{number}")), 201)
        tree.whole.append(path)


def delete(tree: Tree) -> Client:
    """Delete a file."""
    while True:
        _expect((yield tree.delete(tree.whole.popleft())), 200)


STEPS: dict[str, Callable[[Tree], Client]] = {
    "livez": livez,
    "look": look,
    "look at nothing": look_at_nothing,
    "CREATE": create,
    "PUT 300 B": put,
    "RENAME": rename,
    "PUT whole 300 B": put_whole,
    "DELETE": delete,
}
"""The requests by name; `put` takes the files that `create` left, `rename` those that `put` left, and `delete` those
that `put_whole` left.
"""


def _places(tree: Tree) -> Iterator[tuple[str, int]]:
    """Yield the directory and the version of each file of the state. No directory has more than `_VERSIONS` files, as
    if old versions were deleted.
    """
    for number in count():
        version = number // _PARTITIONS
        yield tree.path(f"/{number % _PARTITIONS}-{version // _VERSIONS}"), version


def files(tree: Tree, done: list[str]) -> Client:
    """Write files as Spark's state store does by Hadoop's client: four looks at what is there, two at nothing, a
    listing, CREATE, PUT and RENAME. ``done`` gets the path of each file.
    """
    for directory, version in _places(tree):
        final, temporary = f"{directory}/{version}.delta", f"{directory}/.{version}.delta.tmp"
        for path, operation in (
            (tree.path(), "GETFILESTATUS"),
            (final, "GETFILESTATUS"),
            (directory, "GETFILESTATUS"),
            (temporary, "GETFILESTATUS"),
            (final, "GETFILESTATUS"),
            (final, "GETFILESTATUS"),
            (directory, "LISTSTATUS"),
        ):
            _expect((yield tree.ask("GET", path, operation)), 200, 404)
        address = _address((yield tree.ask("PUT", temporary, "CREATE&overwrite=true")))
        _expect((yield tree.put_body(address)), 201)
        _expect((yield tree.ask("PUT", temporary, tree.target(temporary))), 200)
        done.append(final)


def whole_files(tree: Tree, done: list[str], gone: set[str] | None = None) -> Client:
    """Write the files that `files` writes, each in one request. ``done`` gets the path of each file. With ``gone``,
    each file but the `_KEPT` last ones is deleted, as Spark deletes old versions, and ``gone`` gets its path first.
    """
    kept = deque[str]()
    for directory, version in _places(tree):
        final = f"{directory}/{version}.delta"
        _expect((yield tree.put_whole(final, f"file-{next(tree.numbers)}")), 201)
        done.append(final)
        if gone is None:
            continue
        kept.append(final)
        if len(kept) > _KEPT:
            gone.add(oldest := kept.popleft())
            _expect((yield tree.delete(oldest)), 200)


WRITERS: dict[str, Callable[[Tree, list[str]], Client]] = {"by Hadoop's client": files, "in one request": whole_files}
"""The ways to write a file by name."""


def _address(answer: Answer) -> str:
    """Return the path and query to which a CREATE was redirected; the server is the data node, too."""
    _expect(answer, 307)
    where = urlsplit(answer.header("location"))
    return f"{where.path}?{where.query}"


def _expect(answer: Answer, *statuses: int) -> None:
    if answer.status not in statuses:
        raise LoadFailed(f"{answer.status} instead of {statuses}: {answer.body!r}")


def _call(url: str, method: str, path: str, headers: dict[str, str], body: dict[str, object] | None) -> dict[str, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        sent = b"" if body is None else json.dumps(body).encode()
        connection.request(method, path, sent, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        told = answer.read()
        if answer.status not in (200, 201):
            raise LoadFailed(f"{method} {path}: {answer.status} {told!r}")
        return dict(json.loads(told))
    finally:
        connection.close()
