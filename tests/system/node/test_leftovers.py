"""What is left of nodes is found and removed in an order in which nothing slips through, and nothing else is.

Namespaces, processes and mounts are real; in place of a node's programs stand shells.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from demo.kube.__main__ import make_room
from demo.processes import DemoFailed
from testbed.commands import run
from testbed.node import processes, registry
from testbed.node.leftovers import mounts, remove_leftovers
from testbed.node.network import Network
from testbed.node.processes import kill_all
from testbed.server import ROOT

pytestmark = [pytest.mark.node, pytest.mark.own_node, pytest.mark.timeout(120)]

_MAKES_PODS = """
for number in $(seq 100000); do
    : >"$1-$number"
    unshare --net="$1-$number" true
    nsenter --net="$1-$number" sleep "$2" &
done
"""
_OWNER = """
import sys, time
from pathlib import Path
from testbed.node import registry
from testbed.node.network import Network
directory = Path(sys.argv[1])
Network(registry.register(directory).name).make()
print(flush=True)
time.sleep(600)
"""


def test_a_pod_that_is_made_meanwhile_is_removed_as_well(network: Network, tmp_path: Path) -> None:
    seconds = f"600.{secrets.randbelow(10**9):09}"  # by which the processes of Pods are known
    makers = [
        subprocess.Popen([*network.enter, "sh", "-c", _MAKES_PODS, "sh", tmp_path / f"pod-{number}", seconds])
        for number in range(4)
    ]
    try:
        end = time.monotonic() + 30
        while len(_running("sleep", seconds)) < 20:
            assert time.monotonic() < end
            time.sleep(0.01)
        remove_leftovers(network.path, tmp_path)
        for maker in makers:
            assert maker.wait(10) == -signal.SIGKILL
        assert _running("sleep", seconds) == []
        assert mounts(tmp_path) == []
    finally:
        for pid in _running("sleep", seconds):
            os.kill(pid, signal.SIGKILL)


def test_a_number_that_went_to_another_process_is_not_killed(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel cannot be made to give a number away in that moment, so the list of processes is a stale one."""
    with subprocess.Popen(["sleep", "600"]) as another:
        turns = iter([[another.pid], []])
        monkeypatch.setattr(processes, "processes_in", lambda _: next(turns))
        kill_all(lambda: [network.path])
        with pytest.raises(subprocess.TimeoutExpired):
            another.wait(0.5)
        another.kill()


def test_a_killed_demo_leaves_nothing_that_keeps_the_next_from_beginning(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("to mount something takes root")
    node = tmp_path / "node"
    command = [sys.executable, "-c", _OWNER, str(node)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        (node / "root").mkdir(parents=True)
        run(["mount", "-t", "tmpfs", "tmpfs", node / "root"])
        try:
            (node / "root" / "file").touch()
            with pytest.raises(DemoFailed, match=str(owner.pid)):
                make_room(tmp_path)
            assert (node / "root" / "file").exists()
            assert _clean(tmp_path).returncode == 1
        finally:
            owner.kill()
    try:
        make_room(tmp_path)
        assert mounts(tmp_path) == []
        assert not node.exists()
        assert _clean(tmp_path).returncode == 0
    finally:
        for mount in mounts(tmp_path):
            run(["umount", mount])


def _clean(directory: Path) -> subprocess.CompletedProcess[bytes]:
    """What ``make clean`` asks before it deletes a directory."""
    return subprocess.run([sys.executable, "-m", registry.__name__, directory], cwd=ROOT, check=False, timeout=60)


def _running(*command: str) -> list[int]:
    wanted = b"".join(f"{word}\0".encode() for word in command)
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if file.read_bytes() == wanted:
                found.append(int(file.parent.name))
    return found
