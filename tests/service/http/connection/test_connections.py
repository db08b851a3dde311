"""Who goes first where there is no room."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

import pytest

from milepost.errors import Unavailable
from milepost_server.blobs.delivery import AHEAD_BYTES
from milepost_server.http.connection import connections
from milepost_server.http.connection.connections import (
    HELD_BYTES,
    LEAST_SILENT_SECONDS,
    MOST_UNSENT_BYTES,
    Connections,
    OpenBodies,
    OpenBody,
    room_for_connections,
)
from milepost_server.http.connection.slow_peers import LEAST_BYTES_PER_SECOND

pytestmark = pytest.mark.anyio


class Peer:
    def __init__(self) -> None:
        self.given_up = False

    def give_up(self) -> None:
        self.given_up = True


def given_up(peers: list[Peer]) -> list[int]:
    return [number for number, peer in enumerate(peers) if peer.given_up]


def test_a_head_that_waits_for_its_body_counts_as_one() -> None:
    connections, peers = Connections(most=6), [Peer() for _ in range(6)]
    for peer in peers[:3]:
        assert connections.opened(peer)
        connections.busy(peer)
    assert [connections.hold_head() for _ in range(3)] == [True, True, False], "a third may be bodies"
    with pytest.raises(Unavailable), connections.body():
        pass
    assert connections.opened(peers[3])
    connections.busy(peers[3])
    assert not connections.opened(peers[4]), "four connections and two bodies are all there is room for"
    connections.closed(peers[4])
    connections.release_head()
    assert connections.opened(peers[5])
    assert not connections.hold_head(), "there are five connections and one body"
    assert given_up(peers) == []


def test_the_longest_idle_makes_room_and_no_running_request_does() -> None:
    connections, peers = Connections(most=3), [Peer() for _ in range(6)]
    for peer in peers[:3]:
        assert connections.opened(peer)
    connections.busy(peers[0])
    connections.busy(peers[1])
    connections.busy(peers[2])
    connections.spare(peers[1])
    assert connections.opened(peers[3])
    assert given_up(peers) == [1]
    connections.spare(peers[2])
    assert connections.opened(peers[4])
    assert given_up(peers) == [1, 3], "it waits for its first head for longer than the other for its next"
    connections.busy(peers[2])
    connections.busy(peers[4])
    assert not connections.opened(peers[5])
    assert given_up(peers) == [1, 3]


def test_who_has_gone_is_neither_counted_nor_given_up() -> None:
    connections, peers = Connections(most=1), [Peer() for _ in range(3)]
    for peer in peers:
        assert connections.opened(peer)
        connections.closed(peer)
        connections.spare(peer)
    assert given_up(peers) == []


def test_of_the_answers_that_nobody_reads_the_oldest_goes() -> None:
    connections, peers = Connections(most_unsent=100, ahead=0), [Peer() for _ in range(4)]
    for peer in peers:
        connections.opened(peer)
    connections.waits(peers[0], 60)
    connections.waits(peers[1], 40)
    assert given_up(peers) == []
    connections.waits(peers[2], 40)
    assert given_up(peers) == [0]
    connections.flows(peers[1])
    connections.waits(peers[3], 60)
    assert given_up(peers) == [0]
    connections.waits(peers[3], 400)
    assert given_up(peers) == [0, 2], "the only one that is left may be as large as it is"


def test_what_waits_behind_unsent_bytes_counts_as_well() -> None:
    """Six hundred readers that do not read, each of which has little in its socket."""
    connections, peers, unsent = Connections(), [Peer() for _ in range(600)], 200 * 1024
    for peer in peers:
        connections.opened(peer)
        connections.busy(peer)
        connections.waits(peer, unsent)
    left = len(peers) - len(given_up(peers))
    assert 100 < left <= MOST_UNSENT_BYTES // (unsent + AHEAD_BYTES)


def test_there_is_room_beside_the_other_files() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = room_for_connections()
    assert 16 <= room < max(soft, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class Clock:
    """Monotonic seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Patience:
    """The timeout of a wait, which is not a task's of this test: that would be cancelled."""

    def reschedule(self, when: float | None) -> None:
        """End the wait, or not; tests see ``is_cut``."""


@contextmanager
def silent(body: OpenBody) -> Iterator[None]:
    """Its sender is waited for."""
    with body.waits(cast(asyncio.Timeout, Patience())):
        yield


async def test_of_those_who_are_silent_for_long_the_longest_is_cut() -> None:
    clock = Clock()
    bodies = OpenBodies(clock)
    with ExitStack() as held:
        first, second, third = (held.enter_context(bodies.begun()) for _ in range(3))
        with silent(first):
            pass  # it has sent something since
        for body in (second, first):
            clock.now += 1.0
            held.enter_context(silent(body))
        clock.now = LEAST_SILENT_SECONDS
        assert not bodies.cut_one()
        clock.now = LEAST_SILENT_SECONDS + 60.0
        assert [bodies.cut_one(), bodies.cut_one(), bodies.cut_one()] == [True, True, False]
        assert (first.is_cut, second.is_cut, third.is_cut) == (True, True, False)
        assert len(bodies) == 1
    assert len(bodies) == 0


