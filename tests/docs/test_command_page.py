"""The page about the command line says what ``--help`` says. (test_blocks.py pastes its lines.)"""

from __future__ import annotations

import re

from tests.docs.command_page import PAGE, SAYS, written

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_has_what_help_says() -> None:
    assert written(TEXT) == TEXT, f"docs/cli.md differs from --help. {SAYS}"


def test_each_command_has_its_section() -> None:
    sections = re.findall(r"^### (milepost.*)$", TEXT, re.MULTILINE)
    assert {"milepost", "milepost put", "milepost run", "milepost sessions show", "milepost files clone"} <= set(
        sections
    )
