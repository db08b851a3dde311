"""Starts the command of a job as a process group of its own, ends all of that group, and passes on to it the signals
that ask this process to end.
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
"""Seconds for which the rest of a killed group is waited for. What hangs in the kernel even then is left to it."""

_ENDED = frozenset("ZX")

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""What a terminal, a service manager or a user ends a program with. Not handled, SIGQUIT would leave the command alone;
for Java it is no reason to end, so such a command tells where its threads stand, and is killed after its grace."""


class CannotStart(Exception):
    """The command cannot be started; ``found`` says whether there is such a program."""

    def __init__(self, program: str, error: OSError) -> None:
        super().__init__(f"{program or repr(program)} cannot be started: {error.strerror}")
        self.found = not isinstance(error, FileNotFoundError)


class Command:
    """A command that runs, with whatever it starts. It has a process group and a session of its own, so that what a
    terminal or a caller sends to this process comes to the command only as far as it is passed on.

    Making it starts it. ``signalled`` says whether it was sent a signal from here while it ran: if not, it ended by
    itself. Raises `CannotStart`.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.signalled = False
        try:
            if not arguments[0]:  # each directory of the PATH would be taken for the program
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._process = subprocess.Popen(arguments, env=environment, start_new_session=True)
        except OSError as error:
            raise CannotStart(arguments[0], error) from error
        self.pid = self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status as a shell counts it, so 128 and the number of a signal that ended it; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, if anything of it is left."""
        self.signalled = self.signalled or self.status is None
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # it has ended meanwhile
        except PermissionError:
            _log.warning("process group %s belongs to another user, and did not get signal %d", self.pid, number)

    def end(self, grace: float) -> int:
        """End the whole group by SIGTERM, and what is left of it after ``grace`` seconds by SIGKILL; return the status
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
        """Return whether anything of the group lives."""
        return self.status is None or _lives(self.pid)


def _lives(group: int) -> bool:
    """Return whether anything of the group runs.

    A signal also reaches what has ended, so where there is a ``/proc``, that is asked: a process 1 that asks no orphan
    for its status, as in many containers, would keep the group for ever.
    """
    with suppress(ChildProcessError):  # where this is process 1, orphans of the group become its children
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so also of what has ended, and whose status nobody has asked for
        if sys.platform == "darwin":
            return False
    states = _states(group)
    return not states or not states <= _ENDED


def _states(group: int) -> set[str]:
    """Return the states of its processes, as Linux calls them; nothing where they cannot be seen."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            state, _parent, of = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of) == group:
                found.add(state)
    return found


class Signals:
    """``asked`` is the last signal that asked this process to end, if any did. Within a ``with`` block of this object,
    the command that `passed_to` names gets each of them; a `wait` for something else ends by SystemExit.

    Python delivers signals to the main thread alone; in another thread this does nothing.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._command: Command | None = None
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def passed_to(self, command: Command | None) -> None:
        """Pass signals on to ``command`` from now on, also the one that came while it was started; None: to nobody."""
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
