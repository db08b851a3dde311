"""What MkDocs calls while it builds the site (``hooks`` in mkdocs.yml)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path

from tools.site import operations, repository

_OPERATIONS = "<!-- operations -->"
_TABLE_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_BOOST_OF_A_DECISION = 1e-4
"""A word in a title counts a thousand times one in a text, and the title of a decision is a whole sentence: so one that
has all words counts less than a guide that has them in its text.
"""
_CODE = re.compile(r"`[^`]*`")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add to the site what its pages link to outside of docs/."""
    for path in repository.outside_of_docs():
        files.append(File.generated(config, repository.uri_of(path), abs_src_path=str(repository.ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn GitHub's Markdown into that of MkDocs: links out of docs/, and bars within the code of a table. In the
    search, rank a decision below guides.
    """
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"boost": _BOOST_OF_A_DECISION}
    text = repository.with_links_of_the_site(repository.path_of(page.file.src_uri), markdown)
    text = _TABLE_ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), text)
    return text.replace(_OPERATIONS, operations.table()) if _OPERATIONS in text else text
