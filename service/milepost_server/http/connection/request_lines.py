"""Find the request lines in what a client sends, and write their bytes from 0x80 on as a target may have them."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_SIZE: Final = re.compile(rb"0*([0-9A-Fa-f]+)")
_EMPTY_LINE: Final = b"\r\n\r\n"
_KEPT_BYTES: Final = 256
"""So much of a request line is kept: enough to say which part of the service it is about."""


class _Within(Enum):
    LINE = "a request line, or the empty lines before it"
    FIELDS = "the fields of a head, or of trailers, which end in an empty line"
    BODY = "a body of known length"
    CHUNKS = "a body in chunks"


class RequestLines:
    """Cut what one client sends into parts, no part of which goes beyond the end of a message.

    Hadoop's client sends letters outside ASCII as raw UTF-8, which the parser takes for no HTTP. In a request line each
    such byte becomes its percent-encoding here, which is what a target has to have (RFC 3986, section 2.1). All other
    bytes stay as they are, so the lines have to be told from bodies exactly. The parser decides that: it says where a
    head and a message end, and this only makes sure that a part ends there too.
    """

    def __init__(self) -> None:
        self.newest = b""
        """The beginning of the newest request line, empty before the first one."""
        self._within = _Within.LINE
        self._begun = False
        self._left = 0
        self._size = b""
        self._tail = b""

    def cut(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Return the part that begins at ``start``, as it is to be parsed, and where it ends."""
        if self._within is _Within.LINE:
            return self._line(data, start)
        if self._within is _Within.FIELDS:
            end = self._end_of_fields(data, start)
        elif self._within is _Within.CHUNKS:
            end = self._end_of_chunks(data, start)
        else:
            end = min(len(data), start + self._left)
            self._left -= end - start
        return data[start:end], end

    def body_follows(self, size: int | None) -> None:
        """Note that a head is complete, and how many bytes its body has; None if it comes in chunks."""
        self._within, self._left, self._size = (_Within.CHUNKS if size is None else _Within.BODY), size or 0, b""

    def message_ended(self) -> None:
        """Note that a message is complete."""
        self._within, self._begun = _Within.LINE, False

    def _line(self, data: bytes, start: int) -> tuple[bytes, int]:
        first = start if self._begun else len(data) - len(data[start:].lstrip(b"\r\n"))
        end = data.find(b"\n", first) + 1
        part, line = data[start : end or len(data)], data[first : end or len(data)]
        if line:
            self.newest = ((self.newest if self._begun else b"") + line)[:_KEPT_BYTES]
            self._begun = True
        if end:
            self._fields_follow()
        encoded = part if part.isascii() else _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], part)
        return encoded, start + len(part)

    def _fields_follow(self) -> None:
        self._within, self._tail = _Within.FIELDS, b"\r\n"

    def _end_of_fields(self, data: bytes, start: int) -> int:
        """Return where the empty line ends that is behind the fields, some of which may have come before."""
        known, most = self._tail, len(_EMPTY_LINE) - 1
        end = (known + data[start : start + most]).find(_EMPTY_LINE) + 1
        if end:
            end += most - len(known) + start
        else:
            end = data.find(_EMPTY_LINE, start) + 1
            end = end + most if end else len(data)
        self._tail = (known + data[max(start, end - most) : end])[-most:]
        return end

    def _end_of_chunks(self, data: bytes, at: int) -> int:
        """Return where the last chunk's size ends, behind which are the trailers and the end of the message."""
        at, self._left = at + self._left, 0
        while at < len(data):
            end = data.find(b"\n", at) + 1
            if not end or self._size:
                self._size = (self._size + data[at : end or len(data)]).lstrip(b"0")[:_KEPT_BYTES]
                if not end:
                    return len(data)
            found = _SIZE.match(self._size or data, 0 if self._size else at)
            size = int(found[1], 16) if found is not None else 0  # if this is no number, the parser refuses it
            self._size = b""
            if not size:
                self._fields_follow()
                return end
            at = end + size + len(b"\r\n")
        self._left = at - len(data)
        return len(data)
