"""Reads files of properties as Java reads them (`java.util.Properties`), which is how Spark reads its own."""

from __future__ import annotations

import re

_LINES = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_ENTRY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_MEANS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Return the properties that ``text`` sets, without the blanks at the end of a value, which Spark cuts off. Of a
    property that is set twice, the last value counts.
    """
    found = {}
    for line in _whole_lines(text):
        entry = _ENTRY.match(line)
        assert entry is not None  # it matches anything
        found[_plain(entry[1])] = _plain(entry[2]).strip()
    return found


def _whole_lines(text: str) -> list[str]:
    """Put lines together that end in a backslash, and leave out comments and what is empty."""
    whole: list[str] = []
    begun: str | None = None
    for line in _LINES.split(text):
        rest = line.lstrip(_BLANKS)
        if begun is None:
            if not rest or rest[0] in "#!":
                continue
            begun = ""
        begun += rest
        if _CONTINUED.search(begun):
            begun = begun[:-1]
        else:
            whole.append(begun)
            begun = None
    return whole if begun is None else [*whole, begun]


def _plain(escaped: str) -> str:
    def meant(match: re.Match[str]) -> str:
        character = match[1]
        return chr(int(character[1:], 16)) if len(character) == 5 else _MEANS.get(character, character)

    return _ESCAPED.sub(meant, escaped)
