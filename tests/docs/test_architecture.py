"""The pages that say where a thing is done name files that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT

SERVER = ROOT / "service" / "milepost_server"
BELOW = (
    ROOT,
    SERVER,
    SERVER / "http",
    SERVER / "http" / "webhdfs",
    SERVER / "journal",
    SERVER / "journal" / "in_doubt",
    ROOT / "client" / "milepost",
    ROOT / "backends" / "milepost_backends",
    ROOT / "backends" / "milepost_backends" / "s3",
)
"""What a page has said already, in the same paragraph or at the head of its section, when it names a shorter path."""

PATHS = re.compile(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py|(?:service|backends|client|tests|testbed)/[\w/]+)`")


@pytest.mark.parametrize("page", ["docs/architecture.md", "backends/README.md"])
def test_each_file_that_a_page_names_exists(page: str) -> None:
    named = set(PATHS.findall((ROOT / page).read_text(encoding="utf-8")))
    assert named
    assert [path for path in sorted(named) if not any((place / path).exists() for place in BELOW)] == []


def test_the_tasks_of_a_leader_are_those_of_the_table() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text.split("| task | where | what it does | what ends it |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    replica = (SERVER / "replica" / "replica.py").read_text(encoding="utf-8")
    (started,) = re.findall(r"await self\._first_of\(\n(.*?)\n        \)", replica, re.DOTALL)
    assert len(rows.splitlines()) == len(started.splitlines()) == 13
