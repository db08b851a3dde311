"""Two cells on one machine, as docs/install.md sets them up: one unit is the template of both."""

from __future__ import annotations

import pytest

from tests.install.machine.conftest import CLONE
from tests.install.machine.machine import Machine
from tests.install.page import PAGE, blocks

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(1500)]

ADDRESSES = {"a": "http://127.0.0.1:7071", "b": "http://127.0.0.1:7072"}
JOBS = ("ferries", "flights", "ships", "trains", "trams", "trucks")
BEGIN = f"""
import milepost
with milepost.Client() as client:
    for job in {JOBS}:
        with client.of_job(job, begin=True).session() as session:
            session.store(job).add_and_lock("latest", job.encode())
"""
LOOK = f"""
import milepost
with milepost.Client() as client:
    for job in {JOBS}:
        print(client.of_job(job).addresses[0], client.store(job).read("latest").decode())
"""


def test_two_cells_run_beside_each_other_with_data_of_their_own(machine: Machine) -> None:
    (lines,) = blocks("Several cells on one machine")
    machine.run(f"cd {CLONE}\n{lines}", seconds=120)
    (listed,) = (part for part in PAGE.split("`") if part.startswith("MILEPOST_URL="))
    asking = f"export {listed}\nexport MILEPOST_TOKEN=$(cut -d ' ' -f 2 /etc/milepost/tokens)\n/opt/milepost/bin/python"
    machine.write("/root/begin.py", BEGIN)
    machine.write("/root/look.py", LOOK)
    machine.run(f"{asking} begin.py")
    found = machine.run(f"{asking} look.py")
    cells, jobs = zip(*(line.split() for line in found.splitlines()), strict=True)
    assert (set(cells), jobs) == (set(ADDRESSES.values()), JOBS)
    machine.run("systemctl restart milepost@a\nsystemctl is-active milepost milepost@a milepost@b", seconds=90)
    assert machine.run(f"{lines.splitlines()[-1]} >/dev/null\n{asking} look.py", seconds=90) == found
    for cell in ADDRESSES:
        assert machine.run(f"stat --format '%U %a' /var/lib/milepost@{cell}").strip() == "milepost 700"
        log = machine.run(f"journalctl --unit milepost@{cell} --output cat")
        assert f"this deployment is the cell {cell} of a, b" in log
    machine.run("systemctl disable --now milepost@a milepost@b", seconds=120)
