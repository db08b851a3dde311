"""What the pages say to run with ``make``, as they say it: README.md, developing.md, clusters.md, start/rest.md,
start/spark.md.

``make serve`` runs as it stands. What takes minutes is taken in by ``make`` as written, and runs in a small size: of a
demo its command is told to explain itself (``ARGS``; tests/demo plays it whole, by the same line, with ``make
test-slow``), and of ``make test`` and ``make test-cluster`` each line goes through a shell that writes it down and then
runs it on little. CI itself runs ``make test-all``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from testbed.ports import Port
from tests.docs.blocks import ROOT, all_blocks
from tests.docs.checkout import Checkout, leads

pytestmark = pytest.mark.later

OWN = Path(__file__).relative_to(ROOT).as_posix()
BLOCKS = [block for block in all_blocks() if block.marks.get("tested by") == OWN]
LINES = sorted(
    {
        line.partition("#")[0].strip()
        for block in BLOCKS
        if "kind create" not in block.text
        for line in block.text.splitlines()
    }
)
SMALLER = {
    r"-m mypy (--python-version \S+ )?.*": r"-m mypy \1client/milepost/wire.py",
    r"--numprocesses \d+ .*--ignore tests/client": "tests/service/rules/handlers/test_handles.py",
    r"(-m node .*)tests/system/node": r"\1tests/system/node/test_leaders.py",
    r"tools/test-sdk (\w+) .*": r"bash -n tools/test-sdk \1",
    r"-m tests.stopwatch": "-c 0",
    r"tools/(openapi/build|chromium|node-packages|kubernetes/build) .*": r"test -x tools/\1",
}
"""What is run in place of a line: of each check a little, and of what only fetches programs whether it is there."""
SHELL = """#!{python}
import json, os, re, sys
line = sys.argv[-1]
with open(os.environ["LINES"], "a") as file:
    print(line, file=file)
for old, new in json.loads(os.environ["SMALLER"]).items():
    line = re.sub(old, new, line)
os.execvp("bash", ["bash", *sys.argv[1:-1], line])
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("make") / "milepost")


@pytest.fixture
def recorded(tmp_path: Path) -> Mapping[str, str]:
    """Variables by which ``make`` gives each line to a shell that writes it down in the file ``LINES``."""
    shell = tmp_path / "shell"
    shell.write_text(SHELL.format(python=os.path.realpath("/proc/self/exe")))
    shell.chmod(0o755)
    return {
        "MAKEFLAGS": f"SHELL={shell}",
        "LINES": str(tmp_path / "lines"),
        "SMALLER": json.dumps(SMALLER),
        "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]),
    }


def test_each_line_of_the_pages_is_one_of_these() -> None:
    assert LINES == ["make", "make demo", "make demo-cluster", "make serve", "make test"]


def test_make_alone_explains_the_targets(checkout: Checkout) -> None:
    explained = checkout.run("make").stdout
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    for target in targets:
        assert f"make {target} " in explained


def test_make_serve(checkout: Checkout, tmp_path: Path) -> None:
    port = Port()
    with checkout.serving("make serve", port, tmp_path / "log") as server:
        server.start(leads(port))
        assert "leading journal root" in server.logged()  # as docs/start/spark.md says
        server.stop()
    assert checkout.path("milepost-data").is_dir()


@pytest.mark.parametrize("line", ["make demo", "make demo-cluster"])
def test_a_demo_is_the_program_that_it_says(checkout: Checkout, line: str) -> None:
    assert line in LINES
    assert "usage: python -m demo" in checkout.run(line, ARGS="--help").stdout


def test_make_test_runs_each_check(checkout: Checkout, recorded: Mapping[str, str]) -> None:
    said = checkout.run("make test", **recorded).stdout
    lines = re.sub(" +", " ", Path(recorded["LINES"]).read_text())
    for check in ("ruff check", "ruff format --check", "-m mypy service", "lint-imports", "--ignore tests/client"):
        assert check in lines
    assert re.search(r"^tools/test-sdk oldest --tier first ", lines, re.MULTILINE)
    assert "Passed. Not part of it: make test-all" in said
    assert " make test-all " in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_what_ci_has_no_time_for_is_not_begun_and_named(checkout: Checkout, recorded: Mapping[str, str]) -> None:
    said = checkout.run("make test-all MINUTES=1", **recorded).stdout
    lines = re.sub(" +", " ", Path(recorded["LINES"]).read_text())
    for check in ("ruff check", "-m mypy service", "lint-imports", "-m tests.stopwatch"):
        assert check in lines
    assert re.search(r"-m pytest (?!.*--tier).*--ignore tests/client", lines)
    assert re.search(r"^tools/test-sdk ends (?!.*--tier)", lines, re.MULTILINE)
    assert "did not run: test-long test-cluster test-kubernetes" in said


def test_a_cluster_that_you_have(checkout: Checkout, recorded: Mapping[str, str], tmp_path: Path) -> None:
    """kind and k3d, which need a container engine, are programs here that write down what they are asked.

    The tests of the node are collected and not run; those that look inside of it are left out, as the page says.
    """
    (block,) = (each for each in BLOCKS if "kind create" in each.text)
    configuration = yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": []})
    asked = tmp_path / "asked"
    for name in ("kind", "k3d"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho {name} "$@" >>{shlex.quote(str(asked))}\n'
            f"case \"$*\" in *'--config -'*) cat >{shlex.quote(str(tmp_path / 'given'))}; place=$4 ;; esac\n"
            f"cat >\"${{place:-/dev/stdout}}\" <<'EOF'\n{configuration}EOF\n"
        )
        program.chmod(0o755)
    flags = f"{recorded['MAKEFLAGS']} -o build"
    said = checkout.run(block.text, **{**recorded, "MAKEFLAGS": flags, "ARGS": "--collect-only -q"}).stdout
    place = f"{os.environ['HOME']}/.cache/milepost"
    (node,) = yaml.safe_load((tmp_path / "given").read_text())["nodes"]
    assert node["extraMounts"] == [{"hostPath": place, "containerPath": place}]
    assert asked.read_text().splitlines() == [
        "kind create cluster --kubeconfig kind.conf --config -",
        f"k3d cluster create milepost --volume {place}:{place}@all",
        "k3d kubeconfig get milepost",
    ]
    assert len(re.findall(r"left out, for it needs the node built here .*", said)) >= 2
    lines = Path(recorded["LINES"]).read_text()
    assert lines.count("tools/node-packages images") == lines.count("-m pytest") == 2
