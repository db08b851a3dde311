"""How long a peer is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from milepost_server.http.connection.closing import LingeringTransport
from milepost_server.http.connection.slow_peers import LEAST_BYTES_PER_SECOND, PeerTimeBudget, SlowPeerGuard


def test_silence_uses_it_up() -> None:
    peer = PeerTimeBudget(30.0)
    peer.spend(29.0)
    assert (peer.left, peer.is_spent) == (1.0, False)
    peer.spend(1.0)
    assert peer.is_spent


def test_less_than_the_least_rate_uses_it_up_and_that_rate_does_not() -> None:
    slow, steady = PeerTimeBudget(30.0), PeerTimeBudget(30.0)
    for _ in range(100):
        slow.spend(1.0, LEAST_BYTES_PER_SECOND // 2)
        steady.spend(1.0, LEAST_BYTES_PER_SECOND)
    assert slow.is_spent
    assert steady.left == 30.0


def test_what_came_quickly_is_no_credit_for_silence() -> None:
    peer = PeerTimeBudget(30.0)
    peer.spend(0.1, 10**9)
    assert peer.left == 30.0


class Loop:
    """A loop whose time the test sets, and in which one call waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.next: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def call_later(self, _seconds: float, call: Callable[[], None]) -> None:
        self.next = call

    def passes(self, seconds: float) -> None:
        """Let time pass, and the call be made as often as it falls due: each second."""
        for _ in range(int(seconds)):
            self.now += 1.0
            self.next()


class Line:
    """A connection with unsent bytes, of which the peer reads enough not to be slow."""

    def __init__(self) -> None:
        self.written, self.left = 10**9, 10**7
        self.reads = True
        self.hung_up = self.aborted = False

    @property
    def unsent(self) -> int:
        """Less each time."""
        self.left = max(0, self.left - 10_000)
        return self.left

    def is_reading(self) -> bool:
        return self.reads

    def close(self) -> None:
        self.hung_up = True

    def abort(self) -> None:
        self.aborted = True


def guarded() -> tuple[Loop, Line, SlowPeerGuard]:
    loop, line = Loop(), Line()
    guard = SlowPeerGuard(cast("asyncio.AbstractEventLoop", loop), cast("LingeringTransport", line), 10.0)
    return loop, line, guard


def test_an_idle_connection_is_closed_and_its_peer_may_read_to_the_end() -> None:
    loop, line, guard = guarded()
    guard.idle(75.0)
    loop.passes(74)
    assert not line.hung_up
    loop.passes(1)
    assert line.hung_up
    loop.passes(100)
    assert line.unsent
    assert not line.aborted


def test_a_peer_that_nothing_is_read_from_is_not_late() -> None:
    loop, line, guard = guarded()
    line.reads = False
    guard.expect()
    loop.passes(20)
    assert not line.hung_up
    line.reads = True
    loop.passes(1)
    assert line.hung_up


def test_who_lingers_too_long_is_cut() -> None:
    loop, line, guard = guarded()
    line.close()
    guard.linger()
    loop.passes(4)
    assert not line.aborted
    loop.passes(1)
    assert line.aborted
