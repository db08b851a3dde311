"""A pytest plugin: real services that all processes of one run of the tests share.

Each worker of xdist is a process. What one of them asks for is started once, by the process that gives the tests out,
and ended by it when all tests are over. The workers ask it over a socket that only this user and this run can use.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, TypeVar

import pytest

S = TypeVar("S")

MOST = 16
"""How many services one run may have: each is started in a thread of its own, and ends with that thread at the latest
(testbed/process.py)."""

_ADDRESS, _KEY = "milepost_run_services", "milepost_run_services_key"


class RunServices:
    """Starts each service when it is first asked for, and ends all of them in the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ends = ExitStack()
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="service")
        self._asked: dict[str, Future[Any]] = {}
        self._lock = threading.Lock()

    def get(self, name: str, start: Callable[[Path], AbstractContextManager[S]]) -> S:
        """Return what ``start`` yields, given a directory of its own; it is called once for each ``name``."""
        with self._lock:
            if name not in self._asked:
                if len(self._asked) == MOST:
                    raise RuntimeError(f"one run has at most {MOST} shared services")
                self._asked[name] = self._threads.submit(self._start, name, start)
            asked = self._asked[name]
        started: S = asked.result()
        return started

    def _start(self, name: str, start: Callable[[Path], AbstractContextManager[S]]) -> S:
        directory = self._directory / name
        directory.mkdir()
        return self._ends.enter_context(start(directory))

    def close(self) -> None:
        """End all services, the latest first."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._ends.close()


class _Manager(BaseManager):
    """Lets other processes call `RunServices.get`; what a service yields is pickled on the way."""


_Manager.register("services")


class Giver:
    """The services in the process that gives tests out to workers, or runs them itself."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="milepost-run-", ignore_cleanup_errors=True)
        self.services = RunServices(Path(self._place.name))

        class Serving(BaseManager):
            """Has the services themselves, where a worker's `_Manager` asks for them."""

        Serving.register("services", callable=lambda: self.services, exposed=["get"])
        self._key = bytes(multiprocessing.current_process().authkey)
        self._server = Serving(authkey=self._key).get_server()
        threading.Thread(target=self._server.serve_forever, name="run-services", daemon=True).start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a new worker where to ask."""
        node.workerinput[_ADDRESS], node.workerinput[_KEY] = self._server.address, self._key.hex()

    def pytest_unconfigure(self) -> None:
        self.services.close()
        self._place.cleanup()


def of(config: pytest.Config) -> Any:
    """The services of this run, as this process reaches them: an object with `RunServices.get`."""
    told = getattr(config, "workerinput", None)
    if told is None:
        giver: Giver = config.pluginmanager.getplugin("milepost-run-services-giver")
        return giver.services
    key = bytes.fromhex(told[_KEY])
    multiprocessing.current_process().authkey = key
    manager = _Manager(told[_ADDRESS], key)
    manager.connect()
    return manager.services()  # type: ignore[attr-defined]  # made by `register`


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Giver(), "milepost-run-services-giver")
