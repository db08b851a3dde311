"""Read the header Range: one range of bytes (RFC 9110, section 14)."""

from __future__ import annotations

import re

from milepost.wire import Code
from service.basics.problems import problem
from service.operations.reading import Span

_ONE = re.compile(r"bytes\s*=\s*(\d{0,18})-(\d{0,18})\Z")


def span_of(header: str | None, size: int) -> Span | None:
    """Return the range of bytes that the header asks for of a state of ``size`` bytes; None for all of them.

    A header that is not one range of bytes is ignored, as the standard allows. A range that lies outside of the state
    raises ``range-not-satisfiable``.
    """
    match = _ONE.match(header.strip()) if header else None
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise problem(Code.RANGE_NOT_SATISFIABLE, f"{header!r} lies outside of the {size} bytes", extras={"size": size})
    return Span(start, end)
