"""What the README says to paste works when pasted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.wire import Code
from service.__main__ import parser
from testbed.server import ServerProcess

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("curl.py")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SDK_README = (ROOT / "client" / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("readme")) as process:
        yield process.start()


@pytest.fixture(scope="module")
def follower(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A second replica over the same data, which sends on to the first."""
    directory = tmp_path_factory.mktemp("follower")
    with ServerProcess(directory, pointers=server.pointers, blobs=server.blobs) as process:
        yield process.start(until="/readyz")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def pasted(block: str, server: ServerProcess) -> str:
    assert "http://127.0.0.1:7070" in block
    return block.replace("http://127.0.0.1:7070", server.url)


@pytest.mark.parametrize(("text", "printed"), [(README, "batch 8"), (SDK_README, "")], ids=["project", "sdk"])
def test_the_lines_of_python_work(text: str, printed: str, server: ServerProcess, tmp_path: Path) -> None:
    script = tmp_path / "pasted.py"
    script.write_text(pasted(blocks(text, "python")[0], server), encoding="utf-8")
    for _ in range(2):  # also over what the first time left there
        ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert printed in ran.stdout


PROGRAMS = ["curl", "stand-in"] if shutil.which("curl") else ["stand-in"]


def path_with(program: str, directory: Path) -> str:
    """A PATH on which there is a curl: the machine's, or one of the standard library alone, for where it has none."""
    path = os.environ["PATH"]
    if program == "curl":
        return path
    stand_in = directory / "curl"
    stand_in.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(STAND_IN))} "$@"\n')
    stand_in.chmod(0o755)
    return f"{directory}{os.pathsep}{path}"


def run(script: str, program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PATH": path_with(program, directory)},
    )


@pytest.mark.parametrize("asked", ["leader", "follower"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_curl_lines_work_one_after_the_other(
    server: ServerProcess, follower: ServerProcess, tmp_path: Path, program: str, asked: str
) -> None:
    ran = run(pasted(blocks(README, "sh")[0], server if asked == "leader" else follower), program, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert '"name":"latest"' in ran.stdout
    assert "batch 8" in ran.stdout
    assert re.search(r'"locks":\["readme-\d+-\d+"\]', ran.stdout)
    assert '"epoch":1' in ran.stdout
    assert '{"removed":true}' in ran.stdout
    assert '{"cleared":0}' in ran.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_curl_line_that_is_refused_fails_and_shows_the_problem(
    server: ServerProcess, tmp_path: Path, program: str
) -> None:
    first, *lines = pasted(blocks(README, "sh")[0], server).splitlines()
    assert first.startswith("#")
    variables = [line for line in lines if not line.startswith("curl")][:2]
    (adds,) = [line for line in lines if "-X POST $M/stores/$ID/handles/latest -H" in line]
    ran = run("\n".join([*variables, adds]), program, tmp_path)  # without a session before
    assert ran.returncode == 22
    assert '"type":"urn:milepost:session-unknown"' in ran.stdout


def test_each_operation_of_the_contract_has_its_line() -> None:
    lines = re.findall(
        r'curl -LsS --fail-with-body(?: -X ([A-Z]+)| (-I))? "?\$M/stores/\$ID/([a-z/]+)', blocks(README, "sh")[0]
    )
    shown = {(method or ("HEAD" if head else "GET"), path) for method, head, path in lines}
    assert shown >= {
        *((method, "handles/latest") for method in ("POST", "PUT", "HEAD", "DELETE")),
        *((method, "handles") for method in ("GET", "DELETE")),
        *((method, path) for method in ("POST", "DELETE") for path in ("handles/latest/lock", "locks")),
        ("GET", "handles/latest/state"),
        ("POST", "epoch"),
    }


def test_the_table_of_flags_has_the_order_the_defaults_and_the_words_of_help() -> None:
    """A meaning may go on behind the words of ``--help``."""
    table = README.split("| flag | default | meaning |\n|---|---|---|\n")[1].split("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    actions = [action for action in parser({})._actions if action.dest != "help"]
    assert [flag.split()[0].strip("`") for flag, _, _ in rows] == [action.option_strings[-1] for action in actions]
    for action, (_, default, meaning) in zip(actions, rows, strict=True):
        assert meaning.replace("`", "").replace(r"\|", "|").strip().startswith(action.help or "-"), action.dest
        assert str(action.default or "") in default, action.dest


def test_the_codes_that_are_named_exist() -> None:
    table = README.split("| operation of the contract |")[1].split("\n\n")[0]
    named = set(re.findall(r"\d{3} `([a-z-]+)`", table))
    assert named
    assert named <= {code.value for code in Code}


def test_the_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
