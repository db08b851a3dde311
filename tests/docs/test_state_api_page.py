"""The table of the state API in docs/state.md has every public method."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import milepost.state.dialects.beam as api

TEXT = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## The state API") : TEXT.index("## Operator state")]
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (`client/state/dialects/beam/[^|]+) \|$", SECTION, re.MULTILINE)
NOT_TOLD = {"StateTable", "CombineFn", "TimestampCombiner", "Coder", "StateKind"}
"""What users give, not what they call; and the contract of `StateStore`, which has a table of its own."""


def names(text: str) -> set[str]:
    """The names in a cell of the table, without the class in front."""
    return {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", text)}


def test_every_public_method_has_its_row() -> None:
    told = set().union(*(names(here) for _, here, _ in ROWS))
    for name in api.__all__:
        thing = getattr(api, name)
        if inspect.isfunction(thing):
            assert name in told, name
        elif inspect.isclass(thing) and name not in NOT_TOLD and not name.endswith(("Table", "Window", "WindowCoder")):
            methods = {
                member
                for member, value in vars(thing).items()
                if not member.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
            }
            assert methods - told - {"prefix"} == set(), name


def test_docstrings_name_the_originals() -> None:
    documented = "".join(
        inspect.getsource(inspect.getmodule(getattr(api, name)) or api)
        for name in api.__all__
        if hasattr(getattr(api, name), "__module__")
    )
    for original, _, _ in ROWS:
        for name in re.findall(r"`(?:[A-Z]\w+\.)?([a-z]\w+)`", original):
            assert f"``{name}``" in documented, name
