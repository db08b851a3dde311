"""URLs that come from somebody else: which of them a request can be sent to at all."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")
_LABELS = re.compile(r"(?=.{1,253}\Z)[^.]{1,63}(?:\.[^.]{1,63})*\.?\Z")


def http_url(url: str) -> SplitResult | None:
    """Return the parts of an http or https URL whose host can be looked up; None for anything else.

    A host with an empty or an overlong label is refused here, because the system's resolver would raise an error of its
    own kind for it.
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


def why_unusable(url: str) -> str:
    """Return what is wrong with an address for which `http_url` returns None."""
    if not url.lower().startswith(("http://", "https://")):
        return f"the address {url!r} begins neither with http:// nor with https://"
    return f"not an http or https URL: {url!r}"
