"""Sessions that keep themselves alive, or turn out lost, over the real service."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import milepost
import milepost.aio
from milepost.drivers.environment import default_holder
from testbed.ports import Port
from tests.client.conftest import Service, eventually, serving
from tests.client.flavours import connected

DEADLINE_SECONDS = 30.0


def test_a_session_outlives_its_ttl_while_it_is_kept(service: Service) -> None:
    """Both flavours side by side, for it takes longer than a TTL that a busy machine cannot use up."""
    with ExitStack() as ends:
        clients = [ends.enter_context(connected(flavour, service.url)) for flavour in ("blocking", "asynchronous")]
        sessions = [ends.enter_context(client.session(holder="a", ttl=10)) for client in clients]
        assert [(session.ttl, session.holder) for session in sessions] == [(10.0, "a")] * 2
        end = time.monotonic() + 11.0
        while time.monotonic() < end:
            time.sleep(0.5)
            for session in sessions:
                assert not session.lost
                assert 0 < session.expires_in <= 10.0
        for client, session in zip(clients, sessions, strict=True):
            assert client.session_info(session.id).holder == "a"
            session.raise_if_lost()


def test_a_call_waits_for_no_long_poll_of_others(flavour: str, service: Service, name: str) -> None:
    """A client that had a hundred connections and no more would lose its sessions while it has as many campaigns."""
    files = Path(f"/proc/{service.process.pid}/fd")
    with ExitStack() as ends:
        holder = ends.enter_context(connected("blocking", service.url)).session()
        holder.store(name).campaign()
        before = len(list(files.iterdir()))
        threads = ends.enter_context(ThreadPoolExecutor(105))
        client = ends.enter_context(connected(flavour, service.url, timeout=10.0))
        session = ends.enter_context(client.session(ttl=60))
        polls = [threads.submit(session.store(name).campaign, 50.0) for _ in range(105)]
        eventually(lambda: len(list(files.iterdir())) >= before + 100)
        assert client.session_info(session.id).session == session.id
        assert not any(poll.done() for poll in polls)


def test_a_client_without_a_holder_is_named_by_user_host_and_process(client: Any) -> None:
    with client.session(ttl=45) as session:
        assert re.fullmatch(rf".+@.+:{os.getpid()}", session.holder)
        assert client.session_info(session.id).holder == session.holder


@pytest.mark.parametrize("failing", [KeyError("uid not found"), OSError("No username set in the environment")])
def test_a_user_without_a_name_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch, failing: Exception) -> None:
    def nobody() -> str:
        raise failing

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("platform.node", lambda: "host\n" + 300 * "x")
    holder = default_holder()
    assert len(holder) == 200
    assert holder.isprintable()
    monkeypatch.setattr("platform.node", lambda: "host")
    assert default_holder() == f"{os.getuid()}@host:{os.getpid()}"


def test_a_session_takes_no_longer_than_it_is_given(flavour: str) -> None:
    began = time.monotonic()
    with (
        connected(flavour, f"http://{Port().address}", timeout=300.0) as client,
        pytest.raises(milepost.MilepostError),
        client.session(timeout=1.0),
    ):
        pass
    assert time.monotonic() - began < 100.0


def test_closing_ends_it_at_the_service_with_its_locks(client: Any, name: str) -> None:
    with client.session(holder="a") as session:
        session.store(name).add_and_lock("latest", b"state")
        assert client.session_info(session.id).locks == (f"{name}/latest",)
    assert session.lost
    with pytest.raises(milepost.SessionExpired):
        client.session_info(session.id)
    assert client.store(name).get("latest").locks == ()
    with pytest.raises(milepost.SessionExpired, match="closed"):
        session.store(name).release("latest")


def test_an_id_of_ones_own_is_taken_on_while_it_lives(client: Any, name: str) -> None:
    with client.session(holder="a", session_id=f"id-of-{name}") as session:
        assert session.id == f"id-of-{name}"
        with client.session(holder="a", session_id=session.id) as again:
            again.store(name).add_and_lock("latest", b"state")
            assert session.store(name).get("latest").locks == (session.id,)
    with pytest.raises(milepost.SessionExpired):
        client.session(holder="a", session_id=f"id-of-{name}").__enter__()


def test_one_that_is_detached_lives_on_without_its_process(client: Any, name: str) -> None:
    with client.session(holder="a", ttl=60, session_id=f"id-of-{name}") as session:
        session.store(name).add_and_lock("latest", b"state")
        session.detach()
        session.detach()
    assert client.session_info(session.id).locks == (f"{name}/latest",)
    with client.session(holder="a", ttl=60, session_id=session.id) as again:
        again.store(name).release_all()
    with pytest.raises(milepost.SessionExpired):
        client.session_info(session.id)


def test_one_that_is_detached_is_not_kept(client: Any) -> None:
    def gone() -> bool:
        try:
            client.session_info(session.id)
        except milepost.SessionExpired:
            return True
        return False

    with client.session(holder="a", ttl=1) as session:
        session.detach()
        eventually(gone)
        assert session.lost


def test_one_that_is_ended_by_another_is_told_so_once(client: Any) -> None:
    reports: list[tuple[Any, str]] = []
    with client.session(holder="a", ttl=10, on_lost=lambda *what: reports.append(what)) as session:
        with client.session(holder="thief", session_id=session.id):
            pass
        eventually(lambda: bool(reports))
        assert session.lost
        assert "session-expired" in reports[0][1]
        assert reports[0][0].id == session.id
        with pytest.raises(milepost.SessionExpired):
            session.raise_if_lost()
        time.sleep(1.0)
    assert len(reports) == 1


def test_what_on_lost_raises_is_logged_and_hurts_nobody(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("the user's own")

    with client.session(holder="a", ttl=10, on_lost=fail) as session:
        with client.session(holder="thief", session_id=session.id):
            pass
        eventually(lambda: any(record.exc_info for record in caplog.records))
        assert client.status().role == "leader"  # the block goes on, and so does the event loop
    assert "the user's own" in caplog.text


def test_the_block_goes_on_after_an_early_close(client: Any, name: str) -> None:
    with client.session(holder="a") as session:
        session.close()
        session.close()
        assert session.lost
        assert client.store(name).exists("latest") is None


@pytest.mark.anyio
async def test_the_tasks_of_a_block_go_on_after_an_early_close(service: Service) -> None:
    reached = []
    async with milepost.aio.AsyncClient(service.url) as client, client.session(holder="a") as session:
        await session.close()
        await anyio.lowlevel.checkpoint()
        reached.append("the end of the block")
    assert reached == ["the end of the block"]


def test_an_orderly_close_is_no_loss(client: Any) -> None:
    reports: list[str] = []
    with client.session(holder="a", ttl=10, on_lost=lambda _, reason: reports.append(reason)):
        time.sleep(0.5)
    time.sleep(1.0)
    assert reports == []


def test_one_without_a_service_is_lost_when_its_lease_is_over(tmp_path: Path, flavour: str) -> None:
    reported = threading.Event()
    with serving(tmp_path) as service, connected(flavour, service.url) as client:
        begun = time.monotonic()
        with client.session(holder="a", ttl=2, on_lost=lambda *_: reported.set()) as session:
            service.process.send_signal(signal.SIGSTOP)
            try:
                assert reported.wait(DEADLINE_SECONDS)
                assert time.monotonic() - begun >= 2.0
                assert session.lost
                assert session.expires_in == 0.0
            finally:
                service.process.send_signal(signal.SIGCONT)


def test_a_crash_of_the_service_is_survived(tmp_path: Path, flavour: str, name: str) -> None:
    port = Port()
    with connected(flavour, f"http://{port.address}", timeout=60.0) as client:
        with serving(tmp_path, port=port) as service:
            session = client.session(holder="a", ttl=60)
            session.__enter__()
            store = session.store(name)
            handle = store.add_and_lock("latest", b"before")
            store.campaign(wait=5)
            service.process.kill()
            service.process.wait()
        replaced: list[milepost.Handle] = []
        during = threading.Thread(
            target=lambda: replaced.append(store.replace("latest", handle.version, b"during")), daemon=True
        )
        during.start()
        time.sleep(0.3)
        assert not replaced
        with serving(tmp_path, port=port):
            during.join(DEADLINE_SECONDS)
            assert replaced[0].version != handle.version
            assert store.read("latest") == b"during"
            assert replaced[0].locks == (session.id,)
            assert not session.lost
            session.__exit__(None, None, None)


def test_no_thread_is_left_behind(blocking: milepost.Client) -> None:
    with blocking.session(holder="a") as session:
        assert f"milepost-session-{session.id}" in {thread.name for thread in threading.enumerate()}
    assert f"milepost-session-{session.id}" not in {thread.name for thread in threading.enumerate()}


def test_closing_the_client_ends_its_sessions(service: Service) -> None:
    client = milepost.Client(service.url)
    session = client.session(holder="a")
    client.close()
    assert session.lost
    with milepost.Client(service.url) as another, pytest.raises(milepost.SessionExpired):
        another.session_info(session.id)
    with pytest.raises(milepost.Closed):
        client.session(holder="a")


def test_it_may_be_closed_from_its_own_keeper(service: Service) -> None:
    closed = threading.Event()

    def on_lost(session: milepost.Session, _: str) -> None:
        session.close()
        closed.set()

    with milepost.Client(service.url) as client:
        session = client.session(holder="a", ttl=10, on_lost=on_lost)
        client.session(holder="thief", session_id=session.id).close()
        assert closed.wait(DEADLINE_SECONDS)


PROGRAM = """
import os, sys, milepost
client = milepost.Client(sys.argv[1])
session = client.session(holder="child", ttl={ttl})
print(session.id, flush=True)
sys.stdin.readline()
{then}
"""


def program(service: Service, then: str, ttl: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(then=then, ttl=ttl), service.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_process_that_was_paused_knows_at_once(service: Service) -> None:
    """The very first look after the pause, before any thread of the keeper had its turn, must be right."""
    with program(service, "print(session.lost, flush=True); os._exit(0)", ttl=2) as process:
        said(process)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert said(process) == "True"
        assert process.wait(DEADLINE_SECONDS) == 0


FORK = """
if os.fork() == 0:
    import time
    store = session.store("forked")
    first = session.lost
    store.exists("nothing")
    time.sleep(10.5)
    print(first, session.lost, flush=True)
    session.close()
    client.close()
    os._exit(0)
