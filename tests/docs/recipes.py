"""Follows the recipes of docs/recipes: writes each part that they show where they say that it belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import ROOT, Block, blocks_of
from tests.docs.checkout import Checkout

HERE = ROOT / "docs" / "recipes"
POINTERS, ELECTION, DISTRIBUTION = "A pointer store", "An election", "A distribution of its own"
BLOBS, OPERATION, COMMAND, METRIC = "A blob store", "Adding an operation", "Adding a command", "Adding a metric"
PAGES: Mapping[str, Path] = {
    **dict.fromkeys((POINTERS, ELECTION, DISTRIBUTION, BLOBS), HERE / "backend.md"),
    OPERATION: HERE / "operation.md",
    COMMAND: HERE / "command.md",
    METRIC: HERE / "metric.md",
}
"""The page of each recipe."""


@dataclass(frozen=True)
class Before:
    """The next part that a step shows stands in front of this text; without a text, at the end.

    ``path`` is the file, if it is not the one in the head of the step.
    """

    text: str = ""
    path: str = ""


@dataclass(frozen=True)
class Swap:
    """What a step says in words, such as an import: this text in place of that one."""

    old: str
    new: str
    path: str = ""


_IMPORTS = Before("from milepost_backends.zookeeper.address")
_REGISTERED = Before('}\n"""The packages of')

PLACES: Mapping[tuple[str, int], Sequence[Before | Swap]] = {
    (POINTERS, 3): [_IMPORTS, Before('    Backend("embedded", _directory, lambda address: EmbeddedPointers')],
    (ELECTION, 2): [_IMPORTS, Before('    Backend("embedded", _directory, lambda address, advertise: Emb')],
    (ELECTION, 5): [_REGISTERED],
    (DISTRIBUTION, 3): [Swap('    "toy": "milepost_backends.toy",\n', "")],
    (DISTRIBUTION, 4): [
        Swap("from milepost_backends.toy.election import ToyElection\n", ""),
        Swap("from milepost_backends.toy.pointers import ToyPointers\n", ""),
        _IMPORTS,
    ],
    (BLOBS, 3): [_REGISTERED],
    (BLOBS, 4): [_IMPORTS, Before('    Backend("local", _directory')],
    (OPERATION, 1): [Before("RELEASE_AND_TRY_REMOVE = ")],
    (OPERATION, 2): [Before("| `DELETE /handles/{name}` |")],
    (OPERATION, 3): [Before("class ReleaseAll")],
    (OPERATION, 4): [
        Before("def release("),
        Before("    ReleaseHandle: release,"),
        Swap("    Replace,\n)", "    Replace,\n    Touch,\n)"),
    ],
    (OPERATION, 5): [Before(), Swap("ReleaseHandle, Remove\n", "ReleaseHandle, Remove, Touch\n")],
    (OPERATION, 6): [
        Before("@answers(\n    router,\n    RELEASE_AND_TRY_REMOVE,"),
        Swap("    RELEASE_AND_TRY_REMOVE,\n)", "    RELEASE_AND_TRY_REMOVE,\n    TOUCH,\n)"),
        Swap("ReleaseHandle\n", "ReleaseHandle, Touch\n"),
    ],
    (OPERATION, 7): [
        Before("    def release_all("),
        Swap("    RESTORE_JOB_HISTORY,\n)", "    RESTORE_JOB_HISTORY,\n    TOUCH,\n)"),
    ],
    (OPERATION, 8): [Before("    def release_all(")],
    (OPERATION, 9): [Before("    async def release_all(")],
    (OPERATION, 10): [Before()],
    (COMMAND, 1): [Before("@shared\ndef show_handle(")],
    (COMMAND, 2): [
        Swap("    for command in (status, ls):\n", ""),
        Before("        app.command()(command)"),
        Swap("epochs, ls, ", "epochs, locks, ls, "),
    ],
    (COMMAND, 3): [Before()],
    (METRIC, 1): [Before("    @property\n    def damaged(")],
    (METRIC, 2): [Before('        self._gauge("milepost_groups_committed"')],
    (METRIC, 3): [Before("# -- what is not there")],
}


@dataclass(frozen=True)
class Step:
    """One step of a recipe, the file that its head names, and the blocks that it shows. Step 0 is what comes before."""

    recipe: str
    number: int
    path: str
    blocks: Sequence[Block]


def steps_of(recipe: str) -> Sequence[Step]:
    """Return the steps of a recipe, in order."""
    text = PAGES[recipe].read_text(encoding="utf-8")
    (section,) = _sections(recipe, text)
    found = re.finditer(r"^\*\*(\d+)\. (?:`([^`\n]+)`)?", section[1], re.MULTILINE)
    begin = section.start(1)
    heads = [(begin, 0, ""), *((begin + head.start(), int(head[1]), head[2] or "") for head in found)]
    lines = [text[:begin].count("\n") + 1 for begin, _, _ in heads] + [text[: section.end()].count("\n") + 1]
    blocks = blocks_of(PAGES[recipe])
    return [
        Step(recipe, number, path, [block for block in blocks if lines[at] <= block.line < lines[at + 1]])
        for at, (_, number, path) in enumerate(heads)
    ]


def section_of(recipe: str) -> str:
    """Return the text under the heading of a recipe."""
    (section,) = _sections(recipe, PAGES[recipe].read_text(encoding="utf-8"))
    return section[1]


def _sections(recipe: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"^#+ {recipe}\n(.*?)(?=^##+ |\Z)", text, re.DOTALL | re.MULTILINE)


def follow(recipe: str, checkout: Checkout) -> None:
    """Do what a recipe says to write, in a checkout. What it says to run is not run."""
    for step in steps_of(recipe):
        shown = [block for block in step.blocks if block.language != "sh"]
        if [block.language for block in shown] in (["python"], ["toml"]):  # the whole of a file
            path = checkout.path(step.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(shown[0].text, encoding="utf-8")
        else:
            _write(step, [part for block in shown for part in _parts(block.text)], checkout)


def _write(step: Step, parts: list[str], checkout: Checkout) -> None:
    for place in PLACES.get((step.recipe, step.number), ()):
        path = checkout.path(place.path or step.path)
        text = path.read_text(encoding="utf-8")
        if isinstance(place, Swap):
            old, new = place.old, place.new
        elif place.text:
            part = parts.pop(0)
            between = "\n" if re.match(r" *(@|def |async def )", part) else ""
            old, new = place.text, f"{part}{between}{place.text}"
        else:
            old, new = text, f"{text}\n\n{parts.pop(0)}"
        assert old in text, (step.recipe, step.number, place)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert parts == [], f"{step.recipe}, step {step.number}: nobody says where this belongs: {parts}"


def _parts(text: str) -> Sequence[str]:
    """A block that shows imports, and behind an empty line a part that stands elsewhere, has two parts."""
    imports, _, rest = text.partition("\n\n")
    return [f"{imports}\n", rest] if text.startswith("from ") and rest else [text]
