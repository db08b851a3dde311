"""Starts the command of a job as a process group, and ends the whole group.

It forwards to the group the signals that ask this process to end.
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

from milepost.signals import Ended, sent_again_if_dropped

_log = logging.getLogger(__name__)
_POLL = 0.05
_AFTER_KILL = 5.0
"""The seconds to wait after SIGKILL for the end of a group. A process that hangs in the kernel longer is left
behind.
"""

_ENDED = frozenset("ZX")

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""The signals by which a terminal, a service manager or a user asks a program to end.

SIGQUIT is one of them, since without a handler it would end this process, but not the command. A Java command does not
end on SIGQUIT: it prints its threads, and is killed after its grace period.
"""


class CannotStart(Exception):
    """The command cannot be started. ``found`` is False if the program does not exist."""

    def __init__(self, program: str, error: OSError) -> None:
        super().__init__(f"{program or repr(program)} cannot be started: {error.strerror}")
        self.found = not isinstance(error, FileNotFoundError)


class Command:
    """A running command, with all processes that it starts.

    It has its own process group and session. So a signal that a terminal or a service manager sends to this process
    reaches the command only if this process forwards it.

    Making the object starts the command. ``signalled`` is True once this process has sent a signal to the running
    command: if it is False at the end, the command ended by itself. Raises `CannotStart`.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.signalled = False
        try:
            if not arguments[0]:  # for an empty name, Popen would try to run each directory of the PATH
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._process = subprocess.Popen(arguments, env=environment, start_new_session=True)
        except OSError as error:
            raise CannotStart(arguments[0], error) from error
        self.pid = self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status of the command, as a shell has it: 128 plus the number of the signal that ended it, if one
        did.

        None while the command runs.
        """
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the group that still run."""
        self.signalled = self.signalled or self.status is None
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # all processes of the group have ended already
        except PermissionError:
            _log.warning("process group %s belongs to another user, and did not get signal %d", self.pid, number)

    def end(self, grace: float) -> int:
        """End the whole group with SIGTERM, and what still runs after ``grace`` seconds with SIGKILL.

        Return the exit status of the command.
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
        """Return whether the command or any other process of its group runs."""
        return self.status is None or _lives(self.pid)


def _lives(group: int) -> bool:
    """Return whether any process of the group runs.

    The states of the processes are read from ``/proc``, if that exists, since a signal also reaches a zombie. In a
    container whose process 1 does not reap orphans, the zombies of a group remain for ever.
    """
    # if this process is process 1, it must reap the orphans of the group, which are its children
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS raises this for a zombie as well
        if sys.platform == "darwin":
            return False
    states = _states(group)
    return not states or not states <= _ENDED


def _states(group: int) -> set[str]:
    """Return the state letters of the group's processes from Linux's ``/proc``; empty if they cannot be read."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # a process may end before its state is read
            state, _parent, of = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of) == group:
                found.add(state)
    return found


class Signals:
    """Handles the signals that ask this process to end, within a ``with`` block of this object.

    They are forwarded to the command that `passed_to` names; during `wait` they raise SystemExit. ``asked`` is the last
    such signal, or None. Python delivers signals only to the main thread, so in another thread this object does
    nothing.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._command: Command | None = None
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                # a signal that is ignored stays ignored, such as SIGHUP under nohup
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def passed_to(self, command: Command | None) -> None:
        """Forward signals to ``command`` from now on; None: to no command.

        If a signal came while the command was being started, it is forwarded now.
        """
        self._command = command
        if command is not None and self.asked is not None:
            command.signal(self.asked)

    def ask(self) -> None:
        """Ask the command to end as after SIGTERM to this process, from any thread. A command that is being started
        gets it later (`passed_to`).
        """
        self.asked = signal.SIGTERM
        if self._command is not None:
            self._command.signal(signal.SIGTERM)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let a signal raise SystemExit in the block. Use it for waits while no command runs."""
        self._waiting = True
        try:
            if self.asked is not None:
                raise Ended(self.asked)
            with sent_again_if_dropped():
                yield
        finally:
            self._waiting = False

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number
        if self._command is not None:
            self._command.signal(number)
        elif self._waiting:
            raise Ended(number)
