"""A progress function is told how far a state has come, and what it raises ends the transfer where that is safe."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.checkpoints import CheckpointRegistry
from milepost.core import progress as progress_module
from milepost.core.progress import BETWEEN_SECONDS, Transfer
from tests.client.conftest import Service
from tests.client.drivers.test_connections import DIGEST, ENDED, HANDLE, SESSION, STATE
from tests.client.flavours import connected
from tests.support.network.scripted_server import ScriptedServer, cut, cut_inside, head_of, reply

LARGE = bytes(range(256)) * 8000  # eight chunks
TOTAL = len(LARGE)


class Told:
    """Notes what a progress function is told, and by which thread."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.calls: list[tuple[int, int | None]] = []
        self.threads: set[int] = set()
        self._fail_at = fail_at

    def __call__(self, done: int, total: int | None) -> None:
        self.calls.append((done, total))
        self.threads.add(threading.get_ident())
        if self._fail_at is not None and done >= self._fail_at:
            raise Stopped


class Stopped(Exception):
    """The caller does not want the rest."""


@pytest.fixture
def at_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell of every chunk, however fast they come."""
    monkeypatch.setattr(progress_module, "BETWEEN_SECONDS", 0.0)


@pytest.fixture
def store(client: Any, name: str) -> Iterator[Any]:
    with client.session(holder="a") as session:
        yield session.store(name)


def chunks() -> Iterator[bytes]:
    yield from (LARGE[begin : begin + 100_000] for begin in range(0, TOTAL, 100_000))


@pytest.mark.usefixtures("at_each_chunk")
@pytest.mark.parametrize("kind", ["bytes", "path", "list", "generator"])
def test_a_state_is_counted_while_it_is_sent(store: Any, kind: str, tmp_path: Path, flavour: str) -> None:
    (tmp_path / "state").write_bytes(LARGE)
    state = {"bytes": LARGE, "path": tmp_path / "state", "list": list(chunks()), "generator": chunks()}[kind]
    told = Told()
    store.add_and_lock("latest", state, progress=told)
    known = None if kind == "generator" else TOTAL
    assert told.calls[0] == (0, known)
    assert told.calls[-1] == (TOTAL, TOTAL)
    assert [done for done, _ in told.calls] == sorted(done for done, _ in told.calls)
    assert len(told.calls) > 5
    assert {total for _, total in told.calls[:-1]} == {known}
    if flavour == "blocking":
        assert told.threads == {threading.get_ident()}
    else:
        assert len(told.threads) == 1  # the event loop's


@pytest.mark.usefixtures("at_each_chunk")
def test_a_state_is_counted_while_it_is_read(store: Any) -> None:
    handle = store.add_and_lock("latest", LARGE)
    read, opened = Told(), Told()
    assert store.read("latest", handle.version, progress=read) == LARGE
    with store.open("latest", progress=opened) as pieces:
        assert b"".join(pieces) == LARGE
    for told in (read, opened):
        assert (told.calls[0], told.calls[-1]) == ((0, TOTAL), (TOTAL, TOTAL))
        assert len(told.calls) > 3


def test_a_small_and_an_empty_state_are_told_of_too(store: Any) -> None:
    for state in (b"", b"hello"):
        handle = store.add_and_lock(f"of-{len(state)}", state)
        told, read = Told(), Told()
        store.replace(handle.name, handle.version, state, progress=told)
        assert told.calls == [(0, len(state)), (len(state), len(state))]
        store.read(handle.name, progress=read)
        assert read.calls[-1] == (len(state), len(state))


@pytest.mark.usefixtures("at_each_chunk")
@pytest.mark.parametrize("fail_at", [0, 300_000])
def test_what_it_raises_ends_a_write_and_nothing_is_applied(store: Any, fail_at: int) -> None:
    with pytest.raises(Stopped):
        store.add_and_lock("latest", LARGE, progress=Told(fail_at))
    assert store.exists("latest") is None
    assert store.add_and_lock("latest", LARGE).size == TOTAL  # the client goes on


@pytest.mark.usefixtures("at_each_chunk")
def test_what_it_raises_after_the_state_was_stored_is_only_logged(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    handle = store.add_and_lock("latest", LARGE, progress=Told(TOTAL))
    assert store.exists("latest") == handle.version
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is Stopped


@pytest.mark.usefixtures("at_each_chunk")
def test_what_it_raises_ends_a_reading(store: Any) -> None:
    store.add_and_lock("latest", LARGE)
    with pytest.raises(Stopped):
        store.read("latest", progress=Told(300_000))
    with pytest.raises(Stopped), store.open("latest", progress=Told(300_000)) as pieces:
        for _ in pieces:
            pass
    assert store.read("latest") == LARGE


@pytest.mark.usefixtures("at_each_chunk")
def test_a_write_that_is_sent_again_is_counted_again(flavour: str) -> None:
    told = Told()
    with (
        ScriptedServer([SESSION, reply(404), cut_inside(), reply(404), HANDLE, ENDED]) as server,
        connected(flavour, server.url, timeout=20.0, direct_above=None) as client,
        client.session(holder="h", ttl=60, session_id="s1") as session,
    ):
        session.store("s").add_and_lock("h", LARGE, progress=told)
    done = [done for done, _ in told.calls]
    fallen = [number for number in range(1, len(done)) if done[number] < done[number - 1]]
    assert [done[number] for number in fallen[:1]] == [0]
    assert max(done[fallen[0] :]) == max(done)  # the second time it came as far as ever, or farther


@pytest.mark.usefixtures("at_each_chunk")
def test_a_reading_that_is_resumed_goes_on_where_it_was(flavour: str) -> None:
    head = {"ETag": '"v1"', "Repr_Digest": DIGEST, "Content_Length": str(len(STATE))}
    rest = {**head, "Content_Range": f"bytes 100000-{len(STATE) - 1}/{len(STATE)}"}
    del rest["Content_Length"]
    told = Told()
    with (
        ScriptedServer(
            [cut(after=head_of(200, **head) + STATE[:100_000], reset=False), reply(206, STATE[100_000:], **rest)]
        ) as server,
        connected(flavour, server.url, timeout=20.0) as client,
    ):
        assert client.store("s").read("h", progress=told) == STATE
    done = [done for done, _ in told.calls]
    assert done == sorted(done)
    assert 100_000 in done
    assert told.calls[-1] == (len(STATE), len(STATE))


def test_it_is_called_at_a_bounded_rate() -> None:
    now = 1000.0
    told = Told()
    transfer = Transfer(told, lambda: now)
    transfer.begin(10_000)
    for _ in range(1000):
        transfer.add(10)
        transfer.report()
        now += BETWEEN_SECONDS / 100
    transfer.end()
    assert 10 <= len(told.calls) <= 12
    assert told.calls[0] == (0, 10_000)
    assert told.calls[-1] == (10_000, 10_000)


@pytest.mark.usefixtures("at_each_chunk")
def test_checkpoints_are_counted_too(service: Service, name: str) -> None:
    with milepost.Client(service.url, timeout=20.0) as client, client.session(holder="a") as session:
        added, recovered = Told(), Told()
        CheckpointRegistry(session.store(name)).add(1, LARGE, progress=added, timeout=20.0)
        assert CheckpointRegistry(session.store(name)).recover(progress=recovered, timeout=20.0).state == LARGE
    for told in (added, recovered):
        assert (told.calls[0], told.calls[-1]) == ((0, TOTAL), (TOTAL, TOTAL))
