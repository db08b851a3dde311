"""The SDK and its command where Python has nothing of POSIX. No test here has a Windows: see `as_windows`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import ROOT, Service

BEGIN = "from tests.client.as_windows import become_windows; names = become_windows()\n"

MODULES_AND_FILES = """
import importlib, sys
from pathlib import Path

for name in names:
    importlib.import_module(name)
print(*names)

from milepost.state.store.engines.rocksdb import CacheDirectory, remove_leftovers
from milepost.state.store.files.contract import Created
from milepost.state.store.files.local import LocalFiles

files = LocalFiles(Path(sys.argv[1], "state"))
assert files.create("a/b/one", b"1") is Created.DONE
assert files.create("a/b/one", b"2") is Created.EXISTS
assert files.read("a/b/one", 0, 9) == b"1"

parent = Path(sys.argv[1], "bases")
mine = CacheDirectory(parent)
assert remove_leftovers(parent) == 0
mine.remove()
assert list(parent.iterdir()) == []
"""

COMMANDS = """
import sys
import milepost
from milepost.cli import main

def run(*arguments):
    sys.argv = ["milepost", *arguments]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code, flush=True)

url, store, backup = sys.argv[1:]
with milepost.Client(url) as client, client.session(holder="its driver") as session:
    session.store(store).add_and_lock("here", b"the state")
run("config", "set-context", "one", "--url", url)
run("config", "view")
run("ls", store)
run("get", store, "here")
run("backup", backup, "--store", store)
run("--help")
run("run", "--job", "orders", "spark-submit", "job.py")
"""


def on_windows(program: str, *arguments: str, **environment: str) -> str:
    """What a program says where nothing is left of POSIX."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + program, *arguments],
        env={**os.environ, "NO_COLOR": "1", **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_modules_are_imported_and_local_files_written(tmp_path: Path) -> None:
    names = on_windows(MODULES_AND_FILES, str(tmp_path)).split()
    assert {"milepost.aio.client", "milepost.cli.app", "milepost.state.store.engines.rocksdb"} <= set(names)


@pytest.mark.later  # a whole program
def test_commands_work_against_a_service(service: Service, tmp_path: Path, name: str) -> None:
    backup, config = tmp_path / "backup.tar", tmp_path / "config.yaml"
    said = on_windows(COMMANDS, service.url, name, str(backup), MILEPOST_CONFIG=str(config))
    assert said.count("ended with 0") == 6, said
    assert "here" in said, "ls"
    assert "the state" in said, "get"
    assert backup.stat().st_size > 0
    assert "step-down" in said, "the help"
    assert said.endswith("ended with 125\n")
    assert "milepost run needs POSIX" in said
