"""The recipes of docs/recipes, followed in a checkout of their own: all that they say to run ends well there.

The pages are backend.md, operation.md, command.md and metric.md.

They are followed one upon the other, and then run, so that what several of them say to run (``make lint types
floors``) runs once. ``make types`` looks at the sources and not at the tests, which takes a tenth of the time.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.ports import Port
from tests.backends import memory_backend
from tests.docs.blocks import Block
from tests.docs.checkout import Checkout, leads
from tests.docs.recipes import (
    BLOBS,
    COMMAND,
    DISTRIBUTION,
    ELECTION,
    HERE,
    METRIC,
    OPERATION,
    PLACES,
    POINTERS,
    follow,
    section_of,
    steps_of,
)

RECIPES = (POINTERS, ELECTION, BLOBS, OPERATION, COMMAND, METRIC)
PACKAGE = Path(memory_backend.__file__).parent
RENAMED = (("milepost_backends.toy", memory_backend.__name__), ("Toy", "Memory"), ("toy:", "memory:"))
TYPED = "service backends client/milepost tests/contracts/factories.py"


def to_run(recipe: str) -> list[Block]:
    """The blocks of a recipe that are to be pasted into a shell."""
    return [block for step in steps_of(recipe) for block in step.blocks if block.language == "sh"]


MAKE = {"MAKEFLAGS": "typed=" + TYPED.replace(" ", "\\ ")}
"""A variable for ``make``, as it hands them down itself."""


class Followed:
    """A checkout in which recipes were followed. It runs each line once, until another recipe was followed."""

    def __init__(self, directory: Path) -> None:
        self.checkout = Checkout(directory / "milepost")
        self._directory = directory
        self._said: dict[str, str] = {}

    def follow(self, *recipes: str) -> None:
        """Follow these, and then bring the sources into their form, as the page says."""
        for recipe in recipes:
            follow(recipe, self.checkout)
        self.checkout.run("make format")
        self._said.clear()

    def paste(self, text: str) -> str:
        """Paste a block, line by line; what its lines printed. A server is ended once it was seen to lead."""
        for line in re.findall(r"(?:^for .*?^done$|^.+?$)", text, re.DOTALL | re.MULTILINE):
            if line not in self._said:
                self._said[line] = self._serve(line) if "make serve" in line else self.checkout.run(line, **MAKE).stdout
        return "".join(self._said.values())

    def _serve(self, line: str) -> str:
        """``# with `make serve` beside it`` asks for a server as well."""
        command, beside, _ = line.partition("#")
        log = self._directory / "serve.log"
        port = Port()
        with ExitStack() as ends:
            server = self.checkout.serving("make serve" if beside else command, port, log)
            ends.enter_context(server)
            server.start(leads(port))
            own = f"http://{port.address}"
            said = self.checkout.run(command, MILEPOST_URL=own).stdout if beside else server.logged()
            assert "leading journal root" in server.logged()
            server.stop()
            return said


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    made = Followed(tmp_path_factory.mktemp("recipes"))
    made.follow(*RECIPES)
    return made


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_recipe_says_to_run_ends_well(followed: Followed, recipe: str) -> None:
    blocks = to_run(recipe)
    assert blocks
    for block in blocks:
        said = followed.paste(block.text)
    for passed in re.findall(r"ends with `(\d+ passed)`", section_of(recipe)):
        assert re.search(rf"\b{passed}[ ,]", said), said


def test_the_toy_goes_on_in_a_distribution_of_its_own(followed: Followed) -> None:
    """What it says to run there are its own blocks in between the steps, and the commands of the toy's recipes."""
    moving, installing = to_run(DISTRIBUTION)
    followed.paste(moving.text)
    followed.follow(DISTRIBUTION)
    assert not followed.checkout.path("backends/milepost_backends/toy").exists()
    followed.paste(installing.text)
    for recipe in (POINTERS, ELECTION):
        for block in to_run(recipe):
            for line in block.text.splitlines():
                if "toy" in line:
                    followed.paste(line)


def test_each_step_that_shows_something_is_followed() -> None:
    shown = {
        (recipe, step.number)
        for recipe in (*RECIPES, DISTRIBUTION)
        for step in steps_of(recipe)
        for block in step.blocks
        if block.language not in ("sh", "python", "toml")
    }
    assert shown <= PLACES.keys() <= shown | {(DISTRIBUTION, 3)}


def test_no_recipe_is_left_out() -> None:
    """A step is a number in bold, and each heading that has some is a recipe."""
    steps = re.compile(r"^#+ (.+)\n(?:(?!##).*\n)*?\*\*1\. ", re.MULTILINE)
    headings = [heading for page in HERE.glob("*.md") for heading in steps.findall(page.read_text(encoding="utf-8"))]
    assert sorted(headings) == sorted((*RECIPES, DISTRIBUTION))


def test_the_toy_of_the_recipe_is_the_backend_of_another_distribution_that_the_suites_run_over() -> None:
    """A file that the recipe gives twice counts as it is at the end."""
    given = {
        Path(step.path).name: step.blocks[0].text
        for recipe in (POINTERS, ELECTION)
        for step in steps_of(recipe)
        if step.path.startswith("backends/milepost_backends/toy/")
    }
    for old, new in RENAMED:
        given = {name: code.replace(old, new) for name, code in given.items()}
    assert given == {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py")}
