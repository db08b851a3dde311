"""In CI a skip fails the run; elsewhere it stays a skip. Each case is a run of pytest in a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.plugins.own_run import run_pytest

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_skipped(number):
    pytest.skip("no such part here")

@pytest.mark.skipif(True, reason="no such part here")
def test_skipped_by_its_marker():
    pass

@pytest.mark.xfail(strict=True, reason="known")
def test_that_is_expected_to_fail():
    raise AssertionError
"""
MODULE = """
import pytest

pytest.importorskip("no_such_part_here")
"""
REASONS = ["4 of the tests: no such part here", "1 of the tests: could not import 'no_such_part_here'"]


def run(directory: Path, ci: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_one.py").write_text(TESTS)
    (directory / "test_two.py").write_text(MODULE)
    plugins = ["tests.support.plugins.strict_skips", "no:cacheprovider"]
    return run_pytest(directory, "--continue-on-collection-errors", plugins=plugins, timeout=60, CI=ci)


def reasons_of(ended: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.partition(": No module")[0] for line in ended.stdout.splitlines() if " of the tests: " in line]


def test_a_skip_stays_a_skip_and_each_reason_is_reported_once(tmp_path: Path) -> None:
    ended = run(tmp_path, ci="")
    assert ended.returncode == 0, ended.stdout
    assert "5 skipped, 1 xfailed" in ended.stdout
    assert reasons_of(ended) == REASONS
    assert ended.stdout.count("no such part here") == 1


def test_in_ci_each_skip_fails_and_an_expected_failure_does_not(tmp_path: Path) -> None:
    ended = run(tmp_path, ci="true")
    assert ended.returncode != 0
    assert "3 failed, 1 xfailed, 2 errors" in ended.stdout  # by its marker one is skipped before it begins
    assert "skipped, which CI does not allow" in ended.stdout
    assert reasons_of(ended) == REASONS
