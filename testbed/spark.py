"""Runs a standalone cluster from the jars in the ``pyspark`` wheel: a master, and workers that share no disk."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from testbed.apart import apart
from testbed.java import FOR_SMALL, java
from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process, ProcessFailed

_OPTIONS = (
    *FOR_SMALL,
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Dspark.master.rest.enabled=false",
    "-Dspark.worker.timeout=15",
)
# Workers look for these in a directory of Spark's build, which the wheel does not have.
_LAID_OUT = {"SPARK_SCALA_VERSION": "2.13"}
_START_SECONDS = 240.0
"""For three JVMs that start at once, on a machine that is busy with others."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class _Daemon(Process):
    """A master or a worker. Its ports stay the same from one start to the next."""

    def __init__(
        self, name: str, main: str, directory: Path, host: str, wrapper: Sequence[str], arguments: Sequence[str]
    ) -> None:
        self.port = Port(host)
        self._page = Port()
        self.directory = directory
        home = _spark_home()
        ports = ["--host", host, "--port", str(self.port.number), "--webui-port", str(self._page.number)]
        super().__init__(
            name,
            [*wrapper, str(java()), *_OPTIONS, "-cp", f"{home}/jars/*", main, *ports, *arguments],
            log_path=directory / f"{name}.log",
            directory=directory,
            environment={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **_LAID_OUT},
        )

    def state(self) -> dict[str, Any] | None:
        """Return what it says about itself; None without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._page.number, timeout=5)
        try:
            connection.request("GET", "/json/")
            state: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        else:
            return state
        finally:
            connection.close()


class Master(_Daemon):
    """The server that hands the executors of workers to drivers."""

    def __init__(self, directory: Path) -> None:
        super().__init__("master", "org.apache.spark.deploy.master.Master", directory, "127.0.0.1", (), ())

    @property
    def url(self) -> str:
        """What a driver takes for ``spark.master``."""
        return f"spark://{self.port.address}"

    def alive(self) -> int:
        """Return how many workers it knows of."""
        state = self.state()
        return 0 if state is None else int(state["aliveworkers"])


class Worker(_Daemon):
    """A server that starts executors. It and they see no file of anybody else: /tmp and ``hidden`` are empty for them.

    It has an address of its own, 127.0.0.2 or one above: Spark runs a task once more only on another host.
    What they write into ``directory`` can be seen from outside: their logs are in ``work``.
    """

    def __init__(self, directory: Path, number: int, url: str, hidden: Path, cores: int, memory: str) -> None:
        arguments = ("--cores", str(cores), "--memory", memory, "--work-dir", f"{directory}/work", url)
        wrapper = apart(directory, [hidden])
        main, host = "org.apache.spark.deploy.worker.Worker", f"127.0.0.{1 + number}"
        super().__init__(f"worker-{number}", main, directory, host, wrapper, arguments)

    def executors(self, application: str) -> list[Executor]:
        """Return the executors of an application that run here."""
        found, here = [], os.readlink(f"/proc/{self.pid}/ns/pid_for_children")
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it may have ended meanwhile
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if _EXECUTOR in words and application in words and os.readlink(process / "ns" / "pid") == here:
                    found.append(Executor(words[words.index("--executor-id") + 1], int(process.name)))
        return found


@dataclass(frozen=True)
class Executor:
    """An executor: its number in its application, and its process."""

    number: str
    pid: int

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send(signal.SIGKILL)

    def pause(self) -> None:
        """Send SIGSTOP."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send any signal."""
        os.kill(self.pid, number)


class Standalone:
    """A master and some workers, each with its own place below ``directory``; ``hidden`` is what no worker sees."""

    def __init__(self, directory: Path, *, hidden: Path, workers: int = 2, cores: int = 2, memory: str = "2g") -> None:
        places = {name: directory / name for name in ["master", *(f"worker-{n}" for n in range(1, workers + 1))]}
        for place in places.values():
            place.mkdir(parents=True, exist_ok=True)
        self.master = Master(places["master"])
        self.workers = [
            Worker(places[f"worker-{number}"], number, self.master.url, hidden, cores, memory)
            for number in range(1, workers + 1)
        ]

    def serve(self, deadline: float = DEADLINE_SECONDS) -> Standalone:
        """Start what does not run, and wait until the master knows all workers. Raises `ProcessFailed`."""
        for daemon in (self.master, *self.workers):
            if not daemon.running:
                daemon.start()

        def all_known() -> bool:
            for worker in self.workers:
                if not worker.running:
                    raise worker.failed(f"ended with {worker.wait()} before the master knew it")
            return self.master.alive() == len(self.workers)

        self.master.wait_until(all_known, "does not know all workers", deadline)
        return self

    def executors(self, application: str) -> list[Executor]:
        """Return the executors of an application, on all workers."""
        return [executor for worker in self.workers for executor in worker.executors(application)]

    def kill(self) -> None:
        """Kill everything, the executors with it."""
        for daemon in (*self.workers, self.master):
            daemon.kill()


@contextmanager
def standalone(directory: Path, *, hidden: Path) -> Iterator[Standalone]:
    """Run a cluster for a test until the end of the block. Inside the block it serves."""
    cluster = Standalone(directory, hidden=hidden)
    try:
        yield cluster.serve(_START_SECONDS)
    finally:
        cluster.kill()


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ProcessFailed("pyspark is not installed, whose jars hold Spark")
    return Path(spec.origin).parent
