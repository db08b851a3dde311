"""Many reads in one request, answered by a real ZooKeeper."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.pointers.load import Answer, Children, MultiRead, ZnodeContent

pytestmark = pytest.mark.anyio


async def ask(address: ZooKeeperAddress, request: MultiRead) -> list[Answer]:
    connection = ZooKeeperConnection(address, "test")
    await connection.open()
    try:
        answers: list[Answer] = await connection.ask("read", lambda client: client.send(request))
    finally:
        await connection.close()
    return answers


async def test_values_are_read_and_one_that_is_missing_does_not_fail_the_others(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    root = zookeeper_address.root
    visitor.create(f"{root}/a", b"\0\xff" * 1000, makepath=True)
    visitor.create(f"{root}/b", b"")
    visitor.create(f"{root}/c", None)
    found = await ask(zookeeper_address, MultiRead.values([f"{root}/{name}" for name in ("a", "absent", "b", "c")]))
    assert isinstance(found.pop(1), NoNodeError)
    assert found == [ZnodeContent(b"\0\xff" * 1000), ZnodeContent(b""), ZnodeContent(b"")]


async def test_the_number_of_children_is_given_with_the_value(
    zookeeper_address: ZooKeeperAddress, visitor: KazooClient
) -> None:
    root = zookeeper_address.root
    for name in ("x", "y"):
        visitor.create(f"{root}/a/{name}", makepath=True)
    visitor.set(f"{root}/a", b"value")
    assert await ask(zookeeper_address, MultiRead.values([f"{root}/a", f"{root}/a/x"])) == [
        ZnodeContent(b"value", 2),
        ZnodeContent(b"", 0),
    ]


async def test_children_are_read(zookeeper_address: ZooKeeperAddress, visitor: KazooClient) -> None:
    root = zookeeper_address.root
    for name in ("x", "žlutý"):
        visitor.create(f"{root}/a/{name}", makepath=True)
    parents, none, missing = await ask(zookeeper_address, MultiRead.children([f"{root}/a", f"{root}/a/x", f"{root}/z"]))
    assert isinstance(parents, Children)
    assert sorted(parents.names) == ["x", "žlutý"]
    assert none == Children([])
    assert isinstance(missing, NoNodeError)


def test_an_answer_that_does_not_fit_its_request_is_refused() -> None:
    ended = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"
    assert MultiRead.values([]).deserialize(ended, 0) == []
    with pytest.raises(ValueError, match="0 answers to 1 reads"):
        MultiRead.values(["/a"]).deserialize(ended, 0)
    with pytest.raises(ValueError, match="kind 5"):
        MultiRead.values(["/a"]).deserialize(b"\0\0\0\x05\0\0\0\0\0" + ended, 0)
