"""Finds what pages link to outside of docs/, so that the site has it too, below ``source/``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = "source"
TOO = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
"""What the site's navigation names, whether or not a page links to it."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)(?=[)#\s])")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def uri_of(path: str) -> str:
    """Return the site's address of a file of the repository, both with the root as their beginning."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{SOURCE}/{path}"


def path_of(uri: str) -> str:
    """Return the file of the repository that the site has at ``uri``."""
    return uri.removeprefix(f"{SOURCE}/") if uri.startswith(f"{SOURCE}/") else f"docs/{uri}"


def linked(path: str, text: str) -> Iterator[str]:
    """Yield the files of the repository to which the page at ``path`` links."""
    for match in _LINK.finditer(_FENCED.sub("", text)):
        yield _target(path, match[1])


def with_links_of_the_site(path: str, text: str) -> str:
    """Return the text of the page at ``path`` with each link to another file of the repository as the site has it."""

    def rewritten(match: re.Match[str]) -> str:
        target = _target(path, match[1])
        if (ROOT / target).is_dir():
            target += "/README.md"
        return posixpath.relpath(uri_of(target), posixpath.dirname(uri_of(path)))

    return _outside_of_blocks(lambda prose: _LINK.sub(rewritten, prose), text)


def outside_of_docs() -> list[str]:
    """Return every file outside of docs/ that a page links to, or a page that is found so, by its path."""
    found: dict[str, None] = {}
    waiting = [*TOO, *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md")))]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if not path.startswith("docs/"):
            found[path] = None
        if path.endswith(".md"):
            waiting += [
                f"{each}/README.md" if (ROOT / each).is_dir() else each
                for each in linked(path, (ROOT / path).read_text(encoding="utf-8"))
                if (ROOT / each).exists() and not each.startswith("docs/")
            ]
    return [path for path in found if (ROOT / path).is_file()]


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _outside_of_blocks(change: Callable[[str], str], text: str) -> str:
    result, end = [], 0
    for block in _FENCED.finditer(text):
        result += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*result, change(text[end:])])
