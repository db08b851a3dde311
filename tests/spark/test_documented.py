"""docs/spark.md lists what `lead` takes, with its defaults."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import milepost.spark

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_every_argument_of_lead_is_listed_with_its_default() -> None:
    table = PAGE.read_text().split("## The arguments of `lead`")[1].split("\n## ")[0]
    listed: dict[str, str] = {}
    for cells in re.findall(r"^\| (`.+?) \| (.*?) \|", table, re.MULTILINE):
        listed |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[1].strip("`").partition("`")[0])
    parameters = inspect.signature(milepost.spark.lead).parameters
    assert list(listed) == list(parameters)
    for name, parameter in parameters.items():
        default = parameter.default
        if isinstance(default, (int, float)) and name != "verify":
            assert listed[name] == f"{default:g}" if not isinstance(default, bool) else str(default), name


def test_every_trial_that_the_table_names_is_there() -> None:
    text = PAGE.read_text().split("## Which jobs, which sinks, what is guaranteed")[1].split("\n## ")[0]
    named = set(re.findall(r"`(test_\w+\.py)`", text))
    there = {path.name for path in (Path(__file__).parent / "guarantees").glob("test_*.py")}
    assert named == there


def test_the_table_has_every_cell() -> None:
    text = PAGE.read_text().split("## Which jobs, which sinks, what is guaranteed")[1].split("\n## ")[0]
    header, *rows = [line.strip("|").split("|") for line in text.strip().splitlines() if line.startswith("| ")][:9]
    assert [len(row) for row in rows] == [len(header)] * 8
    words = r"\*\*exact\*\*|at least once|refused|no: PySpark only|no release"
    for row in rows:
        for cell in row[1:]:
            assert re.match(words, cell.strip()), (row[0], cell)
    notes = set(re.findall(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+", "".join(map("".join, rows))))
    assert len(notes) == len(re.findall(r"^\d+\. ", text, re.MULTILINE))
