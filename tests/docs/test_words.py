"""The words that docs/glossary.md took the place of come back neither as names in the code nor in the pages."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT

INSTEAD = {
    "burnt": "abandoned",
    "cuts": "snapshots",
    "doors": "data nodes",
    "founding": "deployment marker",
    "landed": "committed",
    "permits": "upload and download tokens",
    "pins": "savepoints",
    "settlement": "in-doubt commits",
    "slices": "loop time",
    "sweeps": "range tombstones",
    "upkeep": "maintenance",
}
"""Words of the first releases' code, and what stands in their place. Where English needs one, it is not listed."""

PACKAGES = ("backends", "client/milepost", "service")
ELSEWHERE = {"client/milepost/state/store": {"pins"}, "client/milepost/state/processors": {"slices"}}
"""Where the field itself has such a word: a provider pins versions, and rows are cut into slices."""


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_in_the_code_is_one_of_them(package: str) -> None:
    found = []
    for module in (path for path in modules() if path.is_relative_to(ROOT / package)):
        place = module.relative_to(ROOT)
        allowed = {word for folder, words in ELSEWHERE.items() if place.is_relative_to(folder) for word in words}
        names = tokenize.generate_tokens(io.StringIO(module.read_text(encoding="utf-8")).readline)
        words = {word for token in names if token.type == tokenize.NAME for word in token.string.lower().split("_")}
        words |= set(place.with_suffix("").parts)
        found += [f"{place}: {word}, say {INSTEAD[word]}" for word in sorted((words & INSTEAD.keys()) - allowed)]
    assert found == []


def test_no_page_has_one_of_them() -> None:
    words = re.compile(rf"(?<![\w`/-])({'|'.join(INSTEAD)})(?![\w`/-])", re.IGNORECASE)
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match[1]}, say {INSTEAD[match[1].lower()]}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for match in words.finditer(line)
    ]
    assert found == []
