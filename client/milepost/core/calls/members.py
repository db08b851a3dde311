"""Readers for the members of an answer's document; each checks the type of one member.

They raise ``TypeError``, ``ValueError`` or ``LookupError`` if the member is missing or has another type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

Document = Mapping[str, Any]

_TIME = re.compile(r"(.{19})(?:\.(\d+))?(?:Z|z|\+00:00)\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def time(text: object) -> datetime:
    """Parse a time of RFC 3339 in UTC. ``fromisoformat`` of Python 3.10 cannot be used: it accepts neither ``Z`` nor an
    arbitrary number of decimals.
    """
    match = _TIME.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("not a time in UTC")
    return datetime.fromisoformat(f"{match[1]}.{(match[2] or '0')[:6]:0<6}+00:00")


def text(document: Document, name: str) -> str:
    """Return the member ``name``, which must be a string."""
    value = document[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def text_or_none(document: Document, name: str) -> str | None:
    """Return the member ``name``, which must be a string; None if it is null or missing."""
    return None if document.get(name) is None else text(document, name)


def sha256(document: Document) -> str:
    """Return the member ``sha256``, which must be a SHA-256 in lower-case hex."""
    found = text(document, "sha256")
    if not _SHA256.match(found):
        raise ValueError("sha256 is not a SHA-256 digest")
    return found


def whole(document: Document, name: str) -> int:
    """Return the member ``name``, which must be an integer of at least 0."""
    value = document[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{name} is not a whole number of 0 or more")
    return value


def seconds(document: Document, name: str) -> float:
    """Return the member ``name``, a number of seconds, which must be finite and at least 0.

    Python's JSON parser also accepts NaN and Infinity, and a lease of that length would never end.
    """
    value = document[name]
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise TypeError(f"{name} is not a number of seconds")
    return float(value)


def flag(value: object) -> bool:
    """Return ``value``, the value of a member, which must be a JSON true or false."""
    if not isinstance(value, bool):
        raise TypeError("a flag is neither true nor false")
    return value


def entries(document: Document, name: str) -> list[Any]:
    """Return the member ``name``, which must be a list; its entries may have any type."""
    value = document[name]
    if not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return value


def texts(document: Document, name: str) -> tuple[str, ...]:
    """Return the member ``name``, which must be a list of strings; an empty tuple if it is missing."""
    found = entries(document, name) if name in document else []
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"{name} holds an entry that is not a string")
    return tuple(found)


def labels(value: object) -> dict[str, str]:
    """Return ``value`` as the labels of a handle; it must be an object whose values are strings."""
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("labels are not an object of strings")
    return dict(value)


def next_page(document: Document, after: str | None) -> str | None:
    """Return the token of the next page; None on the last page. Raises ValueError if the token is ``after``, that of
    the present page, because the listing would never end.
    """
    token = text_or_none(document, "next")
    if token is not None and token == after:
        raise ValueError("a listing that repeats the same page")
    return token
