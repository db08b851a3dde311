"""A process of the testbed is paused, killed and ended as its test asks, and dies with who started it.

If it were not, tests of outages would pass without an outage.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.process import Process, ProcessFailed, stands_still, with_descendants

SLEEPER = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
STARTER = """
import sys
from pathlib import Path
from tests.testbed.test_process import sleeper
part = sleeper(Path(sys.argv[1]))
part.start(lambda: "up" in part.logged())
print(part.pid, flush=True)
sys.stdin.read()
"""


def sleeper(tmp_path: Path) -> Process:
    return Process("sleeper", SLEEPER, log_path=tmp_path / "logs" / "sleeper.log")


def state_of(pid: int) -> str:
    """The state of a process as proc(5) has it: T for stopped, Z for ended; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def test_it_is_started_when_ready_and_keeps_its_log(tmp_path: Path) -> None:
    with sleeper(tmp_path) as process:
        process.start(lambda: "up" in process.logged())
        assert process.running
        assert process.stop() == -signal.SIGTERM
        assert not process.running
        process.start(lambda: "up" in process.logged())
    assert not process.running
    assert process.logged() == "up\n"
    assert process.log_path.read_text() == "up\nup\n"


def test_what_ends_before_it_is_ready_fails_with_its_log(tmp_path: Path) -> None:
    process = Process("broken", [sys.executable, "-c", "raise SystemExit('no luck')"], log_path=tmp_path / "log")
    with process, pytest.raises(ProcessFailed, match=r"broken is not ready: it ended with 1(?s:.*)no luck"):
        process.start(lambda: False)


def test_what_is_not_ready_in_time_is_killed(tmp_path: Path) -> None:
    with sleeper(tmp_path) as process:
        with pytest.raises(ProcessFailed, match="not ready after"):
            process.start(lambda: False, deadline=0.1)
        assert not process.running


def test_a_paused_process_can_be_resumed_and_ended(tmp_path: Path) -> None:
    with sleeper(tmp_path) as process:
        process.start(lambda: "up" in process.logged())
        process.pause()
        process.wait_until(lambda: state_of(process.pid) == "T", "is not stopped")
        process.resume()
        process.wait_until(lambda: state_of(process.pid) != "T", "is not resumed")
        process.pause()
        process.end()
        assert process.wait() == -signal.SIGTERM
        process.end()


def test_it_dies_with_who_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    starter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdin is not None
    assert starter.stdout is not None
    with starter:
        pid = int(starter.stdout.readline())
        assert state_of(pid) not in ("", "Z")
        starter.kill()
    end = time.monotonic() + 60
    while state_of(pid) not in ("", "Z"):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_detached_process_is_a_session_of_its_own(tmp_path: Path) -> None:
    with Process("sleeper", SLEEPER, log_path=tmp_path / "log", detached=True) as process:
        process.start(lambda: "up" in process.logged())
        assert os.getsid(process.pid) == process.pid


def test_the_descendants_of_a_process_are_found(tmp_path: Path) -> None:
    process = Process("shells", ["sh", "-c", "sh -c 'sleep 600 & wait' & wait"], log_path=tmp_path / "log")
    with process.start():

        def names() -> list[str]:
            return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in with_descendants(process.pid)]

        process.wait_until(lambda: names() == ["sh", "sh", "sleep"], "has no grandchild")
        first, _, last = with_descendants(process.pid)
        assert first == process.pid
        os.kill(last, signal.SIGSTOP)
        process.wait_until(lambda: stands_still(last), "does not stop")
        os.kill(last, signal.SIGKILL)
