"""TLS and digest ACLs, against a real ZooKeeper with certificates made here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import CREATOR_ALL_ACL

from milepost_backends.contract import Misconfigured, Refusal, StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.election.election import ZooKeeperElection
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from testbed.ports import Port
from testbed.zookeeper import ZooKeeperServer
from tests.contracts.journals import ROOT, put, refused, taken_over, writes

pytestmark = [pytest.mark.anyio, pytest.mark.later]


@dataclass(frozen=True)
class Secured:
    """A server that takes no client without a certificate; ``directory`` holds ca.pem, and key and cert of a client."""

    server: ZooKeeperServer
    port: Port
    directory: Path

    def url(self, host: str = "127.0.0.1", **options: str) -> str:
        files = {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key", **options}
        query = "&".join(f"{name}={self.directory / file}" for name, file in files.items() if file)
        return f"zookeeper+tls://{host}:{self.port.number}/secured?{query}"


def pkcs8(key: trustme.Blob) -> bytes:
    """The only form of a key that ZooKeeper reads."""
    return load_pem_private_key(key.bytes(), None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, other, port = trustme.CA(), trustme.CA(), Port()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    other.cert_pem.write_to_path(directory / "other-ca.pem")
    shown = authority.issue_cert("127.0.0.1")
    chain = b"".join(part.bytes() for part in shown.cert_chain_pems)
    (directory / "server.pem").write_bytes(pkcs8(shown.private_key_pem) + chain)
    client = authority.issue_cert("milepost.example")
    client.private_key_pem.write_to_path(directory / "client.key")
    client.cert_chain_pems[0].write_to_path(directory / "client.pem")
    settings = {
        "secureClientPort": str(port.number),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(directory / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(directory / "ca.pem"),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
    }
    server = ZooKeeperServer(directory / "zookeeper", tick_seconds=0.5, settings=settings)
    try:
        server.serve()
        yield Secured(server, port, directory)
    finally:
        server.kill()


async def test_everything_goes_through_tls(secured: Secured) -> None:
    address = ZooKeeperAddress.parse(secured.url())
    pointers, election = ZooKeeperPointers(address), ZooKeeperElection(address, "http://127.0.0.1:1")
    await pointers.open()
    await election.open()
    head, _ = await taken_over(pointers)
    await put(pointers, head, writes(**{f"k{number}": b"x" * 5000 for number in range(50)}))
    leadership = await election.campaign()
    assert len((await taken_over(pointers))[1]) == 50
    assert await election.leader() == "http://127.0.0.1:1"
    await leadership.resign()
    await election.close()
    await pointers.close()


async def test_answers_that_come_in_one_piece_do_not_wait_for_the_next(secured: Secured) -> None:
    """TLS decrypts several at once, and then the socket below is silent: kazoo alone would wait for its next ping."""
    pointers = ZooKeeperPointers(ZooKeeperAddress.parse(secured.url()))
    await pointers.open()
    await pointers.take_over(ROOT)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for _ in range(20):
        futures = [pointers._connection.submit(lambda client: client.get_children_async("/")) for _ in range(50)]
        await asyncio.gather(*futures)
    silent = 20 * pointers._connection.session_seconds / 3  # what one wait for a ping in each round would take
    assert loop.time() - begin < silent
    await pointers.close()


@pytest.mark.parametrize(
    "options", [{"ca_file": "other-ca.pem"}, {"cert_file": "", "key_file": ""}], ids=["not trusted", "no certificate"]
)
async def test_who_is_not_trusted_gets_no_connection(secured: Secured, options: dict[str, str]) -> None:
    pointers = ZooKeeperPointers(ZooKeeperAddress.parse(secured.url(**options)), timeout=1.0)
    with pytest.raises(StorageUnavailable, match="cannot reach"):
        await pointers.open()


async def test_the_name_of_the_host_is_checked_unless_told_otherwise(secured: Secured) -> None:
    other_name = secured.url("localhost")
    pointers = ZooKeeperPointers(ZooKeeperAddress.parse(other_name), timeout=1.0)
    with pytest.raises(StorageUnavailable, match="cannot reach"):
        await pointers.open()
    pointers = ZooKeeperPointers(ZooKeeperAddress.parse(other_name + "&verify=ca"))
    await pointers.open()
    await pointers.close()


@pytest.fixture
def owned(zookeeper_address: ZooKeeperAddress, visitor: KazooClient, tmp_path: Path) -> ZooKeeperAddress:
    """A place with credentials, below one that is open to all."""
    visitor.ensure_path(zookeeper_address.root.rpartition("/")[0])
    file = tmp_path / "credentials"
    file.write_text("milepost:hunter2\n")
    return ZooKeeperAddress(zookeeper_address.hosts, zookeeper_address.root, 10.0, credentials_file=file)


async def test_what_is_made_with_credentials_is_closed_to_others(
    owned: ZooKeeperAddress, visitor: KazooClient, tmp_path: Path
) -> None:
    pointers, election = ZooKeeperPointers(owned), ZooKeeperElection(owned, "http://127.0.0.1:1")
    await pointers.open()
    await election.open()
    head, _ = await taken_over(pointers)
    head = await put(pointers, head, writes(a=b"1"))
    leadership = await election.campaign()
    stranger = ZooKeeperAddress(owned.hosts, owned.root)
    wrong = tmp_path / "wrong"
    wrong.write_text("milepost:wrong\n")
    for address in (stranger, ZooKeeperAddress(owned.hosts, owned.root, credentials_file=wrong)):
        with pytest.raises(Misconfigured, match="does not permit"):
            await ZooKeeperPointers(address).open()
        with pytest.raises(Misconfigured, match="does not permit"):
            await ZooKeeperElection(address, "http://127.0.0.1:2").open()
    with pytest.raises(NoAuthError):
        visitor.get_children(f"{owned.root}/journals")
    visitor.add_auth("digest", "milepost:hunter2")
    acls = {acl for path in (owned.root, f"{owned.root}/journals/root/records") for acl in visitor.get_acls(path)[0]}
    assert {(acl.id.scheme, acl.perms) for acl in acls} == {("digest", 31)}
    await leadership.resign()
    await election.close()
    await put(pointers, head, writes(a=b"2"))
    await pointers.close()


async def test_a_record_that_may_not_be_written_is_denied(owned: ZooKeeperAddress, visitor: KazooClient) -> None:
    """Somebody took the right away while a leader was at work."""
    pointers = ZooKeeperPointers(ZooKeeperAddress(owned.hosts, owned.root))
    await pointers.open()
    head, _ = await taken_over(pointers)
    head = await put(pointers, head, writes(a=b"1"))
    visitor.add_auth("digest", "other:secret")
    visitor.set_acls(ZnodeLayout(owned.root, ROOT).record("a"), CREATOR_ALL_ACL)
    assert refused(await pointers.commit(head, writes(a=b"2"), head.revision + 1)) is Refusal.DENIED
    await pointers.close()
