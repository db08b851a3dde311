"""Runs ``python -m milepost_server`` as a real process on a free port of 127.0.0.1; it ends with its parent."""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process, ProcessFailed

__all__ = ["DEADLINE_SECONDS", "ROOT", "ServerFailed", "ServerProcess"]

S = TypeVar("S", bound="ServerProcess")

ALL_AS_BLOBS = ("--inline-below", "0")
"""With these flags small states are blobs as large ones are: for who looks at what becomes of blobs."""

ROOT = Path(__file__).parents[1]

ServerFailed = ProcessFailed


class ServerProcess(Process):
    """One replica, which is always started on the same port; what it logs is appended to one file.

    ``directory`` holds the log and, unless ``pointers`` and ``blobs`` name other places, the data. Replicas that are
    given the same ``pointers`` and ``blobs`` belong together. ``wrapper`` is put before the command (``unshare --mount
    …``), and must replace itself by the command (exec), so that `pid` is that of the server. ``flags`` may be changed
    between two starts. ``tls`` is how a server is reached whose flags let it speak TLS.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        pointers: str | None = None,
        blobs: str | None = None,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        detached: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        port = Port()
        self.port = port.number
        self.url = f"http{'s' if tls else ''}://{port.address}"
        self.directory = directory
        self.flags = flags
        self.pointers = pointers or f"embedded:{directory}/pointers"
        self.blobs = blobs or f"file:{directory}/blobs"
        self._wrapper = tuple(wrapper)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MILEPOST_")}
        super().__init__(
            self.url,
            (),
            log_path=directory / f"server-{self.port}.log",
            directory=ROOT,
            environment={**inherited, **(environment or {})},
            detached=detached,
        )

    def start(
        self: S,
        ready: Callable[[], bool] | None = None,
        deadline: float = DEADLINE_SECONDS,
        *,
        until: str | None = "/leader",
    ) -> S:
        """Start the server and wait until ``ready()``; without that, until it answers GET ``until`` with 200.

        It answers ``/leader`` so when it leads, ``/livez`` when it lives, and ``/readyz`` when it leads or knows who
        does. With None for both, this does not wait.
        """
        # The SDK is tested on Pythons that the server does not run on.
        python = os.environ.get("MILEPOST_SERVER_PYTHON", sys.executable)
        self.command = (*self._wrapper, python, "-m", "milepost_server", *self._arguments())
        if ready is None and until is not None:
            ready = partial(self._answers, until)
        return super().start(ready, deadline)

    # -- looking at it ---------------------------------------------------------------------------------------------

    def wait_for(self, path: str, status: int = 200, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until GET ``path`` is answered with ``status``. Raises `ServerFailed`."""
        self.wait_until(partial(self._answers, path, status), f"GET {path} is not answered {status}", deadline)

    def wait_for_log(self, text: str, deadline: float = DEADLINE_SECONDS) -> None:
        """Wait until ``text`` stands in the log. Raises `ServerFailed`."""
        self.wait_until(lambda: text in self.logged(), f"{text!r} is not logged", deadline)

    def status_of(self, path: str, timeout: float = 5.0) -> int | None:
        """Return the status of the answer to GET ``path``; None if nobody answers within ``timeout`` seconds."""
        connection = self._connection(timeout)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def memory(self, field: str = "VmRSS") -> int:
        """Return its memory in bytes, from /proc: ``VmRSS`` is that of now, ``VmHWM`` the most since `forget_peak`."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise self.failed(f"/proc tells no {field}")

    def forget_peak(self) -> None:
        """Let ``VmHWM``, the highest memory, count from now on (see proc(5), clear_refs)."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _arguments(self) -> list[str]:
        places = ["--pointers", self.pointers, "--blobs", self.blobs]
        return ["--listen", f"127.0.0.1:{self.port}", "--advertise", self.url, *places, *self.flags]

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self._tls)

    def _answers(self, path: str, status: int = 200) -> bool:
        return self.status_of(path) == status
