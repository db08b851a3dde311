"""A machine shares nothing with the one below it: seen with a PID 1 that does no harm, before any other is started."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.machine.machine import Machine, own_cgroup

pytestmark = [pytest.mark.node, pytest.mark.timeout(1500)]

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
HARMLESS = ("sleep", "300")


@pytest.fixture(scope="module")
def harmless(layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine(layer, tmp_path_factory.mktemp("harmless") / "log", HARMLESS) as machine:
        yield machine


def mounts(process: int | str) -> list[str]:
    return Path(f"/proc/{process}/mountinfo").read_text().splitlines()


@pytest.mark.parametrize("kind", NAMESPACES)
def test_each_namespace_is_its_own(harmless: Machine, kind: str) -> None:
    own = os.readlink(f"/proc/{harmless.pid}/ns/{kind}")
    assert own != os.readlink(f"/proc/self/ns/{kind}")


def test_no_mount_is_one_of_ours_or_reaches_us(harmless: Machine) -> None:
    theirs = mounts(harmless.pid)
    assert not [line for line in theirs if "shared:" in line or "master:" in line]
    systems = {line.split()[2] for line in mounts("self")}
    same = {line.split()[4]: line.split()[3] for line in theirs if line.split()[2] in systems}
    assert "/milepost-machine-" in same.pop("/sys/fs/cgroup"), "a part of the one hierarchy"
    assert set(same) == {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}


def test_it_sees_no_other_process(harmless: Machine) -> None:
    assert harmless.run("cat /proc/1/comm").strip() == HARMLESS[0]
    assert int(harmless.run("ls -d /proc/[0-9]* | wc -l")) < 10


def test_the_network_is_lo_alone(harmless: Machine) -> None:
    assert harmless.run("ls /sys/class/net").split() == ["lo"]


def test_its_control_group_is_the_root_of_all(harmless: Machine) -> None:
    assert harmless.run("cat /sys/fs/cgroup/cgroup.procs").split() == ["1"]
    assert harmless.run("grep '^0::' /proc/1/cgroup").strip() == "0::/"


@pytest.mark.parametrize("place", ["/run", "/tmp", "/dev", "/etc", "/dev/shm"])
def test_what_it_writes_is_not_here(harmless: Machine, place: str) -> None:
    name = f"{place}/milepost-{os.getpid()}"
    harmless.write(name, "here")
    assert not Path(name).exists()


@pytest.mark.parametrize(
    "deed",
    [
        "date --set=2020-01-01",
        "echo 1 >/proc/sys/kernel/panic_on_oops",
        "echo 0 >/proc/sys/vm/overcommit_memory",
        "mknod /dev/disk b 254 0",
        "mount -t devtmpfs devtmpfs /mnt",
        "dmesg --clear",
        "chmod 0600 /dev/null",
        "kill -0 -- 2",
    ],
)
def test_its_root_has_no_right_outside(harmless: Machine, deed: str) -> None:
    assert harmless.ended("bash", "-c", deed).returncode != 0


def test_nothing_of_it_is_left(layer: Path, tmp_path: Path) -> None:
    before = _cgroups()
    with Machine(layer, tmp_path / "log", HARMLESS) as machine:
        pid = machine.pid
        space = os.readlink(f"/proc/{pid}/ns/pid")
        assert _cgroups() > before
    deadline = time.monotonic() + 30
    while space in _spaces():
        assert time.monotonic() < deadline, "a process of it lives"
        time.sleep(0.05)
    assert _cgroups() == before


def _cgroups() -> set[Path]:
    """Those of this process's machines: another test run may begin and end some at any time."""
    return set(own_cgroup().glob(f"milepost-machine-{os.getpid()}-*"))


def _spaces() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(os.readlink(process / "ns" / "pid"))
        except OSError:  # it has ended meanwhile
            continue
    return found
