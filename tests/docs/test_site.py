"""The site is built without a warning, takes nothing from another host, and leaves no page out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from playwright.sync_api import TimeoutError

from milepost.wire import Code
from tests.docs.blocks import ROOT
from tests.page.chromium import ChromiumAbsent, chromium
from tools.site import repository

pytestmark = pytest.mark.later

LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
"""What a page loads when it is shown, by the tag and its attribute."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does. A broken link or anchor is an error there."""
    directory = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"
    return directory


class Reader(HTMLParser):
    """Notes what a page loads, what it links to, and which classes and ids there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.classes: set[str] = set()
        self.ids: set[str] = set()
        self.pictures: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.classes |= set((named.get("class") or "").split())
        self.ids |= {named["id"] or ""} if "id" in named else set()
        if tag == "img":
            self.pictures.append(named)
        if tag == "a" and named.get("href"):
            self.links.append(named["href"] or "")
        if (address := named.get(LOADED.get(tag, ""))) and named.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(address)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Reader]:
    found = {path.relative_to(site).as_posix(): Reader(path.read_text("utf-8")) for path in site.rglob("*.html")}
    assert len(found) > 70
    return found


def test_the_search_works_from_a_disk_and_shows_guides_above_decisions(site: Path) -> None:
    try:
        with chromium() as browser:
            page = browser.new_page()
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto((site / "index.html").as_uri())
            asking = page.get_by_role("textbox", name="Search")
            for words, where in (
                ("fencing token", "html"),
                ("availableNow", "spark.html"),
                ("lease", "html?h=lease"),
            ):  # the second stands inside of code, the third in titles of many decisions
                asking.fill(words)
                found = page.locator(f".md-search-result__link[href^='file:'][href*='{where}']").first
                for _ in range(600):  # the theme looks at what was typed when a key goes up, and not before it is ready
                    asking.press("End")
                    with suppress(TimeoutError):
                        found.wait_for(timeout=200)
                        break
                assert found.count() == 1, words
                first = page.locator(".md-search-result__link").first.get_attribute("href")
                assert "/decisions/" not in str(first), words
    except ChromiumAbsent as absent:
        pytest.skip(f"no Chromium: {absent}")
    assert {urlsplit(address).scheme for address in asked} <= {"file", "data"}


def test_a_page_loads_nothing_from_another_host(site: Path, pages: dict[str, Reader]) -> None:
    for name, page in pages.items():
        assert page.loaded, name
        for address in page.loaded:
            assert not urlsplit(address).netloc, (name, address)
            assert (site / name).parent.joinpath(unquote(urlsplit(address).path)).exists() or name == "404.html", (
                name,
                address,
            )
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text("utf-8")), style


def test_no_page_makes_the_script_of_the_theme_ask_another_host(pages: dict[str, Reader]) -> None:
    """It fetches Mermaid for such diagrams, and figures of a repository for a link to it: we use neither."""
    for name, page in pages.items():
        assert not page.classes & {"mermaid", "md-source"}, name


def test_each_link_into_the_checkout_leads_somewhere(site: Path, pages: dict[str, Reader]) -> None:
    """MkDocs checks links between its pages; these are the others, such as to a file of values."""
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if not parts.scheme and parts.path and name != "404.html":
                assert (site / name).parent.joinpath(unquote(parts.path)).exists(), (name, link)


def test_a_picture_has_words_in_its_place(pages: dict[str, Reader]) -> None:
    pictures = [picture for page in pages.values() for picture in page.pictures]
    assert len(pictures) > 8
    assert all(len(picture.get("alt") or "") > 20 for picture in pictures)


def test_each_problem_code_can_be_linked_to(pages: dict[str, Reader]) -> None:
    assert {code.value for code in Code} <= pages["troubleshooting.html"].ids


def test_the_reference_has_what_the_sdk_offers(pages: dict[str, Reader]) -> None:
    ids = pages["python.html"].ids
    for name in ("milepost.Client.session", "milepost.StateHandleStore.replace", "milepost.spark.lead.lead"):
        assert name in ids


def test_the_table_of_calls_has_each_call(site: Path) -> None:
    text = (site / "rest.html").read_text("utf-8")
    for call in ("PUT /v1/stores/{store}/handles/{name}", "POST /v1/sessions", "GET /v1/status"):
        assert f"<code>{call}</code>" in text


def test_each_page_of_the_menu_is_there_once() -> None:
    class Loader(yaml.SafeLoader):
        """Knows the tags for Python objects of mkdocs.yml, and makes nothing of them."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    menu = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)["nav"]

    def named(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        assert isinstance(entry, dict | list)
        return [each for part in (entry.values() if isinstance(entry, dict) else entry) for each in named(part)]

    listed = named(menu)
    assert len(listed) == len(set(listed))
    for page in (ROOT / "docs").rglob("*.md"):
        uri = page.relative_to(ROOT / "docs").as_posix()
        assert uri in listed or uri.startswith("decisions/"), f"add a line for {uri} to nav in mkdocs.yml"


def test_links_of_github_become_those_of_the_site() -> None:
    page = (
        "[a](../deploy/chart/values.yaml) [b](wire.md#names) [c](https://example.org) `[d](x)`\n```\n[e](../f)\n```\n"
    )
    assert repository.with_links_of_the_site("docs/kubernetes.md", page) == page.replace("../deploy", "source/deploy")
    assert repository.with_links_of_the_site("README.md", "[x](docs/wire.md) [y](model)") == (
        "[x](../wire.md) [y](model/README.md)"
    )
