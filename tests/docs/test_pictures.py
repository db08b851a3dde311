"""The pictures of the documentation are those that the script draws, and have words for who cannot see them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.blocks import PAGES, ROOT
from tools.site.pictures import HERE, PICTURES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_the_script_draws_it(name: str) -> None:
    assert (HERE / f"{name}.svg").read_text(encoding="utf-8") == PICTURES[name]().drawn(), (
        "draw them anew: python -m tools.site.pictures"
    )


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_a_description_and_both_schemes(name: str) -> None:
    text = (HERE / f"{name}.svg").read_text(encoding="utf-8")
    drawn = ElementTree.fromstring(text)
    for tag in ("title", "desc"):
        (element,) = drawn.findall(f"{SVG}{tag}")
        assert element.text
        assert element.attrib["id"] in drawn.attrib["aria-labelledby"]
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"(href|src|@import|url)\W+https?:", text)


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_in_a_picture_lies_outside_of_it(name: str) -> None:
    drawn = ElementTree.parse(HERE / f"{name}.svg").getroot()
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for text in drawn.iter(f"{SVG}text"):
        length = 7.3 * len(text.text or "") * (0.86 if "small" in text.attrib["class"] else 1)
        left = float(text.attrib["x"]) - {"start": 0, "middle": length / 2, "end": length}[text.attrib["text-anchor"]]
        assert left > -6, text.text
        assert left + length < width + 6, text.text
        assert 0 < float(text.attrib["y"]) < height, text.text


def test_each_picture_is_shown_with_words_in_its_place() -> None:
    shown: set[Path] = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for words, link in re.findall(r"!\[(.*?)\]\((.*?)\)", text) + [
            (words, link) for link, words in re.findall(r'<img src="(.*?)" alt="(.*?)">', text)
        ]:
            assert len(words) > 20, (page, link)
            shown.add((page.parent / link).resolve())
        shown |= {(page.parent / link).resolve() for link in re.findall(r'<source .* srcset="(.*?)">', text)}
    assert shown == {(HERE / f"{name}.svg").resolve() for name in PICTURES} | {*HERE.resolve().glob("*.png")}
    assert all(path.is_relative_to(ROOT) for path in shown)
