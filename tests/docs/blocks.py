"""Finds the blocks of code in the documentation. ``python -m tests.docs.blocks`` lists them, and how each is held.

Each is run: a block of shell or Python by `test_blocks.py`, unless a comment in front of it, which a reader of the page
does not see, says how instead:

``<!-- tested by: PATH -->``    that test reads the block from the page, and runs it
``<!-- given: WORDS -->``       it is run after this was put in place (`given.py`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "backends" / "README.md",
    ROOT / "client" / "README.md",
    ROOT / "examples" / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"),
]
RUN = ("sh", "python")
READ = ("json", "yaml", "toml", "ini", "py")
"""``py`` is a part of a file, which is no program of its own."""
SHOWN = ("", "text", "mermaid")
"""What stands there to be looked at: output, files and directories, drawings."""

_BLOCK = re.compile(
    r"(?P<comments>(?:^ *<!-- [a-z ]+: .*? -->\n)*)"
    r"^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!-- ([a-z ]+): (.*?) -->")


@dataclass(frozen=True)
class Block:
    """One block, and what the comments in front of it say."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it begins."""
        return f"{self.page}:{self.line}"

    @property
    def held(self) -> str:
        """How a test holds it: ``tested by`` another one, ``run``, ``read`` or ``shown``."""
        if "tested by" in self.marks:
            return "tested by"
        return "run" if self.language in RUN else "read" if self.language in READ else "shown"


def blocks_of(page: Path) -> list[Block]:
    """Return the page's blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page.relative_to(ROOT).as_posix(),
            text[: match.start("language")].count("\n") + 1,
            match["language"],
            re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
            dict(_COMMENT.findall(match["comments"])),
        )
        for match in _BLOCK.finditer(text)
    ]


def all_blocks() -> Iterator[Block]:
    """Yield the blocks of all pages."""
    for page in PAGES:
        yield from blocks_of(page)


if __name__ == "__main__":
    for block in all_blocks():
        reason = block.marks.get(block.held) or block.marks.get("given", "")
        print(f"{block.held:10} {block.language or '-':7} {block.place:36} {reason}")
