"""The API server, etcd or the way to them goes away under running replicas, and comes back: nobody is restarted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from milepost import Client, StateHandleStore
from milepost.wire import API, PROBLEM_TYPE_PREFIX, Code, Header, Outcome
from testbed.kubernetes.deployment import KubernetesDeployment
from testbed.server import ServerProcess
from testbed.writers import Writers
from tests.support.network.link import Link, link

pytestmark = pytest.mark.kubernetes

DEADLINE_SECONDS = 90.0
AWAY_SECONDS = 20.0
NOT_NOW = {Code.STORAGE_UNAVAILABLE, Code.NO_LEADER, Code.OUTCOME_UNKNOWN}

Act = Callable[[KubernetesDeployment], None]


@pytest.fixture
def store(on_kubernetes: KubernetesDeployment) -> Iterator[StateHandleStore]:
    """A store of the test's own, through the SDK."""
    with (
        Client(on_kubernetes.urls, timeout=DEADLINE_SECONDS) as client,
        client.session("tester", ttl=600) as session,
    ):
        yield session.store(f"outages-{uuid.uuid4().hex}")


def handle_at(server: ServerProcess, store: StateHandleStore, name: str) -> str:
    """The URL of a handle at one replica."""
    return f"{server.url}{API}/stores/{store.name}/handles/{name}"


def tried(server: ServerProcess, store: StateHandleStore, name: str, epoch: int) -> httpx.Response:
    """Try one add, straight at one replica."""
    acting = {Header.SESSION: str(store.session_id), Header.EPOCH: str(epoch)}
    url = handle_at(server, store, name)
    return httpx.post(url, headers=acting, content=b"state", trust_env=False, timeout=60)


def nobody_leads(on_kubernetes: KubernetesDeployment) -> None:
    """Wait until no replica answers as a leader."""
    end = time.monotonic() + DEADLINE_SECONDS
    while any(replica.status_of("/leader") == 200 for replica in on_kubernetes.replicas):
        assert time.monotonic() < end, "a replica still leads without the API"
        time.sleep(0.05)


def kill_api(on_kubernetes: KubernetesDeployment) -> None:
    on_kubernetes.api.server.kill()


def kill_etcd(on_kubernetes: KubernetesDeployment) -> None:
    on_kubernetes.api.etcd.kill()


def pause_etcd(on_kubernetes: KubernetesDeployment) -> None:
    on_kubernetes.api.etcd.pause()


@pytest.mark.parametrize("away", [kill_api, kill_etcd, pause_etcd], ids=["API killed", "etcd killed", "etcd paused"])
def test_the_api_goes_away_and_comes_back(
    on_kubernetes: KubernetesDeployment, store: StateHandleStore, away: Act
) -> None:
    version = store.add_and_lock("before", b"before").version
    epoch = store.campaign().epoch
    processes = [replica.pid for replica in on_kubernetes.replicas]
    leader = on_kubernetes.leader()
    began = time.monotonic()
    away(on_kubernetes)
    with ThreadPoolExecutor(1) as pool:
        at_once = pool.submit(tried, leader, store, "at-once", epoch)
        nobody_leads(on_kubernetes)
        answer = at_once.result(DEADLINE_SECONDS).json()
    assert answer["type"].removeprefix(PROBLEM_TYPE_PREFIX) in NOT_NOW
    refused = tried(leader, store, "too-late", epoch)
    assert refused.status_code == 503
    assert refused.json()["type"] == PROBLEM_TYPE_PREFIX + Code.NO_LEADER
    assert httpx.get(handle_at(leader, store, "before"), trust_env=False, timeout=60.0).status_code == 503
    assert {replica.status_of("/livez") for replica in on_kubernetes.replicas} == {200}
    time.sleep(max(0.0, began + AWAY_SECONDS - time.monotonic()))
    for process in (on_kubernetes.api.etcd, on_kubernetes.api.server):
        if process.running:
            process.resume()
    on_kubernetes.api.start()
    on_kubernetes.leader()
    assert store.exists("before") == version
    assert store.current_epoch().epoch == epoch
    assert store.exists("too-late") is None
    if answer["outcome"] == Outcome.NOT_APPLIED:
        assert store.exists("at-once") is None
    store.replace("before", version, b"after")
    assert store.read("before") == b"after"
    assert [replica.pid for replica in on_kubernetes.replicas] == processes


def test_a_replica_starts_while_the_api_is_away(on_kubernetes: KubernetesDeployment, store: StateHandleStore) -> None:
    store.add_and_lock("kept", b"kept")
    late = next(replica for replica in on_kubernetes.replicas if replica is not on_kubernetes.leader())
    late.stop()
    on_kubernetes.api.server.kill()
    late.start(until="/livez")
    assert late.status_of("/readyz") == 503
    pid = late.pid
    on_kubernetes.api.start()
    late.wait_for("/readyz", deadline=DEADLINE_SECONDS)
    assert late.pid == pid
    assert store.read("kept") == b"kept"


class Way:
    """The way of one replica to the API server, which a test holds up."""

    def __init__(self, made: Link, portal: BlockingPortal) -> None:
        self.url = f"https://{made.address}"
        self._link = made
        self._portal = portal

    def hold(self) -> None:
        """Let nothing pass."""
        self._portal.call(self._link.hold)

    def restore(self) -> None:
        """Let everything pass, also what was held up."""
        self._portal.call(self._link.restore)


@contextmanager
def way_to(port: int) -> Iterator[Way]:
    """Make a link that is served by a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(link(port)) as made:
        yield Way(made, portal)


@pytest.fixture
def cut_off(on_kubernetes: KubernetesDeployment) -> Iterator[Way]:
    """The way to the API of the replica that leads, which all others have for themselves."""
    first, *others = on_kubernetes.replicas
    usual = first.pointers
    with way_to(on_kubernetes.api.port) as way:
        first.stop()
        first.pointers = on_kubernetes.pointers_by(name="by-a-way-of-its-own", server=way.url)
        for replica in others:
            replica.stop()
        first.start()
        for replica in others:
            replica.start(until="/readyz")
        yield way
        way.restore()
        first.stop()
        first.pointers = usual
        first.start(until="/readyz")


def test_a_leader_that_is_cut_off_steps_down_and_writes_nothing_more(
    on_kubernetes: KubernetesDeployment, cut_off: Way, store: StateHandleStore
) -> None:
    leader = on_kubernetes.leader()
    assert leader is on_kubernetes.replicas[0]
    version = store.add_and_lock("pointer", b"old").version
    with Writers(on_kubernetes.urls, f"{store.name}-writes") as writers:
        writers.wait_for_write_after(time.monotonic(), DEADLINE_SECONDS)
        cut_off.hold()
        leader.wait_for("/leader", 503)
        assert httpx.get(handle_at(leader, store, "pointer"), trust_env=False, timeout=60.0).status_code in (307, 503)
        writers.wait_for_write_after(time.monotonic(), DEADLINE_SECONDS)
        newer = store.replace("pointer", version, b"new").version
        cut_off.restore()
        leader.wait_for("/readyz", deadline=DEADLINE_SECONDS)
        writers.wait_for_write_after(time.monotonic(), DEADLINE_SECONDS)
    assert writers.errors() == []
    assert writers.lost() == []
    assert store.exists("pointer") == newer
    assert store.read("pointer") == b"new"
