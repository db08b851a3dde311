"""A command and all that it starts, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from milepost.supervise.command import CannotStart, Command
from tests.client.conftest import eventually

PARENT = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[2]])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
child.wait()
"""
SLEEPS = "import time; time.sleep(300)"
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(300)
"""


def python(*arguments: str) -> Command:
    return Command([sys.executable, "-c", *arguments], os.environ)


def ended(pid: int) -> bool:
    """Whether a process has ended; its status may still wait for whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("program", "status"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_its_status_is_that_of_a_shell(program: str, status: int) -> None:
    command = python(program)
    eventually(lambda: command.status is not None)
    assert command.status == command.end(60.0) == status
    assert not command.signalled


def test_all_of_the_group_is_ended_though_the_first_of_it_is_gone(tmp_path: Path) -> None:
    command = python(PARENT, str(tmp_path / "pid"), SLEEPS)
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    child = int((tmp_path / "pid").read_text())
    os.kill(command.pid, signal.SIGKILL)
    eventually(lambda: command.status == 137)
    assert not ended(child)
    assert command.end(60.0) == 137
    assert ended(child)


def test_what_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    command = python(DEAF, str(tmp_path / "deaf"))
    eventually((tmp_path / "deaf").exists)
    began = time.monotonic()
    assert command.end(0.5) == 137
    assert command.signalled
    assert time.monotonic() - began >= 0.5


ORPHANS = """
import os, pathlib, sys, time
if os.fork() == 0:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.setsid()
    pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child}\\n")
    time.sleep(300)
"""


def test_what_has_ended_does_not_count_as_living_though_nobody_asks_for_its_status(tmp_path: Path) -> None:
    """Its parent has left the group, and is as a process 1 that does not care."""
    command = python(ORPHANS, str(tmp_path / "pids"))
    eventually(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith("\n"))
    parent, child = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    try:
        eventually(lambda: command.status == 0 and ended(child))
        os.killpg(command.pid, 0)  # it is there, for signals
        began = time.monotonic()
        assert command.end(20.0) == 0
        assert time.monotonic() - began < 10.0
    finally:
        os.kill(parent, signal.SIGKILL)


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(CannotStart) as missing:
        Command([str(tmp_path / "nothing")], os.environ)
    assert not missing.value.found
    with pytest.raises(CannotStart, match="'' cannot be started: No such file or directory") as nameless:
        Command([""], os.environ)
    assert not nameless.value.found
    (tmp_path / "text").write_text("text")
    with pytest.raises(CannotStart, match="text cannot be started: Permission denied") as text:
        Command([str(tmp_path / "text")], os.environ)
    assert text.value.found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start what it then may not end")
def test_what_belongs_to_another_user_is_left_to_the_fence() -> None:
    """A process of root that has become another user ends what is root's: nothing of it."""
    program = """
import logging, os, subprocess, sys
from milepost.supervise import command
logging.basicConfig(stream=sys.stdout, format="%(message)s")
command._AFTER_KILL = 0.2
group = command.Command(["sh", "-c", "exec sleep 300 >/dev/null 2>&1"], os.environ)
os.setuid(65534)
print(group.end(0.2))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    lines = ran.stdout.splitlines()
    assert "belongs to another user, and did not get signal 15" in lines[0]
    assert "could not be ended" in lines[-2]
    assert lines[-1] == "137"
    os.killpg(int(lines[0].split()[2]), signal.SIGKILL)
