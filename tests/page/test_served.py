"""The files of the page as they are served: whole, from here alone, and under rules that a browser enforces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import connect, problem

STATIC = {
    each.name: each.read_bytes() for each in resources.files("milepost_server.http.page").joinpath("static").iterdir()
}
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with connect(server.url) as client:
        yield client


def test_each_file_is_served_as_it_is_under_strict_rules(http: httpx.Client) -> None:
    assert len(STATIC) > 5
    for name, content in STATIC.items():
        answer = http.get("/" if name == "index.html" else f"/page/{name}")
        assert (answer.status_code, answer.content) == (200, content), name
        assert answer.headers["content-type"].partition(";")[0] == KINDS[name.rpartition(".")[2]]
        rules = dict(rule.partition(" ")[::2] for rule in answer.headers["content-security-policy"].split("; "))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert {rules[kind] for kind in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
        assert (rules["require-trusted-types-for"], rules["trusted-types"]) == ("'script'", "'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["index.html", "nothing.js", "..%2Froutes.py", "__init__.py", "static"])
def test_nothing_else_is(http: httpx.Client, name: str) -> None:
    problem(http.get(f"/page/{name}"), 404, "no-route")


def test_each_file_that_another_one_names_is_there_and_none_is_elsewhere() -> None:
    index = STATIC["index.html"].decode()
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', index))
    for name, content in STATIC.items():
        imported = re.findall(r'from "([^"]+)"', content.decode())
        assert all(each.startswith("./") for each in imported), name
        named |= {each.removeprefix("./") for each in imported}
        assert not re.search(rb"https?://(?!www\.w3\.org/2000/svg)", content), name
    assert named == STATIC.keys() - {"index.html"}
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", index), "nothing is inline"


def test_answers_that_are_no_page_are_not_taken_for_one(http: httpx.Client) -> None:
    for path in ("/v1/stores", "/webhdfs/v1/jobs?op=LISTSTATUS", "/nowhere"):
        assert http.get(path).headers["x-content-type-options"] == "nosniff"
