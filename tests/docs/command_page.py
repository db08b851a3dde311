"""Writes the end of docs/cli.md: what ``--help`` says of each command. ``python -m tests.docs.command_page``"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.testing

from milepost.cli.app import application, root_command

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
SAYS = "`python -m tests.docs.command_page` writes what follows anew after a change of the commands.\n"
_TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1", "MILEPOST_URL": None, "MILEPOST_TOKEN": None, "MILEPOST_CONTEXT": None}


def written(page: str) -> str:
    """Return the page with what ``--help`` says now."""
    kept, said, _ = page.partition(SAYS)
    assert said, f"the page has to say: {SAYS}"
    return kept + SAYS + "".join(_section(names) for names in _commands((), root_command()))


def _commands(names: tuple[str, ...], command: Any) -> Iterator[tuple[str, ...]]:
    yield names
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands((*names, name), below)


def _section(names: tuple[str, ...]) -> str:
    ended = typer.testing.CliRunner().invoke(
        application(), [*names, "--help"], env=_TERMINAL, prog_name="milepost", catch_exceptions=False
    )
    assert ended.exit_code == 0, ended.output
    return f"\n### {' '.join(('milepost', *names))}\n\n```\n{ended.stdout.strip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
