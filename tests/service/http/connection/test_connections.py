"""Who goes first where there is no room."""

from __future__ import annotations

import resource

from milepost_server.blobs.delivery import AHEAD_BYTES
from milepost_server.http.connection.connections import MOST_UNSENT_BYTES, Connections, room_for_connections


class Peer:
    def __init__(self) -> None:
        self.given_up = False

    def give_up(self) -> None:
        self.given_up = True


def given_up(peers: list[Peer]) -> list[int]:
    return [number for number, peer in enumerate(peers) if peer.given_up]


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
