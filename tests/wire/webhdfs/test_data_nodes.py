"""Replicas that do not lead take and give the bytes of files; the leader sends clients to them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from testbed.server import DEADLINE_SECONDS, ServerProcess
from tests.wire.support.api import Api, connect, problem, until
from tests.wire.webhdfs.hadoop import Tree, refused
from tests.wire.webhdfs.replicas import Set

LARGE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Set]:
    """For tests that leave them as they are."""
    with ExitStack() as running:
        yield Set(tmp_path_factory.mktemp("replicas"), running)


@pytest.fixture
def http(replicas: Set) -> Iterator[httpx.Client]:
    """A client of the leader."""
    with connect(replicas.leader().url) as client:
        yield client


def led(http: httpx.Client, store: str) -> Tree:
    api = Api.on(http, store)
    return Tree(http, store, api.campaign().json()["epoch"])


@pytest.fixture
def tree(http: httpx.Client, store: str) -> Tree:
    return led(http, store)


def location(tree: Tree, path: str, method: str = "PUT", op: str = "CREATE", **query: str) -> str:
    given: Any = query
    answer = tree.ask(method, path, op, **given)
    assert answer.status_code == 307, answer.text
    return str(answer.headers["location"])


def sent_to(tree: Tree, data_nodes: set[str], path: str) -> dict[str, str]:
    """The addresses for a put at each of these data nodes, once the leader knows them all."""
    found: dict[str, str] = {}

    def all_found() -> bool:
        url = location(tree, path)
        found[url.partition("/webhdfs")[0]] = url
        return data_nodes <= found.keys()

    until(all_found, f"{data_nodes} are data nodes")
    return found


def urls(servers: list[ServerProcess]) -> set[str]:
    return {server.url for server in servers}


@pytest.mark.parametrize("content", [b"", b"v1", LARGE], ids=len)
def test_each_replica_takes_and_gives(replicas: Set, tree: Tree, content: bytes) -> None:
    data_nodes = urls(replicas.followers())
    for number, (data_node, url) in enumerate(sorted(sent_to(tree, data_nodes, "a/file").items())):
        assert tree.send(url, content).status_code == (201 if number == 0 else 403), data_node
    for number, (data_node, url) in enumerate(sent_to(tree, data_nodes, "a/other").items()):
        assert data_node not in data_nodes or number or tree.send(url, content).status_code == 201
    for _ in data_nodes:
        start = min(2, len(content))
        source = location(tree, "a/file", "GET", "OPEN", offset=str(start), length="5")
        assert source.partition("/webhdfs")[0] in (data_nodes if len(content) > 4096 else {replicas.leader().url})
        assert httpx.get(source, headers=tree.told(), trust_env=False, timeout=60.0).content == content[2:7]
    assert tree.read("a/file").content == content


def test_a_put_is_one_put_at_whichever_door_it_comes_again(replicas: Set, tree: Tree) -> None:
    data_nodes = urls(replicas.followers())
    url = sent_to(tree, data_nodes, "file")[min(data_nodes)]
    for data_node in (*data_nodes, replicas.leader().url, *data_nodes):
        assert tree.send(data_node + "/webhdfs" + url.partition("/webhdfs")[2], LARGE).status_code == 201
    refused(tree.create("file", b"v2"), 403, "FileAlreadyExistsException")


def test_who_says_that_a_door_does_not_answer_is_sent_to_another(replicas: Set, tree: Tree) -> None:
    data_nodes = urls(replicas.followers())
    sent_to(tree, data_nodes, "file")
    excluded = ""
    for left in (data_nodes, data_nodes, {replicas.leader().url}):
        url = location(tree, "file", excludedatanodes=excluded).partition("/webhdfs")[0]
        assert url in left
        excluded += f",{urlsplit(url).netloc}"


def test_a_permit_is_good_for_what_it_says_alone(replicas: Set, tree: Tree) -> None:
    data_node = min(urls(replicas.followers()))
    put = sent_to(tree, {data_node}, "file")[data_node]
    tree.create("there", LARGE)
    read = location(tree, "there", "GET", "OPEN")
    token = parse_qs(urlsplit(put).query)["token"][0]
    said = base64.urlsafe_b64decode(token + "==")
    forged = base64.urlsafe_b64encode(said.replace(b'"file"', b'"fire"')).decode().rstrip("=")
    assert forged != token
    for path, text in (("other", token), ("fire", forged), ("file", token[:-2]), ("file", ""), ("file", "x" * 300)):
        for at in (data_node, replicas.leader().url):
            url = f"{at}/webhdfs/v1/jobs/{tree.job}/{path}?{urlencode({'op': 'CREATE', 'token': text})}"
            assert "token" in refused(tree.send(url, b"x"), 403, "AccessControlException")
    assert "token" in refused(tree.send(read.replace("OPEN", "CREATE"), b"x"), 403, "AccessControlException")
    answer = httpx.get(put.replace("CREATE", "OPEN"), headers=tree.told(), trust_env=False, timeout=60.0)
    assert "token" in refused(answer, 403, "AccessControlException")
    for epoch in (None, 9):
        refused(replace(tree, epoch=epoch).send(put, b"x"), 403, "AccessControlException")
    assert tree.names() == ["there"]
    assert tree.send(put, b"x").status_code == 201


def test_the_epoch_is_checked_again_when_the_last_byte_has_come(replicas: Set, http: httpx.Client, store: str) -> None:
    api = Api.on(http, store)
    tree = Tree(http, store, api.campaign().json()["epoch"])
    addresses = sent_to(tree, urls(replicas.followers()), "file")
    api.resign()
    api.other().campaign()
    for url in addresses.values():
        assert "epoch" in refused(tree.send(url, LARGE), 403, "AccessControlException")
    assert not [path for path in (replicas.blobs).rglob("*") if path.is_file() and f"/{store}/" in str(path)]


def test_what_replicas_say_to_each_other_nobody_else_can_say(replicas: Set, http: httpx.Client) -> None:
    for path, body in (
        ("/datanodes/heartbeat", {"url": "http://127.0.0.1:9"}),
        ("/datanodes/publish", {"token": "x", "store": "s", "path": "p", "size": 1, "sha256": "0", "blob": "b"}),
    ):
        for proof in ({}, {b"Milepost-Proof": b"0" * 64}, {b"Milepost-Proof": b"\xe4"}):
            problem(http.post(path, json=body, headers=proof), 401, "unauthenticated")
        for replica in replicas.replicas:
            assert replica.status_of(path) == 405


def begun(tree: Tree, url: str) -> HTTPConnection:
    """A put of which half of the bytes were sent."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=DEADLINE_SECONDS)
    connection.putrequest("PUT", f"{parts.path}?{parts.query}")
    for name, value in {**tree.told(), "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    half(connection, LARGE[: len(LARGE) // 2])
    return connection


def half(connection: HTTPConnection, content: bytes) -> None:
    connection.send(b"%x\r\n%b\r\n" % (len(content), content))


def ended(connection: HTTPConnection) -> int:
    try:
        half(connection, LARGE[len(LARGE) // 2 :])
        connection.send(b"0\r\n\r\n")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Set]:
    """For tests that kill some."""
    with ExitStack() as running:
        yield Set(tmp_path / "replicas", running)


def test_bodies_outlive_the_leader_and_a_dead_door_takes_only_its_own_along(fragile: Set, store: str) -> None:
    old, data_nodes = fragile.leader(), fragile.followers()
    with connect(old.url) as client:
        tree = led(client, store)
        sent_to(tree, urls(data_nodes), "any")
        puts = {path: begun(tree, location(tree, path)) for path in ("first", "second")}
        old.kill()
    fragile.leader()
    for path, connection in puts.items():
        assert ended(connection) == 201, path
    with connect(fragile.leader().url) as client:
        tree = replace(tree, http=client)
        for path in puts:
            assert tree.read(path).content == LARGE
        (data_node,) = fragile.followers()
        url = sent_to(tree, {data_node.url}, "third")[data_node.url]
        connection = begun(tree, url)
        data_node.kill()
        with pytest.raises((OSError, HTTPException)):
            ended(connection)
        assert tree.names() == ["first", "second"]
        until(
            lambda: location(tree, "third").startswith(fragile.leader().url), "the dead data node is not used any more"
        )
        assert tree.create("third", LARGE).status_code == 201


def test_a_door_that_is_stopped_is_left_at_once(fragile: Set, store: str) -> None:
    with connect(fragile.leader().url) as client:
        tree = led(client, store)
        data_node, other = fragile.followers()
        sent_to(tree, {data_node.url, other.url}, "file")
        data_node.stop()
        for _ in range(4):
            assert location(tree, "file").startswith(other.url)
