"""``milepost fsck --repair`` asks for each step on a real terminal, and does what is answered there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import milepost
from testbed.server import ServerProcess
from tests.wire.support.damage import damage_record

STORE = "handles"
SECONDS = 60.0
AGAIN_SECONDS = 10.0
ON_ITS_TERMINAL = (
    "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);from milepost.cli import main; main()"
)
"""The terminal has to be the one that controls the process: only then it sends what Ctrl-C is to send."""
END, INTERRUPT = b"\x04", b"\x03"


class Terminal:
    """A command that runs on a terminal, and whoever sits in front of that."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self.process = process
        self._keyboard = keyboard
        self.said = b""

    def types(self, keys: bytes) -> None:
        """Type this."""
        os.write(self._keyboard, keys)

    def shows(self, text: bytes, times: int = 1) -> None:
        """Wait until the screen has shown a text that often."""
        deadline = time.monotonic() + SECONDS
        while self.said.count(text) < times:
            assert time.monotonic() < deadline, self.said
            assert not self._over(deadline - time.monotonic()), self.said

    def ends(self, *, typed: bytes = b"") -> int:
        """Wait for the end of the command, whose exit status it returns, and read all that it still says.

        What was typed last is typed again every ten seconds, as whoever sits there does: the interpreter misses an
        interrupt that comes between its last look for one and its wait for a line, until there is another.
        """
        deadline = time.monotonic() + SECONDS
        again = time.monotonic() + AGAIN_SECONDS
        while not self._over(min(deadline, again) - time.monotonic()):
            assert time.monotonic() < deadline, self.said
            if time.monotonic() >= again:
                self.types(typed)
                again += AGAIN_SECONDS
        return self.process.wait(SECONDS)

    def _over(self, seconds: float) -> bool:
        """Read what comes within a time; true once nothing can come any more."""
        ready, _, _ = select.select([self._keyboard], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            more = os.read(self._keyboard, 65536)
        except OSError:  # Linux says so once nobody has the other side open any more
            return True
        self.said += more
        return not more


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    keyboard, screen = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, *arguments],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"},
        )
        os.close(screen)
        try:
            yield Terminal(process, keyboard)
        finally:
            process.kill()
            process.wait(SECONDS)
    finally:
        os.close(keyboard)


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
