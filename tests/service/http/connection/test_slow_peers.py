"""How long a peer is waited for."""

from __future__ import annotations

from milepost_server.http.connection.slow_peers import LEAST_BYTES_PER_SECOND, PeerTimeBudget


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
