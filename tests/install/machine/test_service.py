"""The service of docs/install.md under a real systemd is confined, comes back, logs, says what is wrong, and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.install.machine.conftest import CLONE
from tests.install.machine.machine import Machine
from tests.install.page import PAGE, blocks

pytestmark = [pytest.mark.node, pytest.mark.timeout(1500)]

READY = "timeout 60 sh -c 'until curl -fsS http://127.0.0.1:7070/readyz; do sleep 0.2; done'"
LATEST = 'export MILEPOST_TOKEN=$(cut -d " " -f 2 /etc/milepost/tokens)\n/opt/milepost/bin/milepost get flights latest'
PROBE = Path(__file__).with_name("probe.py")
DROP_IN = "/run/systemd/system/milepost.service.d"
UNCONFINED = "setpriv --reuid=milepost --regid=milepost --init-groups --inh-caps=-all --bounding-set=-all"


def logged(machine: Machine, command: str, line: str) -> str:
    """What the command prints of a log, once ``line`` is in it: that of a call comes after its answer, and journald is
    slower still."""
    found = ""

    def there() -> bool:
        nonlocal found
        found = machine.run(command)
        return line in found

    machine.wait_until(there, f"does not log {line}")
    return found


def shown(machine: Machine, *names: str) -> list[str]:
    """Properties of the unit, by their names."""
    return [machine.run(f"systemctl show --value --property {name} milepost").strip() for name in names]


def restart(machine: Machine) -> None:
    machine.run(f"systemctl daemon-reload\nsystemctl reset-failed milepost\nsystemctl restart milepost\n{READY}")


@contextmanager
def added(machine: Machine, lines: str) -> Iterator[None]:
    """Lines that are added to the unit, until the next start."""
    machine.run(f"mkdir -p {DROP_IN}")
    machine.write(f"{DROP_IN}/test.conf", f"[Service]\n{lines}\n")
    try:
        restart(machine)
        yield
    finally:
        machine.run(f"rm {DROP_IN}/test.conf\nsystemctl daemon-reload")


@pytest.fixture
def service(machine: Machine) -> Iterator[Machine]:
    """The service runs, and does so again afterwards."""
    restart(machine)
    yield machine
    restart(machine)


def test_it_runs_as_the_page_says(service: Machine) -> None:
    assert shown(service, "ActiveState", "Type", "User", "UnitFileState") == ["active", "exec", "milepost", "enabled"]
    assert service.run("stat --format '%U %a' /var/lib/milepost").strip() == "milepost 700"
    (process,) = shown(service, "MainPID")
    status = dict(line.split(":\t", 1) for line in service.run(f"cat /proc/{process}/status").splitlines())
    assert (status["CapEff"], status["CapBnd"]) == ("0" * 16, "0" * 16)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_it_may_do_what_it_needs_and_nothing_more(service: Machine) -> None:
    """Each deed is done by the same user without the unit, so that it is the unit that refuses it."""
    service.run("mkdir -p /opt/probe /srv/open /home/somebody && chmod 1777 /srv/open && chmod 0755 /home/somebody")
    service.run("touch /tmp/of-others /dev/other")
    service.write("/opt/probe/probe.py", PROBE.read_text())
    probing = "/usr/bin/python3 /opt/probe/probe.py /var/lib/milepost"
    with added(service, f"ExecStartPre={probing}/inside"):
        inside = json.loads(service.run("cat /var/lib/milepost/inside"))
    service.run("rm -f /var/lib/milepost/set-user-id")
    service.run(f"{UNCONFINED} {probing}/outside")
    outside = json.loads(service.run("cat /var/lib/milepost/outside"))
    service.run("rm -rf /var/lib/milepost/{inside,outside,probe,set-user-id} /srv/open /tmp/of-others /dev/other")
    assert set(outside["deeds"].values()) == {"done"}
    assert [name for name, ended in inside["deeds"].items() if ended == "done"] == ["write to its directory"]
    assert set(inside["writable"]) == {"/tmp", "/var/tmp", "/var/lib/milepost"}
    assert set(outside["writable"]) > {"/dev/shm", "/srv/open", *inside["writable"]}


def test_it_looks_up_state_in_a_process_beside_it(service: Machine) -> None:
    """There is no job here, and it is that process which says so."""
    told = service.run(
        'token=$(cut -d " " -f 2 /etc/milepost/tokens)\n'
        "curl -sS -G http://127.0.0.1:7070/v1/stores/flights/state/state --data-urlencode 'key=[1]' "
        '-H "Authorization: Bearer $token"'
    )
    assert "there is no handle job" in json.loads(told)["detail"]


def test_a_killed_one_is_started_again(service: Machine) -> None:
    (before,) = shown(service, "MainPID")
    service.run("systemctl kill --signal=KILL milepost")
    service.wait_until(lambda: shown(service, "NRestarts") == ["1"], "does not start it again")
    service.run(READY)
    assert shown(service, "MainPID", "ActiveState") != [before, "active"]
    assert service.run(LATEST) == "batch 7\n"


def test_it_stops_in_order_and_is_not_started_again(service: Machine) -> None:
    service.run("systemctl stop milepost", seconds=50)
    assert shown(service, "ActiveState", "Result", "ExecMainStatus") == ["inactive", "success", "0"]
    log = logged(service, "journalctl --unit milepost --output cat --lines 10", "Finished server process")
    assert "stopping on SIGTERM" in log


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sed -i s/^MILEPOST_POINTERS=.*/MILEPOST_POINTERS=nonsense:/ /etc/milepost/milepost.env", "'nonsense'"),
        ("sed -i s/^MILEPOST_LISTEN=.*/MILEPOST_LISTEN=somewhere/ /etc/milepost/milepost.env", "'somewhere'"),
        ("chmod 0600 /etc/milepost/tokens", "--token-file: cannot read /etc/milepost/tokens: Permission denied"),
    ],
    ids=["pointers", "address", "tokens"],
)
def test_a_wrong_setting_is_said_once(service: Machine, change: str, said: str) -> None:
    service.run("cp --archive /etc/milepost /etc/milepost.kept")
    try:
        service.run(f"{change}\nsystemctl restart milepost")
        service.wait_until(lambda: shown(service, "ActiveState") == ["failed"], "does not fail")
        assert shown(service, "Result", "ExecMainStatus", "NRestarts") == ["exit-code", "2", "0"]
        assert "Traceback" not in logged(service, "journalctl --unit milepost --output cat --lines 10", said)
    finally:
        service.run("rm -r /etc/milepost && mv /etc/milepost.kept /etc/milepost")


def test_the_journal_has_its_log_and_rotates(service: Machine) -> None:
    (number,) = shown(service, "InvocationID")
    ours = f"journalctl --output cat _SYSTEMD_INVOCATION_ID={number}"
    logged(service, ours, "leading journal root")
    service.run("journalctl --rotate && journalctl --vacuum-size=1")
    assert "leading journal root" not in service.run(ours)
    token = service.run("cut -d ' ' -f 2 /etc/milepost/tokens").strip()
    service.run(LATEST)
    assert token not in logged(service, ours, "/flights/")


def test_the_log_goes_to_a_file_that_rotates(service: Machine) -> None:
    (making,) = blocks("Logs")
    (lines,) = (block.removeprefix("[Service]\n") for block in PAGE.split("```ini\n")[1:2])
    service.run(f"cd {CLONE}\n{making}")
    with added(service, lines.partition("```")[0]):
        service.run(READY)
        service.run("logrotate --force /etc/logrotate.d/milepost")
        assert "leading journal root" not in service.run("cat /var/log/milepost/milepost.log")
        assert "leading journal root" in service.run("cat /var/log/milepost/milepost.log.1")
        service.run(READY)
        logged(service, "cat /var/log/milepost/milepost.log", "/readyz")
        service.run("logrotate --force /etc/logrotate.d/milepost")
        assert "/readyz" in service.run("cat /var/log/milepost/milepost.log.1")
        assert "leading journal root" in service.run("zcat /var/log/milepost/milepost.log.2.gz")
