"""The servers that the pages start, as their lines say: replicas.md, tls.md, damage.md, backup.md, hdfs.md
and server.md.

Addresses, files and buckets of ours stand in for those on the page. Where a page tells of several replicas, two are
started by the same line, and the one that does not lead is asked. An embedded server has no follower.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import hdfs_native
import pytest

import milepost
from testbed.ports import Port
from testbed.process import Process
from testbed.server import ServerProcess
from tests.contracts.places import Services
from tests.docs import pasted
from tests.docs.blocks import ROOT, Block, blocks_of
from tests.docs.checkout import leads
from tests.support.servers import hdfs, s3, zookeeper
from tests.support.servers.certificates import Certificates

pytestmark = pytest.mark.later

TOKEN = "0123456789abcdef0123456789abcdef"


def block_of(page: str, word: str) -> Block:
    """The one block of a page with a word in it that this file tests."""
    own = Path(__file__).relative_to(ROOT).as_posix()
    (block,) = (each for each in blocks_of(ROOT / page) if each.marks.get("tested by") == own and word in each.text)
    return block


@contextmanager
def serving(line: str, replaced: Mapping[str, str], directory: Path, **variables: str) -> Iterator[Process]:
    """A process of what the page pastes, which is not started yet."""
    for old, new in replaced.items():
        assert old in line, (old, line)
        line = line.replace(old, new)
    others = {name: value for name, value in os.environ.items() if not name.startswith("MILEPOST_")}
    with Process(
        line,
        ["bash", "-euo", "pipefail", "-c", f"exec {line}"],
        log_path=directory / "server.log",
        directory=directory,
        environment={**others, **pasted.variables(directory), **variables},
    ) as process:
        yield process


@pytest.fixture
def shared_places(services: Services, tmp_path: Path) -> dict[str, str]:
    """What stands for the pointers and blobs on the pages, and for the file of tokens."""
    (tmp_path / "tokens").write_text(f"driver {TOKEN}\n")
    pointers, blobs = zookeeper.fresh_url(tmp_path, services), s3.fresh_url(tmp_path, services)
    return {
        "zookeeper://zk1:2181,zk2:2181,zk3:2181/milepost": pointers,
        "s3://my-bucket/milepost": blobs,
        "/etc/milepost/tokens": str(tmp_path / "tokens"),
    }


def test_a_replica_of_several(shared_places: dict[str, str], tmp_path: Path) -> None:
    line = block_of("docs/replicas.md", "milepost-server").text
    with ExitStack() as ends:
        urls: list[str] = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            port = Port()
            own = {**shared_places, "10.0.0.11:7070": port.address}
            process = ends.enter_context(serving(line, own, tmp_path / name))
            process.start(leads(port) if not urls else lambda port=port: port.answers())  # type: ignore[misc]
            urls.append(f"http://{port.address}")
        saved_through(urls[1], urls[0])


def test_a_replica_of_several_by_tls(shared_places: dict[str, str], tmp_path: Path) -> None:
    line = block_of("docs/tls.md", "milepost-server").text
    certificates = Certificates(tmp_path)
    trusted = certificates.trusting()
    with ExitStack() as ends:
        urls: list[str] = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            port = Port()
            own = {
                **shared_places,
                "10.0.0.11:7070": port.address,
                "https://milepost-1.example:7070": f"https://{port.address}",
                "/etc/milepost/": f"{tmp_path}/",
            }
            del own["/etc/milepost/tokens"]  # it lies there as well
            process = ends.enter_context(serving(line, own, tmp_path / name))
            process.start(leads(port, trusted) if not urls else lambda port=port: port.answers())  # type: ignore[misc]
            urls.append(f"https://{port.address}")
        saved_through(urls[1], urls[0], verify=str(certificates.ca))


def saved_through(follower: str, leader: str, verify: str | bool = True) -> None:
    """Save a state through a replica that does not lead, and read it from the one that does."""
    with milepost.Client(follower, token=TOKEN, verify=verify) as client, client.session() as session:
        session.store("page").add_and_lock("latest", b"batch 7")
        leads_at = client.status().leader
        assert leads_at is not None
        assert urlsplit(leads_at).netloc == urlsplit(leader).netloc
    with milepost.Client(leader, token=TOKEN, verify=verify) as client:
        assert client.store("page").read("latest") == b"batch 7"


def test_a_loss_that_the_log_names_is_accepted(tmp_path: Path) -> None:
    line = block_of("docs/damage.md", "--accept-loss").text
    places = {"MILEPOST_POINTERS": f"embedded:{tmp_path}/pointers", "MILEPOST_BLOBS": f"file:{tmp_path}/blobs"}
    with ServerProcess(tmp_path, pointers=places["MILEPOST_POINTERS"], blobs=places["MILEPOST_BLOBS"]) as server:
        server.start()
        with milepost.Client(server.url) as client, client.session() as session:
            session.store("kept").add_and_lock("latest", b"batch 7")
            session.store("lost").add_and_lock("latest", b"batch 8")
        server.stop()
        with closing(sqlite3.connect(tmp_path / "pointers" / "pointers.db")) as database, database:
            database.execute("DELETE FROM record WHERE key LIKE '%lost%'")
        server.start(until="/livez")
        server.wait_for_log("--accept-loss ")
        assert server.status_of("/leader") == 503
        (loss,) = set(re.findall(r"--accept-loss ([0-9a-f]{8})", server.logged()))
        server.stop()
    port = Port()
    with serving(line, {"3f9a01c2": loss}, tmp_path, **places, MILEPOST_LISTEN=port.address) as process:
        process.start(leads(port))
        with milepost.Client(f"http://{port.address}") as client, client.session() as session:
            assert client.store("kept").read("latest") == b"batch 7"
            assert session.store("kept").campaign().epoch > int(re.findall(r"--epochs-above (\d+)", line)[0])


def test_a_restore_into_a_service_that_grants_higher_epochs(tmp_path: Path) -> None:
    """The backup is the one that the page's first block makes."""
    (making, _) = (block for block in blocks_of(ROOT / "docs" / "backup.md") if block.language == "sh")
    serve, restore = block_of("docs/backup.md", "--epochs-above").text.splitlines()
    with ServerProcess(tmp_path / "old") as server:
        made = pasted.run(pasted.at(making.text, server.start().url), tmp_path, MILEPOST_URL=server.url)
        assert made.returncode == 0, made.stderr
    shutil.move(tmp_path / "backup-page.tar", tmp_path / "backup.tar")
    (tmp_path / "new").mkdir()
    port = Port()
    with serving(serve, {}, tmp_path / "new", MILEPOST_LISTEN=port.address) as process:
        process.start(leads(port))
        url = f"http://{port.address}"
        restored = pasted.run(restore, tmp_path, MILEPOST_URL=url)
        assert restored.returncode == 0, restored.stderr
        with milepost.Client(url) as client, client.session() as session:
            assert client.store("backup-page").read("latest").strip() == b"batch 7"
            assert session.store("backup-page").campaign().epoch > 4711


