"""Marks a request whose client has presented a certificate that this server accepts."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

_CERTIFIED = "milepost.certified"


def note_certificate(scope: MutableMapping[str, Any]) -> None:
    """Note that the client of this request has presented a certificate."""
    scope.setdefault("extensions", {})[_CERTIFIED] = {}


def is_certified(scope: MutableMapping[str, Any]) -> bool:
    """Return whether the client of this request has presented a certificate."""
    return _CERTIFIED in (scope.get("extensions") or {})
