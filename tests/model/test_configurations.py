"""Each configuration of the model says what is expected of it, and the runner compares that with what TLC found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.__main__ import CONFIGS, CUT, HOLDS, Expected

ALL = sorted(CONFIGS.glob("*.cfg"))


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.stem)
def test_what_is_expected_can_be_found_by_it(config: Path) -> None:
    text = config.read_text()
    invariants = re.search(r"^INVARIANTS? (.*)$", text, re.MULTILINE)
    assert invariants is not None
    assert Expected.of(text).breaks <= set(invariants[1].split())


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.stem)
def test_what_has_all_guards_is_expected_to_hold(config: Path) -> None:
    text = config.read_text()
    if "Off = {}" in text:
        assert Expected.of(text) == Expected()


@pytest.mark.parametrize(
    ("line", "agreeing", "other"),
    [
        ("holds", [HOLDS, CUT], ["Once"]),
        (CUT, [HOLDS, CUT], ["Once"]),
        ("breaks Once", ["Once"], [HOLDS, CUT, "Safe"]),
        ("breaks Once or Safe", ["Once", "Safe"], [HOLDS, CUT, "BlobThere"]),
    ],
)
def test_what_is_found_is_compared_with_it(line: str, agreeing: list[str], other: list[str]) -> None:
    expected = Expected.of(f"\\* Expected: {line}.\nSPECIFICATION Spec\n")
    assert [found for found in (*agreeing, *other) if expected.agrees(found)] == agreeing


@pytest.mark.parametrize("first", ["SPECIFICATION Spec", r"\* Expected: breaks.", r"\* Expected: holds", ""])
def test_a_configuration_that_expects_nothing_is_refused(first: str) -> None:
    with pytest.raises(ValueError, match="first line"):
        Expected.of(f"{first}\nSPECIFICATION Spec\n")
