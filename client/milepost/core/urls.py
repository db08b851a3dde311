"""URLs that others name: which of them a request can be sent to at all."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")
_LABELS = re.compile(r"(?=.{1,253}\Z)[^.]{1,63}(?:\.[^.]{1,63})*\.?\Z")


def http_url(url: str) -> SplitResult | None:
    """The parts of an http or https URL with a host that can be looked up; None for anything else.

    What has empty labels, or too long ones, the system's resolver refuses with an error of its own kind.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    usable = (
        parts.scheme in ("http", "https") and port != 0 and _VISIBLE.match(url) and _LABELS.match(parts.hostname or "")
    )
    return parts if usable else None
