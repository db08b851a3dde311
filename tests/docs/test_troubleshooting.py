"""Whoever looks up a problem code or a line of the log finds it in docs/troubleshooting.md."""

from __future__ import annotations

import re

from milepost import errors
from milepost.wire import PROBLEMS, Code
from tests.docs.blocks import ROOT
from tests.docs.log_lines import log_lines

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def test_each_problem_code_has_its_entry_in_order_and_with_its_status() -> None:
    section = PAGE.split("\n## Problem codes\n")[1].split("\n## ")[0]
    entries = re.findall(r"^### `([a-z-]+)`\n\n(\d{3})[.,]", section, re.MULTILINE)
    assert dict(entries) == {code.value: str(PROBLEMS[code].status) for code in Code}
    assert [code for code, _ in entries] == sorted(code.value for code in Code)


def test_each_entry_says_an_outcome_that_is_not_the_usual_one() -> None:
    for code, kind in PROBLEMS.items():
        entry = PAGE.split(f"\n### `{code.value}`\n")[1].split("\n###")[0]
        said = re.findall(r"^\d{3}, `outcome` is `(\w+)`", entry, re.MULTILINE)
        assert said == ([] if kind.outcome.value == "not_applied" else [kind.outcome.value]), code


def _patterns() -> dict[str, re.Pattern[str]]:
    section = PAGE.split("\n## Lines of the log\n")[1]
    cells = re.findall(r"^\| (`.*?`) \| ", section, re.MULTILINE)
    lines = [line for cell in cells for line in re.findall(r"`(.*?)`(?:<br>|$)", cell)]
    return {line: re.compile(".+".join(map(re.escape, line.split("…")))) for line in lines}


def test_each_warning_and_error_of_the_log_has_its_row() -> None:
    patterns = _patterns()
    missing = [line for line in sorted(log_lines()) if not any(each.fullmatch(line) for each in patterns.values())]
    assert missing == [], "docs/troubleshooting.md, under 'Lines of the log', lacks these"


def test_no_row_speaks_of_a_line_that_is_not_logged_any_more() -> None:
    logged = log_lines()
    assert [line for line, each in _patterns().items() if not any(map(each.fullmatch, logged))] == []


def test_the_exceptions_that_are_named_exist() -> None:
    section = PAGE.split("\n## The job\n")[1].split("\n## ")[0]
    named = re.findall(r"`([A-Z][a-z]+[A-Z]?[A-Za-z]+)`", section)
    elsewhere = {"AccessControlException"}  # Hadoop's
    assert len(named) > 10
    assert [name for name in named if not hasattr(errors, name) and name not in elsewhere] == []
