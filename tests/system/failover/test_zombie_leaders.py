"""A leader that was paused past its lease and wakes: it answers nothing stale and writes nothing more."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from milepost import Client, StateHandleStore
from milepost.wire import API, Header
from testbed.replicas import Replicas
from testbed.server import ServerProcess

pytestmark = pytest.mark.long

DEADLINE_SECONDS = 60.0
STORE = "zombie"
HANDLES = f"{API}/stores/{STORE}/handles"


class Raw:
    """One connection to one replica; what is sent may wait there until the replica is awake to read it."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._socket = socket.create_connection(("127.0.0.1", server.port), DEADLINE_SECONDS)

    def send(self, method: str, path: str, session: str, body: bytes = b"", *, only: int | None = None) -> None:
        """One whole request; ``only`` so many bytes of its body."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._server.port}\r\nConnection: close\r\n"
            f"{Header.SESSION}: {session}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body[:only])

    def send_rest(self, rest: bytes) -> None:
        """The rest of a body."""
        self._socket.sendall(rest)

    def answer(self) -> tuple[int, bytes]:
        """Status and everything after it; 0 where the connection was cut."""
        answer = b""
        try:
            while chunk := self._socket.recv(65536):
                answer += chunk
        except ConnectionError:
            pass
        finally:
            self._socket.close()
        return (int(answer.split(b" ", 2)[1]), answer) if answer else (0, b"")


@pytest.fixture
def store(replicas: Replicas) -> Iterator[StateHandleStore]:
    """A store with a handle in it, through the SDK."""
    with (
        Client(replicas.urls, timeout=DEADLINE_SECONDS) as client,
        client.session("tester", ttl=600) as session,
    ):
        store = session.store(STORE)
        store.clear_entries()
        yield store


def another_leads(replicas: Replicas, zombie: ServerProcess) -> None:
    """Wait until a replica other than the paused one leads."""
    end = time.monotonic() + DEADLINE_SECONDS
    others = [replica for replica in replicas.replicas if replica is not zombie]
    while not any(replica.status_of("/leader") == 200 for replica in others):
        assert time.monotonic() < end, "nobody leads in place of the paused leader"
        time.sleep(0.02)


def _redirect(replica: ServerProcess) -> str | None:
    """Where a replica that does not lead sends callers; None while it does not know."""
    answer = httpx.get(f"{replica.url}{HANDLES}", trust_env=False, timeout=60.0)
    assert answer.status_code in (307, 503), answer
    location: str | None = answer.headers.get("location")
    return location


def test_reads_that_wait_for_a_woken_leader_are_not_stale(replicas: Replicas, store: StateHandleStore) -> None:
    version = store.add_and_lock("read", b"old").version
    zombie = replicas.leader()
    zombie.pause()
    waiting = []
    for method, path in (
        ("GET", f"{HANDLES}/read"),
        ("GET", f"{HANDLES}/read/state"),
        ("HEAD", f"{HANDLES}/read"),
        ("GET", HANDLES),
        ("GET", f"{HANDLES}/added-later"),
        ("GET", f"{API}/stores/{STORE}/epoch"),
        ("POST", f"{API}/sessions/{store.session_id}/keepalive"),
    ):
        connection = Raw(zombie)
        connection.send(method, path, str(store.session_id))
        waiting.append(connection)
    another_leads(replicas, zombie)
    store.replace("read", version, b"new")
    store.add_and_lock("added-later", b"x")
    zombie.resume()
    for connection in waiting:
        status, answer = connection.answer()
        assert status in (307, 503), answer
    zombie.wait_for("/leader", 503)


def test_a_woken_leader_lets_go_of_those_who_kept_their_connection(replicas: Replicas) -> None:
    """Hadoop's client, behind a forwarder that gives new connections to the leader, would ask this one for ever."""
    zombie = replicas.leader()
    place = "/webhdfs/v1/jobs?op=GETFILESTATUS"
    with httpx.Client(base_url=zombie.url, trust_env=False, timeout=DEADLINE_SECONDS) as java:
        assert java.get(place).status_code == 200
        zombie.pause()
        another_leads(replicas, zombie)
        zombie.resume()
        answer = java.get(place)
    assert (answer.status_code, answer.headers.get("connection")) == (403, "close")
    assert answer.json()["RemoteException"]["exception"] == "StandbyException"
    zombie.wait_for("/leader", 503)


def test_writes_that_wait_for_a_woken_leader_do_not_land(replicas: Replicas, store: StateHandleStore) -> None:
    version = store.add_and_lock("replaced", b"old").version
    store.add_and_lock("removed", b"kept")
    session = str(store.session_id)
    zombie = replicas.leader()
    begun = Raw(zombie)
    begun.send("POST", f"{HANDLES}/begun", session, b"0123456789", only=4)
    time.sleep(0.2)  # let it be in the middle of this body when it is paused
    zombie.pause()
    adds = []
    for number in range(20):
        connection = Raw(zombie)
        connection.send("POST", f"{HANDLES}/waits-{number}", session, b"state")
        adds.append(connection)
    removal = Raw(zombie)
    removal.send("DELETE", f"{HANDLES}/removed", session)
    another_leads(replicas, zombie)
    newer = store.replace("replaced", version, b"new").version
    zombie.resume()
    begun.send_rest(b"456789")
    for connection in (begun, removal, *adds):
        status, answer = connection.answer()
        assert status in (0, 307, 503), answer
    zombie.wait_for("/leader", 503)
    names = {handle.name for handle in store.get_all_handles()}
    assert names == {"replaced", "removed"}
    assert store.exists("replaced") == newer
    assert store.read("removed") == b"kept"


def test_writes_on_their_way_when_a_leader_is_paused_end_as_what_they_became(
    replicas: Replicas, store: StateHandleStore
) -> None:
    """Hundreds of adds go to the leader while it is paused, and woken after another one leads."""
    session = str(store.session_id)
    zombie = replicas.leader()
    connections: dict[str, Raw] = {}
    for number in range(300):
        connections[f"way-{number}"] = Raw(zombie)
    for name, connection in connections.items():
        connection.send("POST", f"{HANDLES}/{name}", session, name.encode())
    zombie.pause()
    another_leads(replicas, zombie)
    marker = store.add_and_lock("marker", b"by the successor")
    zombie.resume()
    ended = {name: connection.answer() for name, connection in connections.items()}
    there = {handle.name: handle for handle in store.get_all_handles()}
    assert there.pop("marker").version == marker.version
    for name, (status, answer) in ended.items():
        if status == 201:
            assert there[name].version in answer.decode(), "acknowledged, and not there as acknowledged"
        elif status in (307, 503) and b'"outcome":"unknown"' not in answer.replace(b" ", b""):
            assert name not in there, f"said to be not applied, and there: {answer!r}"
        else:
            assert status in (0, 503), answer
    for name in there:
        assert store.read(name) == name.encode()


def test_the_woken_leader_follows_and_can_lead_again(replicas: Replicas, store: StateHandleStore) -> None:
    zombie = replicas.leader()
    zombie.pause()
    another_leads(replicas, zombie)
    zombie.resume()
    zombie.wait_for("/leader", 503)
    end = time.monotonic() + DEADLINE_SECONDS
    while _redirect(zombie) != f"{replicas.leader().url}{HANDLES}":
        assert time.monotonic() < end, f"the woken replica sends callers to {_redirect(zombie)}"
        time.sleep(0.05)
    for replica in replicas.replicas:
        if replica is not zombie:
            replica.stop()
    zombie.wait_for("/leader")
    store.add_and_lock("led-again", b"x")
    assert store.read("led-again") == b"x"
