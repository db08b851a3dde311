"""``milepost fsck --repair`` asks for each step on a real terminal, and does what is answered there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import milepost
from testbed.server import ServerProcess
from tests.support.terminal import END, INTERRUPT, Terminal, terminal
from tests.wire.support.damage import damage_record

STORE = "handles"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with two damaged records, and one that is whole."""
    with ServerProcess(tmp_path) as process:
        process.start()
        with milepost.Client(process.url) as client, client.session(ttl=600) as session:
            for name in ("a", "b", "c"):
                session.store(STORE).add_and_lock(name, name.encode())
        process.stop()
        for name in ("a", "b"):
            damage_record(process, f"stores/{STORE}/handles/{name}", b"\x00 no record")
        process.start()
        yield process


@contextmanager
def asked(server: ServerProcess) -> Iterator[Terminal]:
    """The command, which waits for the first answer."""
    with terminal("fsck", "--repair", "--no-progress", "--url", server.url) as screen:
        screen.shows(b"do it? [y/N]:")
        assert b"to remove the handle a of store handles" in screen.said
        assert left(server) == {"a", "b"}, "nothing is done before it is answered"
        yield screen


def left(server: ServerProcess) -> set[str]:
    """The damaged records that are still there; what is whole always is."""
    with milepost.Client(server.url) as client:
        found = list(client.store(STORE).look_through())
    assert [each.name for each in found if isinstance(each, milepost.Handle)] == ["c"]
    return {each.name for each in found if isinstance(each, milepost.CorruptHandle)}


def sessions(server: ServerProcess) -> list[str | None]:
    """Who holds sessions, but for the one that the handles were added in."""
    with milepost.Client(server.url) as client:
        return [each.holder for each in client.sessions() if each.ttl < 600]


def test_only_what_is_answered_by_yes_is_done(server: ServerProcess) -> None:
    with asked(server) as screen:
        screen.types(b"n\n")
        screen.shows(b"do it? [y/N]:", 2)
        screen.types(b"what\n")
        screen.shows(b"do it? [y/N]:", 3)  # an answer that is none is asked for again
        screen.types(b"y\n")
        assert screen.ends() == 1, "there was damage"
    assert b"b of handles is removed" in screen.said
    assert left(server) == {"a"}
    assert sessions(server) == []


def test_no_answer_is_a_no(server: ServerProcess) -> None:
    with asked(server) as screen:
        screen.types(b"\n")
        screen.shows(b"do it? [y/N]:", 2)
        screen.types(b"\n")
        assert screen.ends() == 1
    assert left(server) == {"a", "b"}


@pytest.mark.parametrize(("keys", "status"), [(END, 1), (INTERRUPT, 130)], ids=["end-of-input", "ctrl-c"])
def test_who_stops_answering_ends_it_and_keeps_what_was_answered(
    server: ServerProcess, keys: bytes, status: int
) -> None:
    with asked(server) as screen:
        screen.types(b"y\n")
        screen.shows(b"do it? [y/N]:", 2)
        screen.types(keys)
        assert screen.ends(typed=keys) == status
    assert b"Traceback" not in screen.said
    assert left(server) == {"b"}
    assert sessions(server) == [], "it is ended in order"
