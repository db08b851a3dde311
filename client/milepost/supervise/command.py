"""Starts the command of a job as a process group, ends the whole group, and forwards to it the signals that ask this
process to end.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

_log = logging.getLogger(__name__)
_POLL = 0.05
_AFTER_KILL = 5.0
"""The seconds to wait for the rest of a killed group. A process that hangs in the kernel even then is left behind."""

_ENDED = frozenset("ZX")

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""The signals with which a terminal, a service manager or a user ends a program. Without a handler, SIGQUIT would end
this process and leave the command alone; Java does not end on it, so a Java command dumps its threads, and is killed
after its grace.
"""


class CannotStart(Exception):
    """The command cannot be started; ``found`` says whether the program exists."""

    def __init__(self, program: str, error: OSError) -> None:
        super().__init__(f"{program or repr(program)} cannot be started: {error.strerror}")
        self.found = not isinstance(error, FileNotFoundError)


class Command:
    """A running command, with all processes that it starts. It has its own process group and session, so that a signal
    that a terminal or a caller sends to this process reaches the command only if this process forwards it.

    Making the object starts the command. ``signalled`` says whether this process sent a signal to the command while it
    ran: if not, it ended by itself. Raises `CannotStart`.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.signalled = False
        try:
            if not arguments[0]:  # each directory of the PATH would count as the program
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._process = subprocess.Popen(arguments, env=environment, start_new_session=True)
        except OSError as error:
            raise CannotStart(arguments[0], error) from error
        self.pid = self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status as a shell counts it: 128 plus the number of the signal that ended the command; None while it
        runs.
        """
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, if any process of it remains."""
        self.signalled = self.signalled or self.status is None
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # the group has ended meanwhile
        except PermissionError:
            _log.warning("process group %s belongs to another user, and did not get signal %d", self.pid, number)

    def end(self, grace: float) -> int:
        """End the whole group with SIGTERM, and the rest of it after ``grace`` seconds with SIGKILL; return the status
        of the command.
        """
        if self._lives():
            self.signal(signal.SIGTERM)
            self._wait(grace)
        if self._lives():
            self.signal(signal.SIGKILL)
            self._wait(_AFTER_KILL)
        if self._lives():
            _log.error("process group %s could not be ended; the fence keeps it from the files of the job", self.pid)
        return 128 + signal.SIGKILL if self.status is None else self.status

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._lives() and time.monotonic() < deadline:
            time.sleep(_POLL)

    def _lives(self) -> bool:
        """Return whether any process of the group is alive."""
        return self.status is None or _lives(self.pid)


def _lives(group: int) -> bool:
    """Return whether any process of the group runs.

    A signal also reaches a zombie, so this reads ``/proc`` if it exists: where process 1 reaps no orphans, as in many
    containers, the zombies of a group would remain for ever.
    """
    with suppress(ChildProcessError):  # if this process is process 1, orphans of the group become its children
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS raises this also for a process that has ended and was not reaped
        if sys.platform == "darwin":
            return False
    states = _states(group)
    return not states or not states <= _ENDED


def _states(group: int) -> set[str]:
    """Return the states of the group's processes, as Linux names them; empty if they cannot be read."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended meanwhile
            state, _parent, of = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of) == group:
                found.add(state)
    return found


class Signals:
    """Handles the signals that ask this process to end; ``asked`` is the last one, if any came. Within a ``with`` block
    of this object, signals are forwarded to the command that `passed_to` names; during `wait` they raise SystemExit.

    Python delivers signals only to the main thread; in another thread this does nothing.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._command: Command | None = None
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:  # SIG_IGN is set under nohup
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def passed_to(self, command: Command | None) -> None:
        """Forward signals to ``command`` from now on, including one that came while it was started; None: to no
        command.
        """
        self._command = command
        if command is not None and self.asked is not None:
            command.signal(self.asked)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let a signal end the block, which waits for something while no command runs."""
        self._waiting = True
        try:
            if self.asked is not None:
                raise SystemExit(128 + self.asked)
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number
        if self._command is not None:
            self._command.signal(number)
        elif self._waiting:
            raise SystemExit(128 + number)
