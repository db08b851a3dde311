"""Answers as their receiver reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from milepost_server.basics.pieces import EncodedList


def plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body whose long members are lists again."""
    return {name: _read(value) if isinstance(value, EncodedList) else value for name, value in body.items()}


def _read(many: EncodedList) -> Any:
    return json.loads(b"".join(many.pieces))
