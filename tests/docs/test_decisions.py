"""Each decision has one row in the index by subject."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT

DECISIONS = ROOT / "docs" / "decisions"


def test_the_index_has_each_page_once() -> None:
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\((.*?)\) \| .+ \|$", index, re.MULTILINE)
    assert sorted(page for _, page in listed) == sorted(page.name for page in DECISIONS.glob("0*.md"))
    assert all(page.startswith(f"{number}-") for number, page in listed)
