"""Writes the end of the chart's README: each value, its default, and what values.yaml says of it.

``python -m tests.deploy.chart_page``
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tests.deploy.helm import CHART

PAGE = CHART / "README.md"
VALUES = CHART / "values.yaml"
SAYS = "`python -m tests.deploy.chart_page` writes what follows anew after a change of values.yaml.\n"
_HEAD = "\n| value | default | meaning |\n|---|---|---|\n"
_KEY = re.compile(r"(?P<indent> *)(?P<name>[A-Za-z]\w*):(?: (?P<given>\S.*))?\Z")
_LONGEST = 70
_PART_OF_A_LIST = object()


@dataclass(frozen=True)
class Value:
    """One value by its path; ``default`` is None for one that has others below it."""

    path: str
    default: str | None
    meaning: str


def written(page: str) -> str:
    """Return the page with what values.yaml says now."""
    kept, said, _ = page.partition(SAYS)
    assert said, f"the page has to say: {SAYS}"
    return kept + SAYS + _HEAD + "".join(_row(value) for value in values(VALUES.read_text(encoding="utf-8")))


def values(text: str) -> Iterator[Value]:
    """Every value of such a file, in its order, with the comment that stands right above it."""
    defaults = yaml.safe_load(text)
    above: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            above.append(line.lstrip()[1:].strip())
            continue
        found = _KEY.match(line)
        if found:
            indent = len(found["indent"])
            parents = [parent for parent in parents if parent[0] < indent] + [(indent, found["name"])]
            path = ".".join(name for _, name in parents)
            value = _at(defaults, path)
            default = _default(value)
            if value is not _PART_OF_A_LIST and (above or default is not None):
                yield Value(path, default, " ".join(above))
        above = []


def _at(defaults: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(defaults, list):
            return _PART_OF_A_LIST
        defaults = defaults[name]
    return defaults


def _default(value: Any) -> str | None:
    if value is _PART_OF_A_LIST or (isinstance(value, dict) and value):
        return None
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if len(text) <= _LONGEST else "in values.yaml"


def _row(value: Value) -> str:
    cells = (f"`{value.path}`", value.default or "", value.meaning.replace("|", "\\|").replace("<", "&lt;"))
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
