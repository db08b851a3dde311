"""The command over the real service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
from tests.client.cli.conftest import Run, Said
from tests.client.conftest import Service

MAIN = "from milepost.cli import main; main()"


def run_as_process(service: Service, *arguments: str, main: str = MAIN) -> subprocess.CompletedProcess[bytes]:
    """The command as its users run it; each takes the time to import everything."""
    environment = {**os.environ, "MILEPOST_URL": service.url, "NO_COLOR": "1"}
    command = [sys.executable, "-W", "error", "-c", main, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)


@pytest.fixture
def session(blocking: milepost.Client, name: str) -> Iterator[milepost.Session]:
    with blocking.session(holder="cli-test") as session:
        session.store(name).campaign()
        session.store(name).under(1).add_and_lock("latest", b"\x00state\xff", labels={"batch": "7"})
        yield session


def test_status(service: Service, said: Said) -> None:
    assert service.url in said("status")
    assert json.loads(said("--json", "status"))["role"] == "leader"
    ended = run_as_process(service, "status")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert service.url in ended.stdout.decode()


def test_stores_and_handles(said: Said, session: milepost.Session, name: str) -> None:
    assert name in said("stores")
    table = said("handles", name).splitlines()
    assert table[0].split()[:3] == ["NAME", "VERSION", "SIZE"]
    assert table[1].split()[0] == "latest"
    assert "batch=7" in table[1]
    (handle,) = json.loads(said("--json", "handles", name))
    assert (handle["size"], handle["locks"]) == (7, [session.id])


def test_a_state_is_written_to_a_file_or_through(
    run: Run, said: Said, session: milepost.Session, name: str, tmp_path: Path
) -> None:
    out = tmp_path / "state"
    assert "7 bytes" in said("get", name, "latest", "-o", str(out))
    assert out.read_bytes() == b"\x00state\xff"
    assert list(tmp_path.iterdir()) == [out]
    assert run("get", name, "latest", "-o", "-").stdout == b"\x00state\xff"
    assert session.id in said("get", name, "latest")


def test_sessions_and_epochs(said: Said, session: milepost.Session, name: str) -> None:
    shown = said("sessions", "show", session.id)
    assert "cli-test" in shown
    assert f"{name}/latest" in shown
    assert json.loads(said("--json", "epoch", name))["holder"] == "cli-test"
    assert "epoch    0" in said("epoch", "never-seen")


def test_an_error_ends_with_status_one_and_a_line(run: Run, service: Service, name: str) -> None:
    for ended in (run("get", name, "nothing"), run_as_process(service, "get", name, "nothing")):
        assert ended.returncode == 1
        assert ended.stdout == b""
        assert ended.stderr.decode().startswith("NotExist: ")
    ended = run("--url", "http://127.0.0.1:1,http://127.0.0.1:2", "--timeout", "0.2", "status")
    assert ended.returncode == 1
    assert ended.stderr.decode().startswith("ConnectionFailed: ")


def test_without_its_extra_it_says_what_to_install(service: Service) -> None:
    without = "import sys; sys.modules['typer'] = None\n" + MAIN
    ended = run_as_process(service, "status", main=without)
    assert ended.returncode == 1
    assert b"milepost[cli]" in ended.stderr


def test_the_sdk_itself_needs_no_typer() -> None:
    program = "import sys, milepost, milepost.aio, milepost.cli; assert 'typer' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", program], timeout=60, check=True)
