"""ZooKeeper or S3 goes away under three running replicas, and comes back: nobody is restarted, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from milepost import Client, StateHandleStore
from milepost.wire import API, PROBLEM_TYPE_PREFIX, Code, Header, Outcome
from testbed.replicated import ReplicatedTestbed
from testbed.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.long

DEADLINE_SECONDS = 60.0
STORE = "outages"
HANDLES = f"{API}/stores/{STORE}/handles"
NOT_NOW = {Code.STORAGE_UNAVAILABLE, Code.NO_LEADER, Code.OUTCOME_UNKNOWN}


@pytest.fixture
def store(deployment: ReplicatedTestbed) -> Iterator[StateHandleStore]:
    """An empty store, through the SDK."""
    with (
        Client(deployment.urls, timeout=DEADLINE_SECONDS) as client,
        client.session("tester", ttl=600) as session,
    ):
        store = session.store(STORE)
        store.clear_entries()
        yield store


def tried(url: str, store: StateHandleStore, name: str) -> httpx.Response:
    """One add, straight to one replica."""
    acting = {Header.SESSION: str(store.session_id)}
    return httpx.post(f"{url}{HANDLES}/{name}", headers=acting, content=b"state", trust_env=False, timeout=60)


def without_leases(deployment: ReplicatedTestbed) -> None:
    """Wait until no replica answers as a leader."""
    end = time.monotonic() + DEADLINE_SECONDS
    while any(replica.status_of("/leader") == 200 for replica in deployment.replicas):
        assert time.monotonic() < end, "a replica still leads without ZooKeeper"
        time.sleep(0.05)


def members_away(deployment: ReplicatedTestbed, count: int) -> list[ZooKeeperServer]:
    """Kill so many ZooKeepers, the leader first."""
    leader = deployment.zookeepers.leader()
    members = sorted(deployment.zookeepers.members, key=lambda member: member is not leader)
    for member in members[:count]:
        member.kill()
    return members[:count]


@pytest.mark.parametrize("count", [2, 3], ids=["no quorum", "all gone"])
def test_zookeeper_goes_away_and_comes_back(deployment: ReplicatedTestbed, store: StateHandleStore, count: int) -> None:
    version = store.add_and_lock("before", b"before").version
    processes = [replica.pid for replica in deployment.replicas]
    leader = deployment.leader()
    members_away(deployment, count)
    with ThreadPoolExecutor(1) as pool:
        at_once = pool.submit(tried, leader.url, store, "at-once")
        without_leases(deployment)
        answer = at_once.result(DEADLINE_SECONDS).json()
    assert answer["type"].removeprefix(PROBLEM_TYPE_PREFIX) in NOT_NOW
    refused = tried(leader.url, store, "too-late")
    assert refused.status_code == 503
    assert refused.json()["type"] == PROBLEM_TYPE_PREFIX + Code.NO_LEADER
    assert Header.RETRY_AFTER in refused.headers
    assert httpx.get(f"{leader.url}{HANDLES}/before", trust_env=False, timeout=60.0).status_code == 503
    assert {replica.status_of("/livez") for replica in deployment.replicas} == {200}
    assert {replica.status_of("/readyz") for replica in deployment.replicas} == {503}
    deployment.zookeepers.serve()
    deployment.leader()
    assert store.exists("before") == version
    assert store.exists("too-late") is None
    if answer["outcome"] == Outcome.NOT_APPLIED:
        assert store.exists("at-once") is None
    store.replace("before", version, b"after")
    assert store.read("before") == b"after"
    assert [replica.pid for replica in deployment.replicas] == processes


def test_a_replica_starts_while_zookeeper_is_away(deployment: ReplicatedTestbed, store: StateHandleStore) -> None:
    store.add_and_lock("kept", b"kept")
    late = next(replica for replica in deployment.replicas if replica is not deployment.leader())
    late.stop()
    members_away(deployment, 3)
    late.start(until="/livez")
    assert late.status_of("/readyz") == 503
    assert tried(late.url, store, "too-early").json()["type"] == PROBLEM_TYPE_PREFIX + Code.NO_LEADER
    pid = late.pid
    deployment.zookeepers.serve()
    late.wait_for("/readyz")
    assert late.pid == pid
    assert store.read("kept") == b"kept"


def test_s3_goes_away_and_comes_back(deployment: ReplicatedTestbed, store: StateHandleStore) -> None:
    """States that are kept in their records do not need it."""
    before, after = b"before" * 1000, b"after" * 1000
    version = store.add_and_lock("before", before).version
    epoch = store.campaign().epoch
    leader = deployment.leader()
    deployment.s3.stop()
    acting = {Header.SESSION: str(store.session_id), Header.EPOCH: str(epoch)}
    refused = httpx.post(
        f"{leader.url}{HANDLES}/meanwhile", headers=acting, content=before, trust_env=False, timeout=60
    )
    problem = refused.json()
    assert (refused.status_code, problem["type"]) == (503, PROBLEM_TYPE_PREFIX + Code.STORAGE_UNAVAILABLE)
    assert (problem["outcome"], problem["retryable"]) == (Outcome.NOT_APPLIED, True)
    assert store.exists("before") == version
    small = store.add_and_lock("small", b"small").version
    assert store.read("small") == b"small"
    store.release_and_try_remove("small", small)
    assert store.get_and_lock("before").locks == (store.session_id,)
    assert store.current_epoch().epoch == epoch
    assert deployment.leader() is leader
    deployment.s3.start()
    assert store.read("before") == before
    assert store.exists("meanwhile") is None
    store.replace("before", version, after)
    assert store.read("before") == after
    store.resign()
