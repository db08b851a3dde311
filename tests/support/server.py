"""``python -m service`` as a real process on a free port of 127.0.0.1, ended with the test that started it."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.02


class ServerFailed(AssertionError):
    """The process ended, or did not do in time what was waited for; the message ends with its log."""


class ServerProcess:
    """One replica, made anew by each `start` on the same port; what it logs is appended to one file.

    ``directory`` is where the log and, unless ``pointers`` and ``blobs`` say otherwise, the data lie; two replicas
    share one by sharing those URLs. ``wrapper`` is put before the command (``unshare --mount …``) and must replace
    itself by it, so that `pid` is the server's. ``flags`` may be changed between two starts.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        pointers: str | None = None,
        blobs: str | None = None,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._reservation = _reserved()
        self.port: int = self._reservation.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.directory = directory
        self.flags = flags
        self.pointers = pointers or f"embedded:{directory}/pointers"
        self.blobs = blobs or f"file:{directory}/blobs"
        self.log_path = directory / f"server-{self.port}.log"
        self._log_begin = 0
        self._wrapper = tuple(wrapper)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, until: str | None = "/leader", deadline: float = DEADLINE_SECONDS) -> ServerProcess:
        """Start it and wait until it answers ``until`` with 200: ``/leader`` when it leads, ``/livez`` when it lives,
        ``/readyz`` when it leads or knows who does; None does not wait.
        """
        assert self._process is None or self._process.poll() is not None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        # The SDK is tested on Pythons that the server does not run on.
        python = os.environ.get("MILEPOST_SERVER_PYTHON", sys.executable)
        command = [*self._wrapper, python, "-m", "service", *self._arguments()]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MILEPOST_")}
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**inherited, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if until is not None:
            try:
                self.wait_for(until, deadline=deadline)
            except BaseException:
                self.kill()
                raise
        return self

    def terminate(self) -> None:
        """SIGTERM, without waiting for the end."""
        self.signal(signal.SIGTERM)

    def stop(self, deadline: float = DEADLINE_SECONDS) -> int:
        """SIGTERM, then wait for the end; the exit status."""
        self.terminate()
        return self.wait(deadline)

    def kill(self) -> None:
        """SIGKILL, and wait for the end. Idempotent."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(DEADLINE_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Any other signal, SIGSTOP and SIGCONT for a pause."""
        assert self._process is not None, "it was never started"
        self._process.send_signal(number)

    def wait(self, deadline: float = DEADLINE_SECONDS) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        assert self._process is not None, "it was never started"
        try:
            return self._process.wait(deadline)
        except subprocess.TimeoutExpired as error:
            raise self._failed(f"still runs after {deadline} s") from error

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the running process, or of the last one."""
        assert self._process is not None, "it was never started"
        return self._process.pid

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._reservation.close()

    # -- looking at it ---------------------------------------------------------------------------------------------

    def wait_for(self, path: str, status: int = 200, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until GET ``path`` is answered with ``status``. Raises `ServerFailed`."""
        self.wait_until(lambda: self.status_of(path) == status, f"GET {path} is not answered {status}", deadline)

    def wait_for_log(self, text: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until ``text`` stands in the log. Raises `ServerFailed`."""
        self.wait_until(lambda: text in self.logged(), f"{text!r} is not logged", deadline)

    def wait_until(self, holds: Callable[[], bool], complaint: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until ``holds()``. Raises `ServerFailed` with the ``complaint`` when the process ends before it."""
        end = time.monotonic() + deadline
        while not holds():
            if not self.running:
                raise self._failed(f"{complaint}: it ended with {self.wait()}")
            if time.monotonic() > end:
                raise self._failed(f"{complaint} after {deadline} s")
            time.sleep(_POLL_SECONDS)

    def status_of(self, path: str) -> int | None:
        """The status of GET ``path``, None where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def logged(self) -> str:
        """What it has logged since its last start; the file at ``log_path`` holds what it logged before as well."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[self._log_begin :].decode(errors="replace")

    def memory(self, field: str = "VmRSS") -> int:
        """Its memory in bytes as /proc tells it: ``VmRSS`` now, ``VmHWM`` the highest since `forget_peak`."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise self._failed(f"/proc tells no {field}")

    def forget_peak(self) -> None:
        """Let ``VmHWM`` count from now (see proc(5), clear_refs)."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _arguments(self) -> list[str]:
        places = ["--pointers", self.pointers, "--blobs", self.blobs]
        return ["--listen", f"127.0.0.1:{self.port}", "--advertise", self.url, *places, *self.flags]

    def _failed(self, complaint: str) -> ServerFailed:
        return ServerFailed(f"{self.url} {complaint}\n--- its log ---\n{self.logged()[-8000:]}")


def _reserved() -> socket.socket:
    """A socket that is bound, but does not listen: it keeps its free port from others, and lets a server have it."""
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation
