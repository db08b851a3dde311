"""What the docstrings promise to threads and to forked processes, against the real service."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import milepost
from milepost.aio import AsyncClient
from tests.client.conftest import Service

THREADS = 16
ROUNDS = 10
STATE = os.urandom(200_000)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
from_threads = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
"""Python 3.12 warns of forks beside threads: that is what is tried here, since PySpark's daemon does it."""


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """Let threads begin together, and return what each returned."""
    together = threading.Barrier(THREADS)

    def begun(number: int) -> Any:
        together.wait(60.0)
        return work(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(begun, range(THREADS), timeout=240.0))


def test_threads_share_a_client_a_session_and_a_store(service: Service, name: str) -> None:
    """Each counts in a handle of its own, and all of them in one, by compare-and-set."""
    with milepost.Client(service.url, timeout=120.0) as client, client.session(holder="a", ttl=120) as session:
        store = session.store(name)
        store.campaign()
        store.add_and_lock("shared", b"0")

        def count(number: int) -> int:
            own = store.add_and_lock(f"own-{number}", b"0")
            for done in range(ROUNDS):
                own = store.replace(f"own-{number}", own.version, str(done + 1).encode())
                while True:
                    seen = store.get("shared")
                    try:
                        more = int(store.read("shared", seen.version)) + 1
                        store.replace("shared", seen.version, str(more).encode())
                        break
                    except milepost.VersionMismatch:
                        continue
            return int(store.read(f"own-{number}"))

        assert at_once(count) == [ROUNDS] * THREADS
        assert int(store.read("shared")) == THREADS * ROUNDS
        assert not session.lost


def test_threads_read_and_write_large_states_side_by_side(service: Service, name: str) -> None:
    with milepost.Client(service.url, timeout=120.0) as client, client.session(holder="a", ttl=120) as session:
        store = session.store(name)

        def go_round(number: int) -> bool:
            state = bytes([number]) + STATE
            store.add_and_lock(f"h-{number}", state)
            return all(store.read(f"h-{number}") == state for _ in range(3))

        assert all(at_once(go_round))


def test_closing_a_client_ends_the_calls_of_its_threads(service: Service, name: str) -> None:
    client = milepost.Client(service.url, timeout=120.0)
    waiting = client.session(holder="b", ttl=120).store(name)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            waiting.campaign(wait=120.0)
        except milepost.MilepostError as error:
            ended.append(error)

    with milepost.Client(service.url) as other, other.session(holder="a", ttl=120) as leader:
        leader.store(name).campaign()
        thread = threading.Thread(target=wait)
        thread.start()
        client.close()
        thread.join(60.0)
    assert not thread.is_alive()
    assert isinstance(ended[0], (milepost.Closed, milepost.SessionLost))
    with pytest.raises(milepost.Closed):
        client.status()


@forks
@from_threads
def test_children_go_on_with_a_client_that_threads_use(service: Service, name: str) -> None:
    """As PySpark's workers do: forked at any moment, while the locks of the parent's connections are held."""
    with milepost.Client(service.url, timeout=60.0) as client, client.session(holder="a", ttl=120) as session:
        session.store(name).add_and_lock("latest", STATE)
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                assert client.store(name).read("latest") == STATE

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            codes = [os.waitstatus_to_exitcode(os.waitpid(_child(client, name), 0)[1]) for _ in range(10)]
        finally:
            over.set()
            for thread in threads:
                thread.join(60.0)
        assert codes == [0] * 10
        assert client.store(name).read("latest") == STATE  # the children closed nothing of the parent's
        assert session.store(name).exists("latest") is not None


def _child(client: milepost.Client, name: str) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if client.store(name).read("latest") == STATE else 2
            client.close()
        finally:
            os._exit(code)
    return child


@forks
@from_threads
def test_an_asynchronous_client_stays_with_its_process(service: Service) -> None:
    client = AsyncClient(service.url, timeout=20.0)

    async def look() -> str:
        return (await client.status()).role

    async def refused() -> bool:
        try:
            await client.status()
        except milepost.Closed:
            return True
        return False

    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if asyncio.run(refused()) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(_then_closed(client, look)) == "leader"


async def _then_closed(client: AsyncClient, look: Callable[[], Any]) -> Any:
    try:
        return await look()
    finally:
        await client.close()


@pytest.mark.parametrize("kind", ["client", "session", "store", "files"])
def test_what_lives_here_is_not_pickled(blocking: milepost.Client, name: str, kind: str) -> None:
    """Spark pickles what a function for its executors mentions, and says what the exception says."""
    with blocking.session(holder="a") as session:
        store = session.store(name)
        things: dict[str, object] = {"client": blocking, "session": session, "store": store, "files": store.files}
        with pytest.raises(TypeError, match="make a client there"):
            pickle.dumps(things[kind])
    with pytest.raises(TypeError, match="make a client there"):
        pickle.dumps(AsyncClient("http://127.0.0.1:1"))
