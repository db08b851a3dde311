"""The owner of a job, who acts by the command ``milepost``, and the drivers that run meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from milepost.spark import Job
from tests.spark.jobs import Place, wait_until

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_COMMAND = [sys.executable, "-c", "from milepost.cli import main; main()"]
_SECONDS = 240


class Owner:
    """Runs commands against the service at ``url``, and counts those of each act."""

    def __init__(self, url: str) -> None:
        self._environment = {**os.environ, "MILEPOST_URL": url, "NO_COLOR": "1", "MILEPOST_CONFIG": os.devnull}
        self.commands: dict[str, int] = {}

    def does(self, act: str, *lines: str) -> str:
        """Run the commands of an act, each a line after ``milepost``; return what the last one says."""
        self.commands[act] = len(lines)
        return [self.says(*line.split()) for line in lines][-1]

    @contextmanager
    def doing(self, act: str, line: str) -> Iterator[None]:
        """Run the one command of an act beside the block."""
        self.commands[act] = 1
        with subprocess.Popen([*_COMMAND, *line.split()], env=self._environment, stderr=subprocess.PIPE) as begun:
            try:
                yield
                _, error = begun.communicate(timeout=_SECONDS)
            finally:
                begun.kill()
        assert begun.returncode == 0, f"{line}: {error.decode()}"

    def says(self, *arguments: str) -> str:
        """Run a command that succeeds; return what it says."""
        ended = self.run(*arguments)
        assert ended.returncode == 0, f"{arguments}: {ended.stderr}"
        return ended.stdout

    def refused(self, *arguments: str) -> str:
        """Run a command that is refused; return why."""
        ended = self.run(*arguments)
        assert ended.returncode == 1, f"{arguments}: {ended.stdout} {ended.stderr}"
        return ended.stderr

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_COMMAND, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def standbys(self, job: str) -> int:
        """How many drivers wait for the epoch."""
        return len(json.loads(self.says("jobs", "show", job, "--json"))["standbys"])

    def history(self, job: str) -> list[dict[str, Any]]:
        """The history of a job, the oldest entry first."""
        entries: list[dict[str, Any]] = json.loads(self.says("jobs", "history", job, "--limit", "500", "--json"))
        return entries[::-1]


@contextmanager
def running(place: Place, start: Callable[[Job], StreamingQuery], until: int) -> Iterator[None]:
    """Lead a job in a thread, which ends when a person wishes so; the block begins once the batch ``until`` is
    published, and must wish it.
    """
    published: list[int] = []
    errors: list[BaseException] = []

    def drive() -> None:
        try:
            with place.lead() as job:
                query = start(job)
                while not job.awaitTermination(query, 1):
                    published[:] = [job.published]
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            errors.append(error)

    thread = threading.Thread(target=drive, name="driver", daemon=True)
    thread.start()
    wait_until(lambda: published == [until] or not thread.is_alive())
    assert thread.is_alive(), errors
    yield
    thread.join(120)
    assert not thread.is_alive(), "the driver goes on"
    assert [error for error in errors if not isinstance(error, SystemExit)] == []
