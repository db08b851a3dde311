"""The unit of systemd is valid and tight, and the lines of docs/install.md that install it do.

These lines run in namespaces of their own: what they write to the system lies in layers above it, and is gone with the
test. No systemd runs there, so a stand-in carries out ``systemctl``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from milepost_server.__main__ import parser
from milepost_server.replica.settings import Settings
from milepost_server.server import GRACE_SECONDS
from testbed.ports import Port
from testbed.server import ROOT
from tests.install.page import PAGE, blocks
from tests.install.shells import shell

PLACE = ROOT / "deploy" / "systemd"
UNIT = PLACE / "milepost.service"
LAYERED = Path(__file__).with_name("layered.sh")


def analyzed(*arguments: str | Path) -> str:
    """What systemd's own judge says of a unit that it has nothing against."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze (Debian, Ubuntu: apt-get install systemd)")
    ended = subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def values(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("name", "started"), [(UNIT.name, UNIT.name), ("milepost@.service", "milepost@a.service")])
def test_systemd_takes_the_unit(tmp_path: Path, name: str, started: str) -> None:
    """It looks for the program too, which is not there before it is installed."""
    text = UNIT.read_text(encoding="utf-8").replace(values("ExecStart")[0], "/bin/true")
    (tmp_path / name).write_text(text, encoding="utf-8")
    analyzed("verify", tmp_path / started)


def test_the_unit_is_as_tight_as_the_page_says() -> None:
    exposure = re.search(
        r"exposure level for milepost.service: ([0-9.]+)", analyzed("security", "--offline=true", UNIT)
    )
    assert exposure is not None
    said = re.search(r"gives it ([0-9.]+) of 10", " ".join(PAGE.split()))
    assert said is not None
    assert float(exposure[1]) <= float(said[1])


def test_the_unit_lets_the_server_drain() -> None:
    """As a Pod does: for what is still written, for the parts that stop, and for the answers."""
    assert int(values("TimeoutStopSec")[0]) > 2 * Settings().resign_seconds + GRACE_SECONDS


def test_each_setting_is_one_of_the_server_or_of_what_it_uses() -> None:
    lines = (PLACE / "milepost.env").read_text(encoding="utf-8").splitlines()
    names = {found[1] for line in lines if (found := re.match(r"#?([A-Z_]+)=", line))}
    flags = {option for action in parser({})._actions for option in action.option_strings}
    ours = {"--" + name.removeprefix("MILEPOST_").lower().replace("_", "-") for name in names if "MILEPOST" in name}
    assert len(ours) >= 5
    assert ours <= flags
    assert names - {name for name in names if "MILEPOST" in name} == {"AWS_SHARED_CREDENTIALS_FILE"}


@pytest.mark.long
def test_the_lines_of_the_page_install_upgrade_and_uninstall_it(variables: Mapping[str, str], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("layers above the system's directories take root")
    if not shutil.which("curl") or not shutil.which("openssl"):
        pytest.skip("needs curl and openssl, as the page does")
    install, configure, start, write = blocks("As a service of systemd")
    status, upgrade = blocks("Upgrade")
    (uninstall,) = blocks("Uninstall")
    (logs,) = blocks("Logs")
    looking = """
        process=$(cut -d ' ' -f 1 /run/milepost-unit)
        stat --format 'runs as %U' /proc/$process
        stat --format 'data of %U %a' /var/lib/milepost
        stat --format 'settings %G %a' /etc/milepost/milepost.env /etc/milepost/tokens
    """
    lasting = "/opt/milepost/bin/milepost get flights latest"
    gone = """
        ls -d /var/lib/milepost
        for path in /opt/milepost /etc/milepost /etc/systemd/system/milepost.service; do test ! -e $path; done
    """
    script = "\n".join(
        [install, configure, start, write, looking, logs, status, upgrade, lasting, looking, uninstall, gone]
    )
    shutil.copytree(ROOT / "deploy" / "systemd", tmp_path / "deploy" / "systemd")
    port = Port()
    settings = tmp_path / "deploy" / "systemd" / "milepost.env"
    settings.write_text(settings.read_text().replace("7070", str(port.number)))
    own = {**variables, "MILEPOST_URL": f"http://{port.address}"}
    apart: list[str | Path] = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "bash",
        LAYERED,
    ]
    said = shell(script.replace("7070", str(port.number)), own, tmp_path, *apart, tmp_path / "layers")
    before, after = said.split("runs as ")[1:]
    for part in (before, after):
        owner, data, settings_of, tokens_of = part.splitlines()[:4]
        assert (owner, data) == ("milepost", "data of milepost 700")
        assert settings_of == tokens_of == "settings milepost 640"
    assert said.count("batch 7\n") == 2, "what was written is there after the upgrade"
    assert "/var/lib/milepost" in after, "the data stays"
    assert not Path("/opt/milepost").exists()
