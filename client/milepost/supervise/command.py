"""Starts the command of a job as a process group of its own, and ends all of that group."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from milepost.supervise.process_group import lives

_log = logging.getLogger(__name__)
_POLL = 0.05
_AFTER_KILL = 5.0
"""Seconds for which the rest of a killed group is waited for. What hangs in the kernel even then is left to it."""


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
        return self.status is None or lives(self.pid)
