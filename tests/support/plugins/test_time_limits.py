"""A test that hangs in any way, or takes too much memory, is ended and named, and the others run all the same."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.plugins.own_run import run_pytest

LIMIT_SECONDS = 12.0
MEMORY = 400 << 20

SWALLOWS = """\
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""
HANGING = {
    "spins": "def test_hangs():\n    while True:\n        pass\n",
    "swallows": f"def test_hangs():\n{SWALLOWS}",
    "stands_in_c": """
import itertools

def test_hangs():
    sum(itertools.repeat(0))  # holds the interpreter's lock, and looks for no signal
""",
    "starves_its_loop": """
import asyncio

async def unavailable():
    raise OSError

async def spin():
    while True:
        try:
            await unavailable()
        except OSError:
            continue

async def main():
    await asyncio.gather(spin(), spin())

def test_hangs():
    asyncio.run(main())
""",
    "hangs_at_its_end": f"""
import pytest

@pytest.fixture
def endless():
    yield
{SWALLOWS}
def test_hangs(endless):
    assert False
""",
    "grows": """
import pytest

@pytest.mark.timeout(60)
def test_hangs():
    kept = []
    while True:
        kept.append(b"x" * (1 << 20))
""",
}
KILLED = ("swallows", "stands_in_c", "starves_its_loop")
AFTERWARDS = "\n\ndef test_afterwards():\n    pass\n"


def run(directory: Path, *arguments: str, end_seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
    return run_pytest(
        directory,
        "-rA",
        *arguments,
        plugins=["tests.support.plugins.time_limits", "xdist", "pytest_timeout", "no:cacheprovider"],
        timeout=200,
        MILEPOST_TEST_BYTES=str(MEMORY),
        MILEPOST_TEST_END_SECONDS=str(end_seconds),
    )


def test_each_that_hangs_or_grows_is_ended_and_named_once_and_the_others_run(tmp_path: Path) -> None:
    for name, source in HANGING.items():
        (tmp_path / f"test_{name}.py").write_text(source + AFTERWARDS)
    ended = run(tmp_path, "--timeout", str(LIMIT_SECONDS), "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
    summary = ended.stdout[ended.stdout.index("short test summary") :]
    for name in HANGING:
        assert re.search(rf"^FAILED .*test_{name}.py::test_hangs\b", summary, re.MULTILINE), (name, ended.stdout)
        assert re.search(rf"^PASSED .*test_{name}.py::test_afterwards\b", summary, re.MULTILINE), (name, ended.stdout)
    killed = re.findall(r"^\+\+\+\+ (\S+) is over its time limit", ended.stderr, re.MULTILINE)
    assert len(killed) == len(set(killed)), ended.stderr
    assert {f"test_{name}.py::test_hangs" for name in KILLED} <= set(killed)
    assert "in test_hangs" in ended.stderr, "the stack of the test that hangs is not printed"
    too_much = r"^\+\+\+\+ test_grows.py::test_hangs: process \d+ takes \d+ MiB, more than 400"
    assert re.search(too_much, ended.stderr, re.MULTILINE), ended.stderr


def test_a_run_without_workers_ends_with_what_the_test_began(tmp_path: Path) -> None:
    """The process that the test began would go on otherwise."""
    written = tmp_path / "pid"
    begins = f"""    begun = subprocess.Popen(["sleep", "300"])
    pathlib.Path({str(written)!r}).write_text(str(begun.pid))
"""
    (tmp_path / "test_one.py").write_text(f"import pathlib, subprocess\ndef test_hangs():\n{begins}{SWALLOWS}")
    ended = run(tmp_path, "--timeout", str(LIMIT_SECONDS))
    assert ended.returncode != 0
    assert "++++ test_one.py::test_hangs is over its time limit" in ended.stderr
    stat = Path(f"/proc/{written.read_text()}/stat")
    until = time.monotonic() + 30.0
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < until, "the process that the test began is still there"
        time.sleep(0.05)


def test_what_goes_on_after_the_last_test_is_ended_and_named(tmp_path: Path) -> None:
    thread = "import threading, time\n\ndef test_one():\n    threading.Thread(target=time.sleep, args=[300]).start()\n"
    (tmp_path / "test_one.py").write_text(thread)
    ended = run(tmp_path, end_seconds=1.0)
    assert ended.returncode != 0
    assert "++++ the end of the run is over its time limit" in ended.stderr


def test_a_worker_that_is_done_waits_for_the_others(tmp_path: Path) -> None:
    """The long test takes several times what the end of a run may take, so that the idle worker would be killed."""
    (tmp_path / "test_long.py").write_text("import time\n\ndef test_one():\n    time.sleep(5)\n")
    (tmp_path / "test_short.py").write_text("def test_one():\n    pass\n")
    ended = run(tmp_path, "-n", "2", "--dist", "loadfile", end_seconds=1.0)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "++++" not in ended.stderr
