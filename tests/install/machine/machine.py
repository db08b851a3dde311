"""Starts a machine, runs commands on it, and ends it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.process import Process, ProcessFailed

SECONDS = 2400.0
"""However a test ends: the machine does not live longer."""

_KEEPER = Path(__file__).with_name("keeper.sh")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_END_SECONDS = 30.0
SYSTEMD = ("/lib/systemd/systemd",)


class Machine:
    """The root file system in the tar file ``layer``, with the command ``init`` as its PID 1.

    It has namespaces of its own of every kind but that of time, its own control group as the root of all, and a network
    with nothing but ``lo``. One that is ``beside`` another has that one's network, and its users. All that it writes is
    in memory. It takes root and cgroup2 to start it; its own root has no right outside. Whatever it runs ends with this
    process.
    """

    def __init__(self, layer: Path, log: Path, init: Sequence[str], beside: Machine | None = None) -> None:
        self._layer = layer
        self._beside = beside
        self._cgroup = own_cgroup() / f"milepost-machine-{os.getpid()}-{time.monotonic_ns()}"
        self._process = Process("machine", self._command(init), log_path=log)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The number that its PID 1 has out here."""
        if self._pid is None:
            raise ProcessFailed("the machine was not started")
        return self._pid

    def __enter__(self) -> Self:
        self._cgroup.mkdir()
        try:
            self._process.start(self._is_up)
        except BaseException:
            self._remove_cgroup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # the kernel ends every process of a namespace with its PID 1
        self._remove_cgroup()

    def booted(self) -> Self:
        """Wait until its systemd has started all that it starts with, and nothing of that failed."""
        self.wait_until(lambda: self.ended("test", "-S", "/run/systemd/private").returncode == 0, "has no systemd")
        said = self.ended("systemctl", "is-system-running", "--wait", seconds=120).stdout.strip()
        assert said == "running", self.ended("systemctl", "--failed").stdout
        return self

    def inside(self, *command: str | Path, network_only: bool = False) -> list[str]:
        """Return a command that runs ``command`` on the machine, or only on its network, and else out here."""
        target = [f"--target={self.pid}", "--net"]
        if network_only:
            return ["nsenter", *target, "--", *map(str, command)]
        others = ("--user", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--setuid=0", "--setgid=0", "--wd=/")
        clean = ("env", "--ignore-environment", f"PATH={_PATH}", "HOME=/root", "LC_ALL=C.UTF-8")
        return ["nsenter", *target, *others, "--", *clean, *map(str, command)]

    def ended(self, *command: str, seconds: float = 60.0, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a command on the machine, and return how it ended."""
        ended = subprocess.run(
            self.inside(*command), input=stdin, capture_output=True, timeout=seconds, check=False, cwd="/"
        )
        texts = (each.decode(errors="replace") for each in (ended.stdout, ended.stderr))
        return subprocess.CompletedProcess(ended.args, ended.returncode, *texts)

    def run(self, script: str, variables: Mapping[str, str] | None = None, *, seconds: float = 60.0) -> str:
        """Return what a script of bash prints on the machine; each of its lines has to end well."""
        given = [f"{name}={value}" for name, value in (variables or {}).items()]
        ended = self.ended("env", "--chdir=/root", *given, "bash", "-euo", "pipefail", "-c", script, seconds=seconds)
        assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def wait_until(self, holds: Callable[[], bool], complaint: str, seconds: float = 60.0) -> None:
        """Wait until ``holds()``. Raises `ProcessFailed`, with ``complaint``, if the machine ends or time runs out."""
        self._process.wait_until(holds, complaint, seconds)

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine, which root owns."""
        written = self.ended("tee", path, stdin=text.encode())
        assert written.returncode == 0, written.stderr

    def put(self, source: Path, target: str) -> None:
        """Copy what is in the directory ``source`` into the directory ``target`` of the machine."""
        self.run(f"mkdir -p {target}")
        self._unpack(["tar", "--create", "--directory", str(source), "."], "--no-same-owner", f"--directory={target}")

    def take_over(self, other: Machine, *paths: str) -> None:
        """Copy files and directories of another machine to the same paths."""
        self._unpack(other.inside("tar", "--create", "--directory=/", *(path.lstrip("/") for path in paths)), "-C", "/")

    def _unpack(self, packing: Sequence[str], *options: str) -> None:
        packed = subprocess.run(packing, capture_output=True, timeout=120, check=True, cwd="/").stdout
        unpacking = self.ended("tar", "--extract", *options, stdin=packed, seconds=120)
        assert unpacking.returncode == 0, unpacking.stderr

    def _command(self, init: Sequence[str]) -> list[str]:
        """Return the command that starts it, which is the PID 1 of a namespace around the machine's own.

        The namespace that it starts in is ended with this process, and with it all that is in it.
        """
        around = ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "--")
        keeper = [*around, "bash", str(_KEEPER), str(self._cgroup), f"{SECONDS:g}", *init]
        others = f"4</proc/{self._beside.pid}/ns/user 5</proc/{self._beside.pid}/ns/net" if self._beside else ""
        return ["bash", "-c", f'layer=$1; shift; exec "$@" <"$layer" {others}', "bash", str(self._layer), *keeper]

    def _is_up(self) -> bool:
        """Return whether INIT runs, and note its number: it is the one that is 1 in the innermost namespace."""
        for members in self._cgroup.rglob("cgroup.procs"):
            for pid in map(int, members.read_text().split()):
                with suppress(OSError):
                    numbers = Path(f"/proc/{pid}/status").read_text().partition("\nNSpid:")[2].split("\n")[0].split()
                    if numbers[-1] == "1" and Path(f"/proc/{pid}/environ").read_bytes().startswith(b"container="):
                        self._pid = pid
                        return True
        return False

    def _remove_cgroup(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        while "populated 1" in (self._cgroup / "cgroup.events").read_text():
            if time.monotonic() > deadline:
                raise ProcessFailed(f"processes are still in {self._cgroup}")
            time.sleep(0.02)
        for directory, _, _ in os.walk(self._cgroup, topdown=False):
            os.rmdir(directory)


def own_cgroup() -> Path:
    """Return the directory of the control group (cgroup2) that this process is in.

    Raises FileNotFoundError where none is mounted.
    """
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[fields.index("-") + 1] == "cgroup2":
            (own,) = (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
            return Path(fields[4]) / own.lstrip("/")
    raise FileNotFoundError("no cgroup2 is mounted")
