"""What was promised goes only as docs/compatibility.md says: first deprecated, and removed a minor version later."""

from __future__ import annotations

import pytest

import milepost
from tests.compatibility.promises import (
    CHANGELOG,
    UNRELEASED,
    Inventory,
    gone,
    lost,
    openapi_page,
    recorded,
    released,
    today,
)

TEXT = CHANGELOG.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def now() -> Inventory:
    """What there is in this tree."""
    return today(openapi_page())


def test_nothing_goes_without_having_been_deprecated_before(now: Inventory) -> None:
    assert lost(recorded()[1], now, gone(TEXT)) == {}


def test_the_inventory_is_that_of_the_last_release(now: Inventory) -> None:
    """Before the first one it is that of the version to come."""
    version, promises = recorded()
    assert version == (released(TEXT) or milepost.__version__)
    assert promises.keys() == now.keys()


def test_each_kind_is_really_looked_at(now: Inventory) -> None:
    some = {
        "names of the SDK": {
            "milepost.Client",
            "milepost.StateHandleStore.replace(version)",
            "milepost.Handle.version",
        },
        "calls": {"GET /v1/stores/{store}/handles/{name}"},
        "members": {"Handle.version"},
        "problem codes": {"fenced"},
        "headers": {"Milepost-Epoch"},
        "flags of the server": {"--listen"},
        "commands and their options": {"milepost fsck --repair", "milepost config set-context"},
        "values of the chart": {"auth.existingSecret"},
        "metrics": {"milepost_pointer_bytes_sent"},
    }
    assert some.keys() == now.keys()
    for kind, names in some.items():
        assert names <= now[kind], kind


def test_whatever_is_taken_away_is_found(now: Inventory) -> None:
    for kind, names in now.items():
        name = min(names)
        less = {**now, kind: names - {name}}
        assert lost(now, less, gone(TEXT)) == {kind: [name]}


@pytest.mark.parametrize(
    ("changelog", "properly"),
    [
        ("## [Unreleased]\n### Removed\n- `--old`.\n## [0.3.0]\n### Deprecated\n- `--old`: take `--new`.\n", True),
        ("## [0.4.0] - 2027\n### Removed\n- `--old`\n\n## [0.3.9]\n### Deprecated\n- `--old`\n", True),
        ("## [0.3.4]\n### Removed\n- `--old`\n## [0.3.0]\n### Deprecated\n- `--old`\n", False),
        ("## [Unreleased]\n### Deprecated\n- `--old`\n### Removed\n- `--old`\n", False),
        ("## [Unreleased]\n### Removed\n- `--old`\n## [0.3.0]\n### Changed\n- `--old`\n", False),
        ("## [Unreleased]\n### Changed\n- `--old`\n## [0.3.0]\n### Deprecated\n- `--old`\n", False),
    ],
    ids=["to-come", "released", "same-minor", "at-once", "never-deprecated", "never-removed"],
)
def test_what_the_changelog_has_to_say_before_something_may_go(changelog: str, properly: bool) -> None:
    changes = gone(changelog)
    assert changes.properly("--old") is properly
    before, now = {"flags": {"--old", "--new"}}, {"flags": {"--new"}}
    assert lost(before, now, changes) == ({} if properly else {"flags": ["--old"]})


def test_the_version_to_come_is_later_than_any() -> None:
    assert gone("## [Unreleased]\n### Removed\n- `a`\n").removed == {"a": UNRELEASED}
    assert released("## [Unreleased]\n") is None
    assert released("## [Unreleased]\n## [0.2.1] - 2027-01-01\n## [0.2.0]\n") == "0.2.1"
