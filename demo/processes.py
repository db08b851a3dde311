"""The processes that a demo starts, each with its children in a group that is paused, woken and killed as one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from testbed.process import ProcessFailed

ROOT = Path(__file__).parents[1]


class DemoFailed(Exception):
    """Something did not go as the demo is meant to go; the message says what, and where the log lies."""


@contextmanager
def border() -> Iterator[None]:
    """Raise `DemoFailed` for a part of the testbed that failed in the block."""
    try:
        yield
    except ProcessFailed as failure:
        raise DemoFailed(str(failure)) from failure


class Process:
    """``python -m module arguments…`` as the leader of a process group, its output in a log file."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], log: Path, scratch: Path) -> None:
        self.name = name
        self._log = log
        environment = {
            **_inherited(os.environ),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
        }
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def pause(self) -> None:
        """SIGSTOP to the group."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT to the group."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM to the process itself."""
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL to the group: a JVM outlives its Python otherwise. Also after its end, for what it left behind."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float) -> int:
        """Wait for its end; the exit status. Raises `DemoFailed` when it still runs after that time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise self.failed(f"still runs after {seconds:g} s") from error

    def failed(self, complaint: str) -> DemoFailed:
        """The error to raise about this process, with the end of its log."""
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
        return DemoFailed(f"{self.name} {complaint}\n--- the end of {self._log} ---\n{tail}")


class Processes:
    """All processes of a run, with logs and temporary files under ``directory``.

    Leaving the block kills what still runs and removes the temporary files, which killed processes leave behind.
    """

    def __init__(self, directory: Path) -> None:
        self._logs = directory / "logs"
        self.scratch = directory / "scratch"
        for made in (self._logs, self.scratch):
            made.mkdir(parents=True, exist_ok=True)
        self._started: list[Process] = []

    def start(self, name: str, module: str, *arguments: str) -> Process:
        """Start one; its log is named after it."""
        log = self._logs / f"{name.replace(' ', '-')}.log"
        process = Process(name, module, arguments, log, self.scratch)
        self._started.append(process)
        return process

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the settings of a server that somebody may have set for their own."""
    return {key: value for key, value in environment.items() if not key.startswith("MILEPOST_")}