@pytest.mark.parametrize(("size", "cut"), [(1, True), (9 * LEAST_BYTES_PER_SECOND, False)])
async def test_who_sends_a_byte_now_and_then_is_as_silent_as_who_sends_nothing(size: int, cut: bool) -> None:
    """What is sent counts, and not that something is: else a byte every nine seconds would hold a place for long."""
    clock = Clock()
    bodies = OpenBodies(clock)
    with bodies.begun() as body:
        for _ in range(4):
            with silent(body):
                clock.now += 9.0
            await body.takes(size)
            clock.now += 60.0  # its bytes are written meanwhile, and it is not waited for
        with silent(body):
            assert bodies.cut_one() is cut


async def test_a_body_that_is_cut_ends_its_wait() -> None:
    clock = Clock()
    bodies = OpenBodies(clock)
    with bodies.begun() as body:

        async def waiting() -> None:
            async with asyncio.timeout(60.0) as patience:
                with body.waits(patience):
                    await asyncio.Event().wait()

        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        clock.now = LEAST_SILENT_SECONDS
        assert bodies.cut_one()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 10.0)


async def test_memory_that_all_hold_together_is_bounded_and_others_wait_for_it() -> None:
    clock = Clock()
    bodies = OpenBodies(clock, most_bytes=2 * HELD_BYTES)
    with ExitStack() as held, bodies.begun() as third:
        first = held.enter_context(bodies.begun())
        second = held.enter_context(bodies.begun())
        for _ in range(3):
            await first.takes(HELD_BYTES)  # what is beyond that has been written
        await second.takes(HELD_BYTES // 2)
        waiting = asyncio.create_task(third.takes(HELD_BYTES))
        await asyncio.sleep(0)
        assert not waiting.done()
        held.close()
        await asyncio.wait_for(waiting, 10.0)


async def test_who_is_silent_makes_room_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LOOK_SECONDS", 0.01)
    clock = Clock()
    bodies = OpenBodies(clock, most_bytes=HELD_BYTES)
    with bodies.begun() as first, bodies.begun() as second:
        await first.takes(HELD_BYTES)
        with silent(first):
            waiting = asyncio.create_task(second.takes(1))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            clock.now = LEAST_SILENT_SECONDS
            await asyncio.wait_for(waiting, 10.0)
        assert first.is_cut


async def test_without_room_in_memory_for_long_a_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LOOK_SECONDS", 0.01)
    clock = Clock()
    bodies = OpenBodies(clock, most_bytes=HELD_BYTES)
    with bodies.begun() as first, bodies.begun() as second:
        await first.takes(HELD_BYTES)
        waiting = asyncio.create_task(second.takes(1))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        clock.now = 60.0
        with pytest.raises(Unavailable):
            await waiting


async def test_a_body_counts_as_another_connection_and_a_silent_one_makes_room() -> None:
    """It may be a file that is being written, besides the socket from which it comes."""
    clock = Clock()
    connections, peers = Connections(most=6, clock=clock), [Peer() for _ in range(7)]
    with ExitStack() as held:
        for peer in peers[:5]:
            assert connections.opened(peer)
        for peer in peers[:4]:
            connections.busy(peer)
        first = held.enter_context(connections.body())
        held.enter_context(silent(first))
        assert given_up(peers) == []
        second = held.enter_context(connections.body())
        assert given_up(peers) == [4], "a connection without a request goes first"
        assert not connections.opened(peers[5])
        connections.closed(peers[5])
        clock.now = LEAST_SILENT_SECONDS
        assert connections.opened(peers[6])
        assert (first.is_cut, second.is_cut) == (True, False)
        connections.busy(peers[6])
        with pytest.raises(Unavailable), connections.body():
            pass


async def test_bodies_leave_room_for_other_requests_however_many_they_are() -> None:
    clock = Clock()
    connections = Connections(most=30, clock=clock)
    with ExitStack() as held:
        bodies: list[OpenBody] = []

        def another() -> None:
            peer = Peer()
            assert connections.opened(peer)
            connections.busy(peer)
            bodies.append(held.enter_context(connections.body()))
            held.enter_context(silent(bodies[-1]))

        for _ in range(10):
            another()
        with pytest.raises(Unavailable):
            another()
        assert connections.opened(Peer())
        clock.now = LEAST_SILENT_SECONDS
        another()
        assert [body.is_cut for body in bodies] == [True, *[False] * 10]
