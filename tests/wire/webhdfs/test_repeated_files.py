"""A whole file that is put again under its key is put once, and what is not known of it is said."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from itertools import count
from pathlib import Path

import httpx
import pytest

from milepost_backends.contract import Commit
from milepost_server.http.webhdfs.datanode import data_node
from testbed.server import DEADLINE_SECONDS
from tests.support.network.faults import RealCommit, before, lose_answer
from tests.support.servers.replicas import PROMPT
from tests.wire.support import raw
from tests.wire.support.api import Api, connect, until
from tests.wire.support.in_process import in_process
from tests.wire.webhdfs.hadoop import Tree, refused
from tests.wire.webhdfs.replicas import Set
from tests.wire.webhdfs.twins import BYTES, JOB, Clients, write

LARGE = bytes(range(256)) * 64
WAYS = pytest.mark.parametrize("way", [b"", b"\r\n"], ids=["short", "long"])
Put = Callable[..., httpx.Response]


def query(key: str, attempt: int = 1, *, overwrite: bool = False) -> str:
    return f"op=CREATE&data=true&overwrite={str(overwrite).lower()}&key={key}&attempt={attempt}"


@pytest.fixture
def tree(clients: Clients, names: Iterator[str]) -> Tree:
    """The tree of a job that no test had before."""
    job = f"job-{next(names)}"
    return Tree(clients.served.http, job, Api.on(clients.served.http, job).granted())


@pytest.fixture
def put(clients: Clients, tree: Tree, way: bytes) -> Put:
    """Put a file whole, by default the first time under the key ``k``."""

    def send(path: str, content: bytes = BYTES, attempt: int = 1, *, overwrite: bool = False) -> httpx.Response:
        request = write(tree, path, query("k", attempt, overwrite=overwrite), content)
        request = request.replace(f"/jobs/{JOB}/".encode(), f"/jobs/{tree.job}/".encode(), 1)
        return raw.ask(str(clients.served.http.base_url), way + request)

    return send


def modified(tree: Tree, path: str) -> object:
    status = tree.status(path)
    return status["fileId"], status["modificationTime"]


@WAYS
@pytest.mark.parametrize("content", [b"", BYTES, LARGE], ids=len)
def test_the_same_file_again_is_the_first_one(tree: Tree, put: Put, content: bytes) -> None:
    assert put("d/a", content).status_code == 201
    first = modified(tree, "d/a")
    for attempt in (1, 1, 2, 2, 3):
        again = put("d/a", content, attempt)
        assert (again.status_code, again.headers["location"]) == (201, f"webhdfs://milepost/jobs/{tree.job}/d/a")
    assert modified(tree, "d/a") == first
    assert tree.read("d/a").content == content


@WAYS
@pytest.mark.parametrize("content", [BYTES, LARGE], ids=len)
def test_it_is_not_put_again_where_another_has_moved_it_on(tree: Tree, put: Put, content: bytes) -> None:
    assert put("d/a", content).status_code == 201
    assert tree.rename("d/a", "d/b").status_code == 200
    for attempt in (1, 2):
        assert put("d/a", content, attempt).status_code == 201
        assert tree.names("d") == ["b"]
    assert tree.create("d/a", b"of another").status_code == 201
    assert put("d/a", content, 3).status_code == 201
    assert tree.read("d/a").content == b"of another"
    assert tree.delete("d", recursive=True).json() == {"boolean": True}
    assert put("d/a", content, 4).status_code == 201
    assert tree.names() == []


@WAYS
def test_another_file_under_the_key_is_refused(tree: Tree, put: Put) -> None:
    assert put("d/a").status_code == 201
    for attempt in (1, 2):
        for other in (
            put("d/a", b"other bytes", attempt),
            put("d/a", LARGE, attempt),
            put("d/b", BYTES, attempt),
            put("d/a", BYTES, attempt, overwrite=True),
        ):
            assert "used for" in refused(other, 403, "IOException")
            assert "milepost-outcome" not in other.headers
    assert tree.names("d") == ["a"]
    assert tree.read("d/a").content == BYTES


def test_bytes_that_a_repeated_request_lost_say_nothing_of_the_earlier_ones(clients: Clients, tree: Tree) -> None:
    digest = f"sha-256=:{b64encode(sha256(BYTES).digest()).decode()}:"

    def put(content: bytes, attempt: int) -> httpx.Response:
        request = write(tree, "d/a", query("k", attempt), content, {"Content-Digest": digest})
        request = request.replace(f"/jobs/{JOB}/".encode(), f"/jobs/{tree.job}/".encode(), 1)
        return raw.ask(str(clients.served.http.base_url), request)

    assert put(BYTES, 1).status_code == 201
    damaged = put(BYTES[::-1], 2)
    assert "sha-256" in refused(damaged, 403, "IOException")
    assert damaged.headers["milepost-outcome"] == "unknown"
    assert put(BYTES, 3).status_code == 201


@WAYS
@pytest.mark.parametrize("content", [BYTES, LARGE], ids=len)
def test_a_late_attempt_puts_nothing(tree: Tree, put: Put, content: bytes) -> None:
    assert put("d/a", content, 3, overwrite=True).status_code == 201
    assert tree.delete("d/a").json() == {"boolean": True}
    for late in (1, 2):
        answer = put("d/a", content, late, overwrite=True)
        refused(answer, 403, "IOException")
        assert answer.headers["milepost-outcome"] == "unknown"
    assert put("d/a", content, 4, overwrite=True).status_code == 201
    assert tree.names("d") == []


@WAYS
def test_the_rest_of_a_body_that_was_frozen_puts_nothing(clients: Clients, tree: Tree, way: bytes) -> None:
    """Its sender has sent the file on another connection since."""
    request = write(tree, "d/a", query("k")).replace(b"Content-Length: 0", b"Content-Length: %d" % len(BYTES))
    request = way + request.replace(f"/jobs/{JOB}/".encode(), f"/jobs/{tree.job}/".encode(), 1)
    for path, length in (("d/a", 0), ("d/b", 5)):
        with raw.connected(str(clients.served.http.base_url)) as frozen:
            frozen.sendall(request.replace(b"/d/a", f"/{path}".encode()).replace(b"=k&", b"=%d&" % length))
            frozen.sendall(BYTES[:length])
            assert tree.ask("GET", path, "GETFILESTATUS").status_code == 404
            again = write(tree, path, query(str(length), 2), BYTES).replace(JOB.encode(), tree.job.encode())
            assert raw.ask(str(clients.served.http.base_url), again).status_code == 201
            assert tree.delete(path).json() == {"boolean": True}
            frozen.sendall(BYTES[length:])
            answer = raw.answer(frozen, "PUT")
        refused(answer, 403, "IOException")
        assert answer.headers["milepost-outcome"] == "unknown"
        assert tree.names("d") == []


HASTY_SECONDS = 0.3
"""Only while a commit is held."""


@pytest.mark.parametrize("what", ["short", "long", "rename"])
def test_a_commit_that_is_not_confirmed_in_time_is_of_unknown_outcome(
    clients: Clients, tree: Tree, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter, url = clients.served.rig.replica.submitter, str(clients.served.http.base_url)
    assert tree.create("d/.a", BYTES).status_code == 201
    request = write(tree, "d/a", query("k"), BYTES)
    if what == "rename":
        request = write(tree, "d/.a", f"op=RENAME&destination=/jobs/{tree.job}/d/a&renameoptions=NONE")
    request = b"\r\n" * (what == "long") + request.replace(f"jobs/{JOB}/".encode(), f"jobs/{tree.job}/".encode(), 1)
    with clients.served.held_commit(), ThreadPoolExecutor(1) as threads, monkeypatch.context() as hasty:
        hasty.setattr(data_node, "PUBLISH_SECONDS", HASTY_SECONDS)
        hasty.setattr(submitter, "request_seconds", HASTY_SECONDS)
        answer = threads.submit(raw.ask, url, request).result(DEADLINE_SECONDS)
        refused(answer, 403, "IOException")
        assert answer.headers["milepost-outcome"] == "unknown"
    assert raw.ask(url, request.replace(b"attempt=1", b"attempt=2")).status_code in (200, 201)
    assert tree.read("d/a").content == BYTES


@WAYS
def test_a_server_that_stops_says_that_the_outcome_is_unknown(tmp_path: Path, way: bytes) -> None:
    """The test makes the pointer store silent."""
    with ExitStack() as held:
        with in_process(tmp_path, replace(PROMPT, resign_seconds=0.5, inline_below=4096)) as here:
            tree = Tree(here.http, JOB, Api.on(here.http, JOB).granted())
            here.rig.pointers.disturb(before(lambda: asyncio.sleep(3600)))
            writing = held.enter_context(raw.connected(str(here.http.base_url)))
            writing.sendall(way + write(tree, "a", query("k"), BYTES))
            assert here.http.get("/livez").status_code == 200
        answer = raw.answer(writing, "PUT")
    refused(answer, 403, "IOException")
    assert answer.headers["milepost-outcome"] == "unknown"


def test_a_leader_that_loses_its_lease_does_not_know_whether_the_file_is_put(tmp_path: Path) -> None:
    """The short way leaves it to the client to ask the next leader, which is the same replica here. On the long way
    the data node asks it.
    """
    with in_process(tmp_path, replace(PROMPT, inline_below=4096)) as here:
        tree, url = Tree(here.http, JOB, Api.on(here.http, JOB).granted()), str(here.http.base_url)

        async def deposed(commit: RealCommit) -> Commit:
            here.rig.election.lose()
            return await lose_answer()(commit)

        here.rig.pointers.disturb(deposed)
        answer = raw.ask(url, write(tree, "a", query("k"), BYTES))
        refused(answer, 403, "IOException")
        assert answer.headers["milepost-outcome"] == "unknown"
        numbers = count(2)

        def again() -> bool:
            return raw.ask(url, write(tree, "a", query("k", next(numbers)), BYTES)).status_code == 201

        until(again, "the next leader answers")
        there = modified(tree, "a")
        here.rig.pointers.disturb(deposed)
        assert raw.ask(url, write(tree, "b", query("another", 2), BYTES)).status_code == 201
        assert raw.ask(url, write(tree, "a", query("k", 100), BYTES)).status_code == 201
        assert (tree.names(), modified(tree, "a")) == (["a", "b"], there)


def test_a_replica_that_does_not_lead_takes_no_bytes(replicas: Set, store: str) -> None:
    for replica in replicas.followers():
        with connect(replica.url) as http:
            tree = Tree(http, store, 1)
            for length, headers in ((5, {}), (10**9, {}), (10**9, {"Expect": "100-continue"})):
                told = {**tree.told(), "Content-Length": str(length), **headers}
                with raw.connected(replica.url) as connection:
                    connection.sendall(raw.head("PUT", f"/webhdfs/v1/jobs/{store}/a?{query('k')}", told))
                    answer = raw.answer(connection, "PUT")
                refused(answer, 403, "StandbyException")
                assert (answer.headers["connection"], "milepost-outcome" in answer.headers) == ("close", False)


def test_a_file_is_put_once_across_a_change_of_leader(replicas: Set, store: str) -> None:
    """The last test of the module: it ends the leader."""
    leader = replicas.leader()
    with connect(leader.url) as http:
        epoch = Api.on(http, store).granted()
        tree = Tree(http, store, epoch)
        first = {
            path: write(tree, f"{path}/0", query(path, overwrite=True), content).replace(JOB.encode(), store.encode())
            for path, content in (("small", BYTES), ("large", LARGE), ("q/commits", BYTES))
        }
        for request in first.values():
            assert raw.ask(leader.url, request).status_code == 201
        there = {path: modified(tree, f"{path}/0") for path in first}
        assert tree.delete("q/commits/0").json() == {"boolean": True}  # the snapshot keeps its record
    leader.kill()
    new = replicas.leader()
    with connect(new.url) as http:
        tree = Tree(http, store, epoch)
        for path, request in first.items():
            for attempt in (b"1", b"2", b"3"):
                again = raw.ask(new.url, request.replace(b"attempt=1", b"attempt=" + attempt))
                assert again.status_code == 201, (path, attempt, again.text)
            other = raw.ask(new.url, request.replace(b"true&key", b"false&key").replace(b"attempt=1", b"attempt=4"))
            assert "used for" in refused(other, 403, "IOException")
        assert {path: modified(tree, f"{path}/0") for path in ("small", "large")} == {
            path: there[path] for path in ("small", "large")
        }
        assert tree.names("q/commits") == []
        late = Tree(http, store, epoch).under(epoch + 1)
        fenced = write(late, "b", query("other", 2), BYTES).replace(JOB.encode(), store.encode())
        assert "epoch" in refused(raw.ask(new.url, fenced), 403, "AccessControlException")


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Set]:
    with ExitStack() as running:
        yield Set(tmp_path_factory.mktemp("replicas"), running)
