"""A cut of `make fuzz`, the same each time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.run import KINDS
from tests.fuzz.verdicts import Page, Wrong

ROOT = Path(__file__).parents[2]
CASES = 300
SECONDS = 24.0


def test_whatever_is_asked_is_answered_as_documented() -> None:
    """In a process of its own, as `make fuzz` runs it: Hypothesis takes it for a fault of a strategy when a thread that
    another test left behind draws from the global `random` meanwhile."""
    command = [sys.executable, "-m", "tests.fuzz", f"--cases={CASES}", "--seed=1", f"--seconds={SECONDS:g}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    sent = {kind: int(number) for number, kind in re.findall(r"(\d+) (\w+)[,]", ended.stdout.partition("passed: ")[2])}
    assert sent.keys() == KINDS.keys()
    assert all(sent.values()), sent


PAGE = Page(
    {
        "info": {"description": "404 `no-route` for another path"},
        "components": {"schemas": {"Problem": {"required": ["type", "status", "detail"]}}},
        "paths": {},
    }
)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"Internal Server Error"),
        (404, b'{"type": "urn:milepost:no-route", "status": 404}'),
        (404, b'{"type": "urn:milepost:no-route", "status": 400, "detail": ""}'),
        (404, b'{"type": "urn:milepost:unheard-of", "status": 404, "detail": ""}'),
        (500, b'{"type": "urn:milepost:internal", "status": 500, "detail": ""}'),
    ],
)
def test_what_is_not_documented_is_found(status: int, body: bytes) -> None:
    with pytest.raises(Wrong):
        PAGE.judge_problem(status, body, {**PAGE.beside, "internal": 500})
