"""Runs a program as a process: starts it, waits for it, pauses and ends it, and keeps its log in a file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

P = TypeVar("P", bound="Process")

DEADLINE_SECONDS = 120.0
_POLL_SECONDS = 0.02


class ProcessFailed(Exception):
    """The process ended, or did not do in time what somebody waited for. The message ends with its log."""


class Process:
    """A program that can be started again and again; what it prints is appended to one log file.

    The system kills the program when the thread that started it ends, even if that thread's process was killed. (Where
    the system has no ``setpriv``, only the end of a ``with`` block kills the program.) A program that is ``detached``
    is not killed: it gets a session of its own, and goes on after the process that started it has ended.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        """Make a process that `start` starts. ``environment`` is all of its variables; None: those of this process."""
        self.name = name
        self.command = tuple(command)
        self.log_path = log_path
        self.working_directory = directory
        self.environment = os.environ if environment is None else environment
        self._detached = detached
        self._log_begin = 0
        self._process: subprocess.Popen[bytes] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self: P, ready: Callable[[], bool] | None = None, deadline: float = DEADLINE_SECONDS) -> P:
        """Start the program and wait until ``ready()``; if that takes too long, kill it. Raises `ProcessFailed`."""
        if self.running:
            raise ProcessFailed(f"{self.name} runs already")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                [*self._tie(), *self.command],
                cwd=self.working_directory,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=self._detached,
            )
        if ready is not None:
            try:
                self.wait_until(ready, "is not ready", deadline)
            except BaseException:
                self.kill()
                raise
        return self

    def terminate(self) -> None:
        """Send SIGTERM, without waiting for the end."""
        self.signal(signal.SIGTERM)

    def stop(self, deadline: float = DEADLINE_SECONDS) -> int:
        """Send SIGTERM, wait for the end, and return the exit status. Raises `ProcessFailed`."""
        self.terminate()
        return self.wait(deadline)

    def end(self, grace: float = 10.0) -> None:
        """Send SIGTERM, and SIGKILL if that has not ended it after ``grace`` seconds, paused or not. Idempotent."""
        if self.running:
            self.terminate()
            self.resume()
            try:
                self.wait(grace)
            except ProcessFailed:
                self.kill()

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end. Idempotent."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(DEADLINE_SECONDS)

    def pause(self) -> None:
        """Send SIGSTOP, and wait until every thread has stopped: one on another processor goes on for a moment."""
        self.signal(signal.SIGSTOP)
        self.wait_until(lambda: stands_still(self.pid), "does not stop")

    def resume(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send any signal."""
        self._started().send_signal(number)

    def wait(self, deadline: float = DEADLINE_SECONDS) -> int:
        """Wait for the end; return the exit status, negative for a signal. Raises `ProcessFailed`."""
        try:
            return self._started().wait(deadline)
        except subprocess.TimeoutExpired as error:
            raise self.failed(f"still runs after {deadline} s") from error

    @property
    def running(self) -> bool:
        """Whether the process lives; also true while it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the running process, or of the last one."""
        return self._started().pid

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # -- looking at it ---------------------------------------------------------------------------------------------

    def wait_until(self, holds: Callable[[], bool], complaint: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until ``holds()``. Raises `ProcessFailed`, with ``complaint``, if the process ends or time runs out."""
        end = time.monotonic() + deadline
        while not holds():
            if not self.running:
                raise self.failed(f"{complaint}: it ended with {self.wait()}")
            if time.monotonic() > end:
                raise self.failed(f"{complaint} after {deadline} s")
            time.sleep(_POLL_SECONDS)

    def logged(self) -> str:
        """Return what was logged since the last start; the file at ``log_path`` also holds what was logged before."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[self._log_begin :].decode(errors="replace")

    def failed(self, complaint: str) -> ProcessFailed:
        """Return an error to raise, with the ``complaint`` and the end of the log."""
        return ProcessFailed(f"{self.name} {complaint}\n--- its log ---\n{self.logged()[-8000:]}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ProcessFailed(f"{self.name} was never started")
        return self._process

    def _tie(self) -> Sequence[str]:
        """Return the beginning of a command that makes the system kill the program when its parent thread ends."""
        setpriv = None if self._detached else shutil.which("setpriv")
        return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def stands_still(process: int) -> bool:
    """Return whether no thread of a process runs, as proc(5) shows it; always true where the system has no /proc."""
    return all(_state(thread) in "TtZX" for thread in Path(f"/proc/{process}/task").glob("*/stat"))


def with_descendants(process: int) -> list[int]:
    """Return a process, its children, theirs, and so on, as /proc shows them."""
    found = [process]
    for parent in found:  # it grows meanwhile
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                found += [int(child) for child in children.read_text().split()]
    return found


def _state(stat: Path) -> str:
    """Return the letter by which proc(5) shows what a thread does; X for a thread that is gone."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
