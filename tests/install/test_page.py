"""What docs/install.md and client/README.md say to paste works when pasted.

The distributions are built by the fixture, which is what the page's first block does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from testbed.ports import Port
from testbed.process import Process
from tests.docs.blocks import ROOT, blocks_of
from tests.install.page import PAGE, blocks, headings
from tests.install.shells import leading, shell


def test_each_block_of_shell_is_tried_here() -> None:
    tried = {
        "Install Milepost",
        "With pip",
        "A server with fewer libraries",
        "With uv",
        "In a container",
        "The chart from a registry of yours",  # by tests/deploy/test_registry.py
        "As a service of systemd",
        "Several cells on one machine",  # by tests/install/machine/test_cells.py
        "Logs",
        "Upgrade",
        "Uninstall",
    }
    assert {heading for heading in headings() if blocks(heading)} == tried


def test_the_first_block_does_what_the_fixture_does() -> None:
    (block,) = blocks("Install Milepost")
    clone, build, found = block.splitlines()
    address = re.escape("https://github.com/milepost-io/milepost")
    assert re.fullmatch(rf"git clone {address} && cd milepost", clone)
    assert build == "make build"
    assert found == "export PIP_FIND_LINKS=$PWD/dist UV_FIND_LINKS=$PWD/dist"


@pytest.mark.long
def test_pip(variables: Mapping[str, str], tmp_path: Path) -> None:
    installing, using = blocks("With pip")
    *lines, serving = installing.splitlines()
    shell("\n".join(lines), variables, tmp_path)
    port = Port()
    own = {**variables, "MILEPOST_LISTEN": port.address, "MILEPOST_URL": f"http://{port.address}"}
    command = [str(tmp_path / serving)]
    with Process("server", command, log_path=tmp_path / "log", directory=tmp_path, environment=own) as server:
        server.start(leading(port))
        assert shell(using, own, tmp_path).splitlines()[-1] == "batch 7"
        assert server.stop() == 0
    assert (tmp_path / "milepost-data").is_dir()


@pytest.mark.long
def test_pip_for_the_core(variables: Mapping[str, str], tmp_path: Path) -> None:
    (block,) = blocks("A server with fewer libraries")
    assert shell(block, variables, tmp_path).splitlines()[-1].startswith("milepost-server ")
    installed = {path.name.partition("-")[0] for path in tmp_path.glob("milepost-core/lib/*/site-packages/*.dist-info")}
    assert {"boto3", "kazoo"} <= installed
    assert not {"kubernetes", "hdfs_native"} & installed


@pytest.mark.long
def test_uv(variables: Mapping[str, str], tmp_path: Path) -> None:
    (block,) = blocks("With uv")
    server, command = shell(block, variables, tmp_path).splitlines()[-2:]
    assert (server.split()[0], command.split()[0]) == ("milepost-server", "milepost")
    once, asked = re.findall(r"`(uvx .*?)`", PAGE)
    assert shell(f"{once} --version", variables, tmp_path).split()[0] == "milepost-server"
    assert "status" in shell(f"{asked} --help", variables, tmp_path)


@pytest.mark.long
def test_the_sdk_with_and_without_its_extras(variables: Mapping[str, str], programs: Path, tmp_path: Path) -> None:
    """As client/README.md says. Its ``pip`` is that of uv here: it has Spark, of 400 MB, in its cache already."""
    (block,) = (
        block.text for block in blocks_of(ROOT / "client" / "README.md") if block.text.startswith("pip install")
    )
    place = tmp_path / "environment"
    shell(f"uv venv --quiet {place}", variables, tmp_path)
    pip = programs / "pip"
    pip.write_text(f'#!/bin/sh\ncommand=$1\nshift\nexec uv pip "$command" --quiet --python {place} "$@"\n')
    pip.chmod(0o755)
    found = f"{place}/bin/python -c 'from importlib.util import find_spec as s; print(s(\"pyspark\") is not None)'"
    bare, spark, cli = block.splitlines()
    assert (
        shell(f"{bare}\n{found}\n{place}/bin/python -c 'import milepost.aio'", variables, tmp_path).strip() == "False"
    )
    said = shell(f"{spark}\n{found}\n{place}/bin/python -c 'import milepost.spark'", variables, tmp_path)
    assert said.strip() == "True"
    assert shell(f"{cli}\n{place}/bin/milepost --version", variables, tmp_path).split()[0] == "milepost"
