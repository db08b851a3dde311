"""A Milepost server for the length of a demo: embedded, on a free port of this machine."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

from demo.processes import Process, Processes
from testbed.ports import Port

_DEADLINE_SECONDS = 60.0
_STOP_SECONDS = 20.0


class EmbeddedService:
    """One server with its data under ``directory``."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._port = Port()
        self.url = f"http://{self._port.address}"
        self._process: Process = processes.start(
            "service", "milepost_server", "--listen", self._port.address, "--advertise", self.url,
            "--pointers", f"embedded:{directory}/pointers", "--blobs", f"file:{directory}/blobs",
        )  # fmt: skip

    @property
    def urls(self) -> list[str]:
        """Of the one replica."""
        return [self.url]

    def wait_until_it_leads(self) -> None:
        """Raises `DemoFailed` when it ends, or does not lead in time."""
        end = time.monotonic() + _DEADLINE_SECONDS
        while not self._leads():
            if self._process.exit_status is not None:
                raise self._process.failed(f"ended with {self._process.exit_status}")
            if time.monotonic() > end:
                raise self._process.failed(f"does not lead after {_DEADLINE_SECONDS:g} s")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in order. Raises `DemoFailed` when it ends with an error."""
        self._process.terminate()
        status = self._process.wait(_STOP_SECONDS)
        if status != 0:
            raise self._process.failed(f"ended with {status}")

    def _leads(self) -> bool:
        connection = http.client.HTTPConnection(self._port.address, timeout=5)
        try:
            connection.request("GET", "/leader")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
