"""The programs in examples/ do what they say, and go on where others were killed. (tests/spark has the Spark job.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import milepost
from testbed.server import ServerProcess
from tests.docs import pasted
from tests.docs.blocks import ROOT, blocks_of

EXAMPLES = ROOT / "examples"
DEADLINE_SECONDS = 60.0
MOST_LINES = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("examples")) as process:
        yield process.start()


def exported(server: ServerProcess) -> dict[str, str]:
    """The variables that the block of the page sets, with this server's address for the one that is there."""
    (block,) = blocks_of(EXAMPLES / "README.md")
    variables = dict(re.findall(r"^export (\w+)=(\S+)$", block.text, re.MULTILINE))
    return {name: pasted.at(value, server.url) for name, value in variables.items()}


@contextmanager
def started(server: ServerProcess, program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of the examples, which is killed at the end of the block if it still runs."""
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **exported(server)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)
        if process.stdout:
            process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that it prints; the test's own time limit ends the wait."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end_session_of(server: ServerProcess, store: str) -> None:
    """End the session of who leads, as the service does once it was not renewed: that saves waiting for it."""
    with milepost.Client(server.url) as client, closing(client):
        session = client.store(store).current_epoch().session
        assert session is not None
        client.session("operator", session_id=session).close()


def test_a_worker_goes_on_where_another_was_killed(server: ServerProcess) -> None:
    arguments = ("--job", "counting", "--pause", "0.01")
    with started(server, "counting_worker.py", *arguments, "--until", "100000") as first:
        assert line_of(first) == "epoch 1: going on at 0"
        with milepost.Client(server.url) as client:
            while client.store("counting").exists(f"checkpoint-{5:019d}") is None:
                assert first.poll() is None
                if client.store("counting").exists(f"checkpoint-{8:019d}") is not None:
                    break
        first.kill()
        first.wait(DEADLINE_SECONDS)
    end_session_of(server, "counting")
    with milepost.Client(server.url) as client:
        last = max(int(handle.name[-19:]) for handle in client.store("counting").get_all_handles())
    with started(server, "counting_worker.py", *arguments, "--until", str(last + 3)) as second:
        assert line_of(second) == f"epoch 2: going on at {last}"
        assert line_of(second) == f"done: the sum of the numbers up to {last + 3} is {(last + 3) * (last + 4) // 2}"
        assert second.wait(DEADLINE_SECONDS) == 0


def test_a_task_runs_at_each_time_once_and_elsewhere_when_its_leader_dies(server: ServerProcess) -> None:
    arguments = ("--name", "cron", "--every", "1")
    with started(server, "elected_cron.py", *arguments) as first:
        ran = [line_of(first)]
        with started(server, "elected_cron.py", *arguments, "--runs", "2") as second:
            ran.append(line_of(first))
            first.kill()
            first.wait(DEADLINE_SECONDS)
            ran += first.stdout.read().splitlines() if first.stdout else []
            end_session_of(server, "cron")
            ran += [line_of(second), line_of(second)]
            assert second.wait(DEADLINE_SECONDS) == 0
    assert all(re.fullmatch(r"running for \d\d:\d\d:\d\d", line) for line in ran)
    assert len(ran) == len(set(ran)) >= 4


def test_many_states_at_once(server: ServerProcess) -> None:
    with started(server, "many_states.py") as process:
        assert line_of(process) == "200 states saved, 200 removed again"
        assert process.wait(DEADLINE_SECONDS) == 0


@pytest.mark.parametrize("program", pasted.PROGRAMS)
def test_a_job_in_shell_goes_on_at_each_run(server: ServerProcess, tmp_path: Path, program: str) -> None:
    script = f"{EXAMPLES / 'rest.sh'} shell-{program}"
    for step in (1, 2, 3):
        ran = pasted.run(script, tmp_path, program, **exported(server))
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        was = "the first run" if step == 1 else f"the last run ended at step {step - 1}"
        assert ran.stdout == f"epoch {step}: {was}\nsaved step {step}\n"


def test_a_job_in_shell_ends_where_its_write_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    text = (EXAMPLES / "rest.sh").read_text()
    assert text.count("\nhandle=") == 1
    other = text.replace("\nhandle=", "\nepoch=$((epoch + 1))\nhandle=")  # one that is not its own
    ran = pasted.run(other, tmp_path, **exported(server))
    assert ran.returncode == 1
    assert '"type":"urn:milepost:fenced"' in ran.stderr
    assert "saved" not in ran.stdout


def test_each_example_is_short_and_has_its_row() -> None:
    programs = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh"))
    rows = re.findall(r"^\| \[([\w.]+)\]\(\1\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == [path.name for path in programs]
    for path in programs:
        assert len(path.read_text().splitlines()) <= MOST_LINES, path
