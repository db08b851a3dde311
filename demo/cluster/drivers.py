"""The drivers of the job: their commands, their processes, and what their logs tell of them."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from demo.cluster.jar import spark_home
from demo.timeline import BEGAN, FAILED, FENCED, LEADS, PUBLISHED, STANDBY, EventLog
from testbed.lifetimes import began
from testbed.process import Process

_LEADS = re.compile(r"leading job \S+ under epoch (\d+), started process (\d+)")
_BATCH = re.compile(r"batch (\d+) (begins|is written)")
_STANDS_BY = "standing by: "
_REFUSED = "AccessControlException"
_ERROR = re.compile(r"\[[A-Z_]{6,}[.\]].*")


@dataclass(frozen=True)
class Job:
    """What a driver of either kind is told: ``arguments`` are those of the jar."""

    jar: Path
    connector: Sequence[Path]
    arguments: Sequence[str]
    settings: Mapping[str, str]
    java_options: str


def submitted(job: Job, master: str, settings: Mapping[str, str]) -> list[str]:
    """The command of a user who has no Milepost."""
    conf = [part for key, value in {**job.settings, **settings}.items() for part in ("--conf", f"{key}={value}")]
    return [
        str(spark_home() / "bin" / "spark-submit"),
        "--master", master,
        "--driver-java-options", job.java_options,
        "--jars", ",".join(map(str, job.connector)),
        *conf,
        "--class", "Flights", str(job.jar), *job.arguments,
    ]  # fmt: skip


def supervised(urls: Sequence[str], name: str, ttl: float, holder: str, command: Sequence[str]) -> list[str]:
    """The same under Milepost, as one of several that stand by for one another."""
    milepost = str(Path(sys.executable).with_name("milepost"))
    options = ["--job", name, "--standby", "--ttl", f"{ttl:g}", "--holder", holder]
    return [milepost, "--url", ",".join(urls), "run", *options, "--", *command]


class Driver:
    """A driver by ``name``, of one kind or the other; ``log`` keeps what it tells. Nothing runs before `start`."""

    def __init__(self, name: str, command: Sequence[str], file: Path, scratch: Path, log: EventLog) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MILEPOST_")}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
        self.name = name
        self.process = Process(name, command, log_path=file, environment=environment, detached=True)
        self._log = log
        self._read = 0
        self._groups: list[int] = []
        self._refused = False
        self._ended = False

    def start(self) -> None:
        """Start it, as the leader of a process group. Under Milepost, its command gets another group."""
        self.process.start()
        self._groups = [self.process.pid]
        self._refused = self._ended = False

    def pause(self) -> None:
        """SIGSTOP to all of it."""
        for group in reversed(self._groups):
            os.killpg(group, signal.SIGSTOP)

    def wake_command(self) -> None:
        """SIGCONT to the JVM."""
        os.killpg(self._groups[-1], signal.SIGCONT)

    def wake(self) -> None:
        """SIGCONT to what supervises it as well."""
        self.process.resume()

    def kill(self) -> None:
        """SIGKILL to all of it. Idempotent; also after its end, for what it left behind."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.kill()

    def poll(self) -> None:
        """Note what it has told since the last time."""
        if not self.process.log_path.exists():
            return
        with self.process.log_path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._note(line)

    def has_failed(self) -> bool:
        """Whether its JVM has ended, and nobody has started another; the first time, that is noted with its reason.

        One that was refused has failed of that.
        """
        if not self._ended and began(self._groups[-1]) is None:
            self.poll()
            self._ended = True
            if not self._refused:
                self._log.note(self.name, FAILED, detail=self._last_error())
        return self._ended

    def _note(self, line: str) -> None:
        if match := _LEADS.search(line):
            self._groups[1:] = [int(match[2])]
            self._refused = self._ended = False
            self._log.note(self.name, LEADS, epoch=int(match[1]))
        elif match := _BATCH.fullmatch(line):
            self._log.note(self.name, BEGAN if match[2] == "begins" else PUBLISHED, int(match[1]))
        elif _STANDS_BY in line:
            self._log.note(self.name, STANDBY)
        elif _REFUSED in line and not self._refused:
            self._refused = True
            self._log.note(self.name, FENCED, detail=_REFUSED)

    def _last_error(self) -> str:
        """The last thing in its log that has the form of an error of Spark's."""
        found = _ERROR.findall(self.process.logged())
        return str(found[-1]) if found else "without a reason"