os.wait()
print(session.lost, client.session_info(session.id).session == session.id, flush=True)
session.close()
client.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_turns_out_lost_and_leaves_the_parents_session_alone(service: Service) -> None:
    with program(service, FORK, ttl=10) as process:
        said(process)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert said(process) == "False True"
        assert said(process) == "False True"
        assert process.wait(DEADLINE_SECONDS) == 0


@pytest.mark.anyio
async def test_an_error_in_the_block_comes_out_as_itself(service: Service) -> None:
    async with milepost.aio.AsyncClient(service.url) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.session(holder="a") as session:
                raise ZeroDivisionError
        with pytest.raises(milepost.SessionExpired):
            await client.session_info(session.id)


@pytest.mark.anyio
async def test_a_block_that_is_cancelled_ends_its_session(service: Service) -> None:
    async with milepost.aio.AsyncClient(service.url) as client:
        with anyio.CancelScope() as scope:
            async with client.session(holder="a") as session:
                scope.cancel()
                await anyio.sleep(DEADLINE_SECONDS)
        assert scope.cancelled_caught
        with pytest.raises(milepost.SessionExpired):
            await client.session_info(session.id)


@pytest.mark.anyio
async def test_a_call_that_is_cancelled_leaves_the_client_usable(service: Service, name: str) -> None:
    async with (
        milepost.aio.AsyncClient(service.url) as client,
        client.session(holder="a") as session,
        client.session(holder="b") as leader,
    ):
        await leader.store(name).campaign()
        with anyio.move_on_after(0.3) as scope:
            await session.store(name).campaign(wait=20.0)
        assert scope.cancelled_caught
        assert await session.store(name).exists("latest") is None


@pytest.mark.anyio
async def test_a_session_begins_with_its_block(service: Service) -> None:
    async with milepost.aio.AsyncClient(service.url) as client:
        session = client.session(holder="a")
        with pytest.raises(milepost.Closed):
            session.store("s")
