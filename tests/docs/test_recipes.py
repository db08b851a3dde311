"""The recipe for a backend gives the very code of the package on which the contract suites run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.backends import memory_backend

PAGE = Path(__file__).parents[2] / "docs" / "developing.md"
PACKAGE = Path(memory_backend.__file__).parent
RENAMED = (("backends.toy", memory_backend.__name__), ("Toy", "Memory"), ("toy:", "memory:"))


def test_the_toy_of_the_recipe_passes_what_a_backend_has_to_pass() -> None:
    """A file that the recipe gives twice counts as it is at the end."""
    found = re.findall(
        r"^\*\*\d+\. `backends/toy/(\w+\.py)`\*\*.*?^```python\n(.*?)^```",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    given = dict(found)
    for old, new in RENAMED:
        given = {name: code.replace(old, new) for name, code in given.items()}
    assert given == {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py")}
