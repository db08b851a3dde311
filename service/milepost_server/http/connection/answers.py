"""Encode an HTTP answer as bytes: its head alone, or a short answer completely."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


def head(status: int, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the bytes of the head of an answer: its status line and its header fields.

    Raises ValueError for a field that HTTP does not allow, such as one whose value contains a line break.
    """
    lines = [_status_line(status)]
    for name, value in fields:
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"this is no field of an answer: {name!r}: {value!r}")
        lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join([*lines, b"", b""])


@cache
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())


def whole(response: Response) -> bytes:
    """Return the bytes of a complete answer that is the last one on its connection."""
    fields = [(name, value) for name, value in response.raw_headers if name != b"connection"]
    return head(response.status_code, [*fields, (b"connection", b"close")]) + bytes(response.body)
