"""Two real replicas over one directory: the SDK finds the leader, and a counter survives the leader's death.

The counter is moved by compare-and-set alone, so that a write applied twice, or reported but lost, shows in its value.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import milepost
from milepost.core.checkpoint_location import NAME_SERVICE
from milepost.supervise import Supervisor, Terms
from tests.client.conftest import Service, eventually, serving
from tests.client.flavours import connected

DEADLINE_SECONDS = 60.0


@contextmanager
def pair(data: Path) -> Iterator[tuple[Service, Service]]:
    """A leader and a follower."""
    with serving(data) as leader, serving(data, ready="/livez") as follower:
        yield leader, follower


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    with pair(tmp_path_factory.mktemp("pair")) as both:
        yield both


def test_a_follower_sends_on_whatever_it_is_asked(
    replicas: tuple[Service, Service], flavour: str, name: str, tmp_path: Path
) -> None:
    _, follower = replicas
    state = bytes(range(256)) * 20_000
    path = tmp_path / "state"
    path.write_bytes(state)
    for kind in (b"small", state, path, iter([state[:99_999], state[99_999:]])):
        with (  # a client anew, so that it knows of no leader
            connected(flavour, follower.url, timeout=30.0) as client,
            client.session(holder="a") as session,
        ):
            store = session.store(name)
            handle = store.add_and_lock("latest", kind, labels={"kind": "one"})
            assert handle.labels == {"kind": "one"}
            assert len(store.read("latest", handle.version)) == handle.size
            assert [found.name for found in store.get_all_handles()] == ["latest"]
            assert store.release_and_try_remove("latest", handle.version).removed
    with connected(flavour, follower.url) as client:
        assert client.status().role == "follower"


def test_a_command_asks_the_leader_first(replicas: tuple[Service, Service], name: str, tmp_path: Path) -> None:
    leader, follower = replicas
    program = (
        "import os, sys; print(open(os.environ['JDK_JAVA_OPTIONS'].strip('\"@')).read(), file=open(sys.argv[1], 'w'))"
    )
    urls = [follower.url, leader.url]
    with milepost.Client(urls, timeout=30.0) as client:
        command = [sys.executable, "-c", program, str(tmp_path / "options")]
        assert Supervisor(client, name, command, Terms(restarts=0)).run() == 0
    first = f"dfs.namenode.http-address.{NAME_SERVICE}.r1={urlsplit(leader.url).netloc}"
    assert f'"-Dspark.hadoop.{first}"' in (tmp_path / "options").read_text().splitlines()


def count(store: Any, version: str, enough: threading.Event, done: list[int]) -> None:
    while not enough.is_set():
        version = store.replace("counter", version, b"%d" % (len(done) + 1)).version
        done.append(len(done) + 1)


def test_a_counter_survives_the_death_of_the_leader(tmp_path: Path, flavour: str, name: str) -> None:
    with (
        pair(tmp_path) as (leader, follower),
        connected(flavour, [follower.url, leader.url], timeout=60.0) as client,
        client.session(holder="a", ttl=60) as session,
    ):
        store = session.store(name)
        epoch = store.campaign(wait=5)
        handle = store.add_and_lock("counter", b"0")
        done: list[int] = []
        enough = threading.Event()
        counting = threading.Thread(target=count, args=(store, handle.version, enough, done), daemon=True)
        counting.start()
        eventually(lambda: len(done) >= 20)
        leader.process.kill()
        before = len(done)
        eventually(lambda: len(done) >= before + 20)
        enough.set()
        counting.join(DEADLINE_SECONDS)
        assert not counting.is_alive()
        found = store.get("counter")
        assert int(store.read("counter", found.version)) == len(done)
        assert (found.locks, found.epoch) == ((session.id,), epoch.epoch)
        eventually(lambda: client.status().leader == follower.url)  # on a busy machine its lease may lapse for a moment
        assert not session.lost
