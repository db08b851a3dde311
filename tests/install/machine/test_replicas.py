"""Three machines with a systemd each, and a replica on each: the page's upgrade goes from one to the next."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.process import Process
from testbed.seaweedfs import ALL_RIGHTS
from testbed.server import ROOT
from tests.install.machine.conftest import CLONE, NEXT, SECONDS
from tests.install.machine.machine import SYSTEMD, Machine
from tests.install.page import blocks

pytestmark = [pytest.mark.node, pytest.mark.timeout(1500)]

ADDRESSES = [f"127.0.0.{10 + number}:7070" for number in (1, 2, 3)]
URLS = [f"http://{address}" for address in ADDRESSES]
INSTALLED = ("opt/milepost", "etc", "root/milepost")
LEADS = "leading journal root"


@pytest.fixture(scope="module")
def machines(machine: Machine, layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    """Three on one network, with what the page installs. The last two are there for this module only."""
    logs = tmp_path_factory.mktemp("machines")
    with ExitStack() as stack:
        others = [stack.enter_context(Machine(layer, logs / f"{number}", SYSTEMD, machine)) for number in (2, 3)]
        machine.run("systemctl stop milepost && cp --archive /etc/milepost /etc/milepost.kept", seconds=60)
        for other in others:
            other.booted().take_over(machine, *INSTALLED)
        yield [machine, *others]
        machine.run("systemctl stop milepost && rm -r /etc/milepost && mv /etc/milepost.kept /etc/milepost", seconds=60)


@pytest.fixture
def places(machines: list[Machine], tmp_path: Path) -> Iterator[dict[str, str]]:
    """ZooKeeper and S3 on that network, as settings of the replicas."""
    with party(machines[0], tmp_path, "storage", tmp_path) as storage:
        found = tmp_path / "places.json"
        storage.start(found.exists, deadline=180)
        yield json.loads(found.read_text())


def party(machine: Machine, directory: Path, *arguments: str | Path) -> Process:
    command = [sys.executable, "-m", "tests.install.machine.parties", *arguments]
    log = directory / f"{arguments[0]}.log"
    return Process(str(arguments[0]), machine.inside(*command, network_only=True), log_path=log, directory=ROOT)


def settle(machine: Machine, address: str, places: dict[str, str]) -> None:
    """Take the lines of milepost.env for one of three, and start the replica."""
    one, three, _cells = re.split(r"(?m)^# One of .*\n", machine.run(f"cat {CLONE}/deploy/systemd/milepost.env"))
    lines = re.sub(r"(?m)^#", "", three).replace("10.0.0.11:7070", address)
    lines = re.sub(r"(?<=POINTERS=).*", places["pointers"], lines)
    lines = re.sub(r"(?<=BLOBS=).*", places["blobs"], lines)
    (tokens,) = re.findall(r"(?m)^MILEPOST_TOKEN_FILE=.*$", one)
    machine.write("/etc/milepost/milepost.env", f"{tokens}\n{lines}")
    keys = f"aws_access_key_id={ALL_RIGHTS.access_key}\naws_secret_access_key={ALL_RIGHTS.secret_key}"
    machine.write("/etc/milepost/aws-credentials", f"[default]\n{keys}\n")
    machine.run("chgrp milepost /etc/milepost/* && chmod 0640 /etc/milepost/*")
    machine.run("systemctl daemon-reload && systemctl enable --now milepost && systemctl restart milepost", seconds=60)


def ready(machine: Machine, address: str) -> None:
    asked = machine.ended("bash", "-c", f"until curl -fsS http://{address}/readyz; do sleep 0.2; done", seconds=180)
    assert asked.returncode == 0, asked.stderr


def terms(machines: list[Machine], above: int) -> int:
    """How often one of them has begun to lead since it was a replica: more often than ``above``, once journald has the
    lines."""
    found = 0

    def there() -> bool:
        nonlocal found
        logs = [machine.run("journalctl --unit milepost --output cat") for machine in machines]
        found = sum(log.count(LEADS) for log in logs)
        return found > above

    machines[0].wait_until(there, f"no more than {above} lines say that a replica leads")
    return found


def status(machine: Machine) -> str:
    """What the page's first line says, asked of all three."""
    token = machine.run("cut -d ' ' -f 2 /etc/milepost/tokens").strip()
    return machine.run(blocks("Upgrade")[0], {"MILEPOST_URL": ",".join(URLS), "MILEPOST_TOKEN": token})


def leader(machine: Machine) -> int:
    """The number of the machine that leads: each replica names its URL."""
    (leading,) = set(re.findall(r"http://127\S+", status(machine)))
    return URLS.index(leading)


def test_a_rolling_upgrade_loses_nothing(machines: list[Machine], places: dict[str, str], tmp_path: Path) -> None:
    for machine, address in zip(machines, ADDRESSES, strict=True):
        settle(machine, address, places)
    for machine, address in zip(machines, ADDRESSES, strict=True):
        ready(machine, address)
    token = machines[0].run("cut -d ' ' -f 2 /etc/milepost/tokens").strip()
    before = terms(machines, 0)
    last = leader(machines[0])
    order = [*(number for number in range(3) if number != last), last]
    upgrade = blocks("Upgrade")[1]
    with party(machines[0], tmp_path, "writers", tmp_path, token, *URLS) as writers:
        writers.start()
        for number in order:
            lines = upgrade.replace("127.0.0.1:7070", ADDRESSES[number])
            machines[number].run(f"cd {CLONE}\n{lines}", {"PIP_FIND_LINKS": f"{CLONE}/next"}, seconds=SECONDS)
        assert writers.running, writers.logged()
        writers.terminate()
        assert writers.wait(180) == 0, writers.logged()
    account = json.loads((tmp_path / "written.json").read_text())
    print(f"a rolling upgrade: {account['writes']} writes, the longest pause {account['pause']:.1f} s")
    assert account["errors"] == [], f"{len(account['errors'])} errors, the first: {account['errors'][:4]}"
    assert account["lost"] == []
    assert account["writes"] > 100
    assert status(machines[0]).count(NEXT) == 3
    for machine in machines:
        assert machine.run("systemctl show --value --property NRestarts milepost").strip() == "0"
    assert terms(machines, before) == before + 1, "the leadership moves once"


def test_the_page_uninstalls_it(machines: list[Machine]) -> None:
    last = machines[-1]
    last.run("systemctl enable --now milepost", seconds=60)
    last.run(blocks("Uninstall")[0], seconds=60)
    assert last.ended("systemctl", "cat", "milepost").returncode != 0
    left = last.run("ls -d /opt/milepost /etc/milepost /var/lib/milepost 2>/dev/null || true")
    assert left.split() == ["/var/lib/milepost"], "the data stays"
    last.run("rm -r /var/lib/milepost && userdel milepost")
