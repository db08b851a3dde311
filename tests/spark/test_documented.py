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
