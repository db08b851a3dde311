"""The command, run as its users run it, over the real service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
from tests.client.conftest import Service

MAIN = "from milepost.cli import main; main()"


def run(service: Service, *arguments: str, main: str = MAIN, **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "MILEPOST_URL": service.url, "NO_COLOR": "1", **variables}
    command = [sys.executable, "-W", "error", "-c", main, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)


def said(service: Service, *arguments: str) -> str:
    ended = run(service, *arguments)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


@pytest.fixture
def session(blocking: milepost.Client, name: str) -> Iterator[milepost.Session]:
    with blocking.session(holder="cli-test") as session:
        session.store(name).campaign()
        session.store(name).under(1).add_and_lock("latest", b"\x00state\xff", labels={"batch": "7"})
        yield session


def test_status(service: Service) -> None:
    assert service.url in said(service, "status")
    assert json.loads(said(service, "--json", "status"))["role"] == "leader"


def test_stores_and_handles(service: Service, session: milepost.Session, name: str) -> None:
    assert name in said(service, "stores")
    table = said(service, "handles", name).splitlines()
    assert table[0].split()[:3] == ["NAME", "VERSION", "SIZE"]
    assert table[1].split()[0] == "latest"
    assert "batch=7" in table[1]
    (handle,) = json.loads(said(service, "--json", "handles", name))
    assert (handle["size"], handle["locks"]) == (7, [session.id])


def test_a_state_is_written_to_a_file_or_through(
    service: Service, session: milepost.Session, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "state"
    assert "7 bytes" in said(service, "get", name, "latest", "-o", str(out))
    assert out.read_bytes() == b"\x00state\xff"
    assert list(tmp_path.iterdir()) == [out]
    assert run(service, "get", name, "latest", "-o", "-").stdout == b"\x00state\xff"
    assert session.id in said(service, "get", name, "latest")


def test_sessions_and_epochs(service: Service, session: milepost.Session, name: str) -> None:
    shown = said(service, "sessions", "show", session.id)
    assert "cli-test" in shown
    assert f"{name}/latest" in shown
    assert json.loads(said(service, "--json", "epoch", name))["holder"] == "cli-test"
    assert "epoch    0" in said(service, "epoch", "never-seen")


def test_an_error_ends_with_status_one_and_a_line(service: Service, name: str) -> None:
    ended = run(service, "get", name, "nothing")
    assert ended.returncode == 1
    assert ended.stdout == b""
    assert ended.stderr.decode().startswith("NotExist: ")
    ended = run(service, "status", MILEPOST_URL="http://127.0.0.1:1,http://127.0.0.1:2")
    assert ended.returncode == 1
    assert b"Traceback" not in ended.stderr


def test_without_its_extra_it_says_what_to_install(service: Service) -> None:
    without = "import sys; sys.modules['typer'] = None\n" + MAIN
    ended = run(service, "status", main=without)
    assert ended.returncode == 1
    assert b"milepost[cli]" in ended.stderr


def test_the_sdk_itself_needs_no_typer() -> None:
    program = "import sys, milepost, milepost.aio, milepost.cli; assert 'typer' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", program], timeout=60, check=True)
