"""A driver under test as a process group: its Python and its JVM, followed, killed, frozen and thawed for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

ROOT = Path(__file__).parents[3]
DEADLINE_SECONDS = 600.0
_POLL_SECONDS = 0.03


class DriverFailed(AssertionError):
    """A driver did not do in time what was waited for; the message ends with its events and its log."""


class Settings(Protocol):
    """What every driver under test is told: where its events go, and for which files it stands still."""

    @property
    def events(self) -> str: ...

    @property
    def go(self) -> str: ...

    @property
    def on(self) -> str: ...

    def encode(self) -> str: ...


class Driver:
    """A driver under test, `tests.spark.under_test.program`, in a process group of its own that ends with the test."""

    def __init__(self, setup: Settings, program: str = "tests.spark.under_test.program") -> None:
        self.setup = setup
        self.log = Path(setup.events).with_suffix(".log")
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, setup.encode()],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether its Python has not ended yet."""
        return self._process.poll() is None

    def events(self) -> list[dict[str, Any]]:
        """The events that it has written so far, each a line; it may be in the midst of one."""
        path = Path(self.setup.events)
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def event(self, name: str) -> dict[str, Any] | None:
        """The first event of this name, if there was one."""
        return next((event for event in self.events() if event["event"] == name), None)

    def wait_for(self, *events: str, deadline: float = DEADLINE_SECONDS) -> dict[str, Any]:
        """The first of these events to come. Raises `DriverFailed` when it does not, or when the driver ends before."""
        until = time.monotonic() + deadline
        while True:
            ended = self._process.poll() is not None
            for event in self.events():
                if event["event"] in events:
                    return event
            if ended or time.monotonic() > until:
                raise self.failed(f"did not report {' or '.join(events)}, {'ended' if ended else f'in {deadline} s'}")
            time.sleep(_POLL_SECONDS)

    def until(self, holds: Callable[[], bool], complaint: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until something holds. Raises `DriverFailed` when it does not, or when the driver ends before."""
        until = time.monotonic() + deadline
        while True:
            over = not self.running or time.monotonic() > until  # looked at first: it may do it and end
            if holds():
                return
            if over:
                raise self.failed(complaint)
            time.sleep(_POLL_SECONDS)

    def wait(self, deadline: float = DEADLINE_SECONDS) -> int:
        """Wait for the end of its Python; the exit status, negative for a signal."""
        try:
            return self._process.wait(deadline)
        except subprocess.TimeoutExpired as error:
            raise self.failed(f"still runs after {deadline} s") from error

    def kill_python(self) -> None:
        """SIGKILL for Python alone: the JVM notices in its own time. Raises `DriverFailed` if it had ended before."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._was_killed()

    def kill(self) -> None:
        """SIGKILL for Python and JVM at once. Raises `DriverFailed` if it had ended before."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._was_killed()

    def terminate(self) -> None:
        """SIGTERM for Python alone, as a process manager sends it to the main process."""
        os.kill(self._process.pid, signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP for Python and JVM. Raises `DriverFailed` if it had ended before."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        state = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state is None or state.si_code != os.CLD_STOPPED or self._is_done():
            raise self.failed("had ended before it was frozen")

    def send(self, number: signal.Signals, whom: str) -> bool:
        """Send a signal to its ``python``, its ``jvm`` or ``both``; whether it was there to get it."""
        if not self.running:
            return False
        jvm = self._jvm() if whom == "jvm" else None
        if whom == "jvm" and jvm is None:
            return False
        with suppress(ProcessLookupError):
            if whom == "both":
                os.killpg(self._process.pid, number)
            else:
                os.kill(self._process.pid if jvm is None else jvm, number)
            return True
        return False

    def let_go(self) -> None:
        """Let it go on from the point where it stands still of itself."""
        Path(self.setup.go).touch()

    def thaw(self) -> None:
        """SIGCONT for Python and JVM, and let it go on from wherever it stands still."""
        self.let_go()
        if self.setup.on:
            Path(self.setup.on).touch()
        os.killpg(self._process.pid, signal.SIGCONT)

    def failed(self, complaint: str) -> DriverFailed:
        """An error that tells all about this driver."""
        log = self.log.read_text(errors="replace")[-6000:]
        return DriverFailed(f"{self.setup.events} {complaint}\n--- events ---\n{self.events()}\n--- log ---\n{log}")

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):  # nobody of it is left
            os.killpg(self._process.pid, signal.SIGKILL)
        self.wait()

    def _was_killed(self) -> None:
        """Make sure that it was the signal that ended it, in the midst of its work."""
        if self.wait() != -signal.SIGKILL or self._is_done():
            raise self.failed("had ended before it was killed")

    def _jvm(self) -> int | None:
        """The process of its JVM, a child of its Python."""
        tasks = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError):  # either may end at this moment
            for child in tasks.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                    return int(child)
        return None

    def _is_done(self) -> bool:
        return any(event["event"] in ("finished", "ended", "left") for event in self.events())
