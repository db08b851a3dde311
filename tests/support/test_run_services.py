"""A service of the run is started once, however many processes ask for it, and ended with the run."""

from __future__ import annotations

from pathlib import Path

from tests.support.plugins.own_run import run_pytest

WORKERS = 3
CONFTEST = """
from tests.support import run_services

def pytest_configure(config):
    config.pluginmanager.register(run_services)
"""
SERVICE = """
from contextlib import contextmanager
from pathlib import Path

@contextmanager
def started(directory):
    note = Path(__file__).with_name("started")
    note.touch()
    with note.open("a") as file:
        file.write(f"{directory.name}\\n")
    yield directory
    note.rename(note.with_name("ended"))
"""
TESTS = """
import pytest
from service_of_this_test import started
from tests.support import run_services

@pytest.mark.parametrize("number", range(12))
def test_it_is_the_same(number, pytestconfig, request):
    directory = run_services.of(pytestconfig).get("some", started)
    (directory / str(number)).touch()
    assert directory.is_dir() and (directory.parent / "some") == directory
"""


def test_all_workers_share_one(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "service_of_this_test.py").write_text(SERVICE)
    (tmp_path / "test_some.py").write_text(TESTS)
    for arguments in (("--numprocesses", str(WORKERS)), ()):
        ended = run_pytest(tmp_path, *arguments, plugins=["xdist.plugin", "no:cacheprovider"], timeout=240)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert (tmp_path / "ended").read_text() == "some\n"
        (tmp_path / "ended").unlink()
