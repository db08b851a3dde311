"""In CI a skip fails the run; elsewhere it stays a skip. Each case is a run of pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SKIPPED_TEST = """
import pytest

def test_it():
    pytest.skip("no such part here")
"""
SKIPPED_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    pytest.skip("no such part here")

def test_that():
    pytest.skip("no such part here")

def test_other():
    pytest.skip("another reason")
"""
SKIPPED_BY_MARK = """
import pytest

@pytest.mark.skipif(True, reason="no such part here")
def test_it():
    pass
"""
SKIPPED_MODULE = """
import pytest

pytest.importorskip("no_such_part_here")
"""
EXPECTED_FAILURE = """
import pytest

@pytest.mark.xfail(strict=True, reason="known")
def test_it():
    raise AssertionError
"""


def run(directory: Path, source: str, ci: str, report: str = "-rN") -> subprocess.CompletedProcess[str]:
    (directory / "test_one.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.strict_skips", "-p", "no:cacheprovider", report]
    return subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(directory), str(directory)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("source", [SKIPPED_TEST, SKIPPED_BY_MARK, SKIPPED_MODULE])
def test_a_skip_fails_in_ci_and_says_why(tmp_path: Path, source: str) -> None:
    ended = run(tmp_path, source, ci="true")
    assert ended.returncode != 0
    assert "skipped, which CI does not allow" in ended.stdout
    assert "no such part here" in ended.stdout or "no_such_part_here" in ended.stdout


@pytest.mark.parametrize("source", [SKIPPED_TEST, SKIPPED_BY_MARK])
def test_a_skip_stays_a_skip_elsewhere(tmp_path: Path, source: str) -> None:
    ended = run(tmp_path, source, ci="")
    assert ended.returncode == 0, ended.stdout
    assert "1 skipped" in ended.stdout


def test_each_reason_is_printed_once_in_the_last_lines(tmp_path: Path) -> None:
    ended = run(tmp_path, SKIPPED_TESTS, ci="", report="-ra")
    assert ended.returncode == 0, ended.stdout
    assert [line for line in ended.stdout.splitlines() if line][-3:-1] == [
        "4 of the tests: no such part here",
        "1 of the tests: another reason",
    ]
    assert ended.stdout.count("no such part here") == 1


@pytest.mark.parametrize("source", [SKIPPED_TESTS, SKIPPED_BY_MARK, SKIPPED_MODULE])
def test_each_reason_is_printed_in_ci_too(tmp_path: Path, source: str) -> None:
    ended = run(tmp_path, source, ci="true")
    printed = [line for line in ended.stdout.splitlines() if " of the tests: " in line]
    assert len(printed) == len(set(printed)) == (2 if source == SKIPPED_TESTS else 1)


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    ended = run(tmp_path, EXPECTED_FAILURE, ci="true")
    assert ended.returncode == 0, ended.stdout
    assert "1 xfailed" in ended.stdout
