"""Which tests are of the first tier, and what a run says of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plugins.own_run import run_pytest
from tests.support.plugins.tiers import LATER, ROOT, WHEN_CHANGED, is_first, may_have_first

TESTS = """
import pytest

def test_one():
    pass

@pytest.mark.later
def test_two():
    pass
"""


@pytest.mark.parametrize(
    ("test", "marks", "first"),
    [
        ("tests/service/rules/test_decide.py::test_a", set(), True),
        ("tests/service/rules/test_decide.py::test_a", {"later"}, False),
        ("tests/spark/test_lead.py::test_a", {"spark"}, False),
        ("tests/spark/test_lead.py::test_a", {"spark", "promise"}, True),
        ("tests/client/cli/test_show.py::test_a", set(), False),
        ("tests/client/test_store.py::test_a", set(), True),
    ],
)
def test_the_place_and_the_marks_decide(test: str, marks: set[str], first: bool) -> None:
    assert is_first(test, marks, []) is first


@pytest.mark.parametrize(
    ("path", "content", "may"),
    [
        ("tests/service/rules/test_decide.py", "@pytest.mark.later", True),
        ("tests/spark/test_lead.py", "@pytest.mark.promise", True),
        ("tests/spark/test_lead.py", "@pytest.mark.spark", False),
        ("tests/client/cli/test_show.py", "", False),
        ("tests/client/test_store.py", "", True),
    ],
)
def test_a_file_with_tests_of_the_first_tier_is_read(path: str, content: str, may: bool) -> None:
    assert may_have_first(path, content) is may


@pytest.mark.parametrize("place", WHEN_CHANGED)
def test_what_depends_on_a_change_is_in_with_the_change_alone(place: str) -> None:
    about = WHEN_CHANGED[place][0]
    assert not is_first(place, set(), ["README.md"])
    assert is_first(place, set(), ["README.md", about])


def test_each_place_is_there() -> None:
    places = [*LATER, *WHEN_CHANGED, *(about for each in WHEN_CHANGED.values() for about in each)]
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(("arguments", "passed"), [((), "2 passed"), (("--tier", "first"), "1 passed, 1 deselected")])
def test_without_the_option_all_tests_run(tmp_path: Path, arguments: tuple[str, ...], passed: str) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    configured = ["-W", "ignore::pytest.PytestUnknownMarkWarning", *arguments]
    ended = run_pytest(tmp_path, *configured, plugins=["tests.support.plugins.tiers", "no:cacheprovider"], timeout=120)
    assert ended.returncode == 0, ended.stdout
    assert f"{passed} in " in ended.stdout
