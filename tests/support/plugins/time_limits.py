"""A pytest plugin: a test is ended and named within its time limit, whatever it does, and before it takes all memory.

pytest-timeout raises an exception in the test when the time is nearly up, so that it fails as others do. A test that
spins, swallows the exception or stands in C code goes on all the same, and so does one whose end hangs after it has
failed. Those are killed, with their process, by another process (see warden.py), which names them; xdist goes on with
another worker (see each_once.py).
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout

from tests.support import each_once

BYTES_EACH = int(os.environ.get("MILEPOST_TEST_BYTES", 3 << 30))
"""What one process of a test may take: several times what any does."""

SOFT = 0.9
"""Of a time limit: then the exception is raised."""

END_SECONDS = float(os.environ.get("MILEPOST_TEST_END_SECONDS", 120.0))
"""For what comes after the last test, as threads that are still at work."""


class TimeLimits:
    """Tells the warden what is being done, and how long it may take."""

    def __init__(self) -> None:
        stderr = os.dup(2)  # before pytest captures it
        warden = Path(__file__).with_name("warden.py")
        self._warden = subprocess.Popen(
            [sys.executable, "-I", "-S", str(warden), str(os.getpid()), str(BYTES_EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        faulthandler.register(signal.SIGUSR2, file=stderr, all_threads=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """The limit counts what is set up before the test and taken down after it as well."""
        limit = pytest_timeout._get_item_settings(item).timeout
        self._tell(f"{limit or float('inf')} {item.nodeid}")
        try:
            return (yield)
        finally:
            self._tell("")

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool:
        """Let the exception come a little before the end."""
        pytest_timeout.pytest_timeout_set_timer(item, settings._replace(timeout=SOFT * settings.timeout))
        return True

    def pytest_enter_pdb(self) -> None:
        """Whoever looks into a test has all the time in the world."""
        self._tell("")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """A worker waits here for the others, however long their tests take, and then xdist ends it itself."""
        if not hasattr(config, "workerinput"):
            self._tell(f"{END_SECONDS} the end of the run")

    def _tell(self, line: str) -> None:
        assert self._warden.stdin is not None
        self._warden.stdin.write(line.encode() + b"\n")
        self._warden.stdin.flush()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.register(TimeLimits(), "milepost-time-limits")
    else:  # the tests run in workers, each with a warden of its own
        config.pluginmanager.register(each_once.Controller(), "milepost-each-once")