@pytest.mark.kubernetes
def test_states_on_hdfs(services: Services, tmp_path: Path) -> None:
    """By a name service of one NameNode; tests/backends/hdfs has one of two, which take over from each other."""
    server = hdfs.shared(services)
    (tmp_path / "conf").mkdir()
    settings = {
        "fs.defaultFS": "hdfs://my-cluster",
        "dfs.nameservices": "my-cluster",
        "dfs.ha.namenodes.my-cluster": "nn1",
        "dfs.namenode.rpc-address.my-cluster.nn1": server.namenode.port.address,
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (tmp_path / "conf" / name).write_text(f"<configuration>{properties}</configuration>")
    path = hdfs.fresh_path()
    line = block_of("docs/hdfs.md", "hdfs://").text
    port = Port()
    with (
        serving(
            line,
            {"/user/milepost/states": f"/{path}"},
            tmp_path,
            HADOOP_CONF_DIR=str(tmp_path / "conf"),
            MILEPOST_LISTEN=port.address,
            MILEPOST_INLINE_BELOW="0",
        ) as process,
    ):
        process.start(leads(port))
        with milepost.Client(f"http://{port.address}") as client, client.session() as session:
            session.store("page").add_and_lock("latest", b"batch 7")
            assert client.store("page").read("latest") == b"batch 7"
    place = hdfs.HdfsPlace(server, path, hdfs_native.Client(server.url("")))
    assert any("/page/" in f"/{name}/" for name in place.names())


def test_a_check_of_the_stores_ends_as_the_page_says(tmp_path: Path) -> None:
    block = block_of("docs/server.md", "--check")
    ran = pasted.run(block.text, tmp_path, "bash")
    assert ran.returncode == 0, ran.stderr
    assert [line.split(": ")[:2] for line in ran.stdout.splitlines()] == [
        ["pointers", "ok"],
        ["election", "ok"],
        ["blobs", "ok"],
    ]
