"""The supervisor within this process; ``tests/client/cli/test_run.py`` has what signals do to it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

import milepost
from milepost.errors import SessionLost
from milepost.supervise import CannotStart, Supervisor, Terms
from tests.client.conftest import Service

ONCE = Terms(restarts=0)


@pytest.mark.parametrize(
    ("program", "status"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_status_of_the_command_is_passed_through(
    service: Service, blocking: milepost.Client, name: str, program: str, status: int
) -> None:
    command = [sys.executable, "-c", program]
    assert Supervisor(blocking, [service.url], name, command, ONCE).run() == status
    assert blocking.session("next").store(name).campaign(0.0).epoch == 2


def test_what_cannot_be_started_is_not_started_again(
    service: Service, blocking: milepost.Client, name: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(CannotStart):
        Supervisor(blocking, [service.url], name, [str(tmp_path / "text")], Terms()).run()
    assert blocking.session("next").store(name).campaign(0.0).epoch == 2


def test_a_command_that_lost_its_epoch_once_too_often(service: Service, blocking: milepost.Client, name: str) -> None:
    """Its session is ended by the command itself, which says that all is well when it has to end."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
        "import milepost; client = milepost.Client(sys.argv[1]); store = client.store(sys.argv[2]);"
        "client.session('thief', session_id=store.current_epoch().session).close(); time.sleep(300)"
    )
    command = [sys.executable, "-c", program, service.url, name]
    with pytest.raises(SessionLost):
        Supervisor(blocking, [service.url], name, command, Terms(ttl=3.0, restarts=0)).run()


def test_handlers_of_signals_are_put_back(service: Service, blocking: milepost.Client, name: str) -> None:
    def mine(*_: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        Supervisor(blocking, [service.url], name, [sys.executable, "-c", ""], ONCE).run()
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
