"""The page on harm to a job: each kind in its table is one that a test does and takes back."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"\| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
TEXT = (ROOT / "docs" / "harm.md").read_text(encoding="utf-8")
TESTS = ROOT / "tests" / "spark" / "tour" / "test_harm.py"


def test_each_kind_of_harm_has_its_test_and_each_test_its_row() -> None:
    told = re.findall(r"\| `(test_\w+)` \|$", TEXT, re.MULTILINE)
    assert sorted(told) == sorted(named_in(TESTS))
    for file, name in ELSEWHERE.findall(TEXT):
        assert name in named_in(ROOT / "tests" / file)


def named_in(path: Path) -> list[str]:
    """The names of the tests of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")]
