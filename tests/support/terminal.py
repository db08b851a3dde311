"""Runs the ``milepost`` command on a real terminal, for what it asks there."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SECONDS = 150.0
AGAIN_SECONDS = 60.0
ON_ITS_TERMINAL = """
import fcntl, os, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from milepost.cli import main
main()
"""
"""The terminal has to be the one that controls the process: only then it sends what Ctrl-C is to send."""
END, INTERRUPT = b"\x04", b"\x03"


class Terminal:
    """A command that runs on a terminal, and whoever sits in front of that."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int, screen: str) -> None:
        self.process = process
        self._keyboard = keyboard
        self._screen = screen
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

    def takes(self, line: bytes) -> None:
        """Type a line, and wait until the terminal has shown it and the command has read it."""
        self.types(line + b"\n")
        self.shows(line)
        screen = os.open(self._screen, os.O_RDONLY | os.O_NOCTTY)
        try:
            deadline = time.monotonic() + SECONDS
            while struct.unpack("i", fcntl.ioctl(screen, termios.FIONREAD, b"\0" * 4)) != (0,):
                assert time.monotonic() < deadline, self.said
                time.sleep(0.05)
        finally:
            os.close(screen)

    def ends(self, *, typed: bytes = b"") -> int:
        """Wait for the end of the command, whose exit status it returns, and read all that it still says.

        What was typed last is typed again after a minute: the interpreter misses an interrupt that comes between its
        last look for one and its wait for a line, until there is another. Not sooner: a command that has noticed the
        first one ends its session, and a second one would keep it from that.
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
def terminal(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run the command with these arguments; ``environment`` has variables beside those of this process."""
    keyboard, screen = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, *arguments],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", **(environment or {})},
        )
        name = os.ttyname(screen)
        os.close(screen)
        try:
            yield Terminal(process, keyboard, name)
        finally:
            process.kill()
            process.wait(SECONDS)
    finally:
        os.close(keyboard)
