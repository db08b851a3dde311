"""A pytest plugin: ``--tier first`` runs what ``make test`` runs; without it everything runs, as in ``make test-all``.

The first tier is what a change breaks most often, and what takes minutes together: the rules, the journal, HTTP, the
contract suites, the core of the SDK, and a few Spark jobs. A test stays out of it that lies below one of `LATER`, or
has the mark ``later``, which says why it is there; the mark ``promise`` keeps a test in that lies below one of these.
What lies below one of `WHEN_CHANGED` is in it where the files that it is about have changed in this working tree or on
its branch.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

LATER = (
    # Real Spark drivers, but for those with the mark ``promise``.
    "tests/spark/",
    # The programs around the product, and those that test it.
    "tests/demo/",
    "tests/stopwatch/",
    "tests/support/",
    "tests/testbed/",
    "tests/tools/",
    # Distributions, the image and the chart; complete programs; the page at "/" in a browser.
    "tests/deploy/",
    "tests/examples/",
    "tests/install/",
    "tests/page/",
    # Drawn at random, or one guard after another taken out: what breaks there mostly breaks a test of the first tier.
    "tests/corrupt/",
    "tests/fuzz/",
    "tests/simulation/guards/",
    # Whole programs: commands of the server and of the SDK, clients that others wrote, files through signed URLs.
    "tests/client/cli/",
    "tests/direct/",
    "tests/system/",
    "tests/wire/webhdfs/clients/",
)
WHEN_CHANGED = {
    # The dialects of managed state, over one core that is tested always.
    "tests/client/state/dialects/beam/": ("client/milepost/state/", "tests/client/state/"),
    "tests/client/state/dialects/flink/": ("client/milepost/state/", "tests/client/state/"),
    "tests/client/state/dialects/barriers/": ("client/milepost/state/", "tests/client/state/"),
    "tests/client/state/processors/": ("client/milepost/state/", "tests/client/state/"),
    # The recipes, each played in a copy of the sources.
    "tests/docs/test_recipes.py": ("docs/recipes/", "tests/docs/recipes.py", "tests/docs/test_recipes.py"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=["first"], help="run the first tier alone")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without any test of the first tier: each worker would read them and what they import."""
    if config.getoption("tier") is None or collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    return None if may_have_first(path, collection_path.read_text(encoding="utf-8")) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("tier") is None:
        return
    changed = changed_files()
    chosen = {item: is_first(item.nodeid, {mark.name for mark in item.iter_markers()}, changed) for item in items}
    config.hook.pytest_deselected(items=[item for item, first in chosen.items() if not first])
    items[:] = [item for item, first in chosen.items() if first]


def is_first(test: str, marks: set[str], changed: list[str]) -> bool:
    """Whether a test is of the first tier, given its marks and what has changed."""
    for place, about in WHEN_CHANGED.items():
        if test.startswith(place):
            return any(path.startswith(about) for path in changed)
    return "promise" in marks or not ("later" in marks or test.startswith(LATER))


def may_have_first(path: str, content: str) -> bool:
    """Whether a file of tests may have one of the first tier."""
    return not path.startswith(LATER) or "mark.promise" in content


def changed_files() -> list[str]:
    """What differs from the branch that this one goes to, by paths from the root; nothing where git knows none."""
    base = _git("merge-base", "HEAD", "@{upstream}")
    return _git("diff", "--name-only", *(base or ["HEAD"])) + _git("ls-files", "--others", "--exclude-standard")


def _git(*arguments: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        asked = subprocess.run(
            ["git", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        return []
    return asked.stdout.splitlines() if asked.returncode == 0 else []
