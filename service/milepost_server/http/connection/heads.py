"""Checks and corrects the parts of a request's head that the HTTP parser accepts or refuses wrongly: request line, body
length and host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.problems import problem

_MOST_TARGET_BYTES: Final = 65_535
"""The most bytes in the target of a request, the limit of httptools' URL parser, which counts in 16 bits."""

_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_SIZE: Final = re.compile(rb"0*([0-9A-Fa-f]+)")
_EMPTY_LINE: Final = b"\r\n\r\n"
KEPT_BYTES: Final = 256
"""The most bytes of a request line that are kept for the answer to invalid input, enough to tell WebHDFS from the
API.
"""


class _Within(Enum):
    LINE = "a request line, or the empty lines before it"
    FIELDS = "the fields of a head, or of trailers, which end in an empty line"
    BODY = "a body of known length"
    CHUNKS = "a body in chunks"


class RequestLines:
    """Splits the bytes that one client sends into parts for the HTTP parser, and encodes the request lines in them.

    Hadoop's client sends letters outside ASCII as raw UTF-8, which the parser refuses as invalid HTTP. In a request
    line, this class replaces each such byte by its percent-encoding, which RFC 3986 (section 2.1) requires in a target.
    Bytes of bodies must stay unchanged, so the class must know exactly where a request line begins. Therefore no part
    goes beyond a place at which a head or a message may end. After each part, the parser says whether it did end there;
    after the end of a message, a request line begins.
    """

    def __init__(self) -> None:
        self.newest = b""
        """The beginning of the newest request line, empty before the first line."""
        self._within = _Within.LINE
        self._begun = False
        self._left = 0
        self._size = b""
        self._tail = b""

    def cut(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Return the next part of ``data``, which begins at ``start``, and the position of its end. In a request line,
        bytes outside ASCII are percent-encoded.
        """
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

    @property
    def between_requests(self) -> bool:
        """Whether the last request is complete, and nothing of the next one has come."""
        return self._within is _Within.LINE and not self._begun

    def body_follows(self, size: int | None) -> None:
        """Note that the head of a request is complete, and that its body has ``size`` bytes; ``size`` is None if the
        body comes in chunks.
        """
        self._within, self._left, self._size = (_Within.CHUNKS if size is None else _Within.BODY), size or 0, b""

    def message_ended(self) -> None:
        """Note that a request, head and body, is complete."""
        self._within, self._begun = _Within.LINE, False

    def _line(self, data: bytes, start: int) -> tuple[bytes, int]:
        first = start if self._begun else len(data) - len(data[start:].lstrip(b"\r\n"))
        end = data.find(b"\n", first) + 1
        part, line = data[start : end or len(data)], data[first : end or len(data)]
        if line:
            self.newest = ((self.newest if self._begun else b"") + line)[:KEPT_BYTES]
            self._begun = True
        if end:
            self._fields_follow()
            if part.isascii() and (whole := data.find(_EMPTY_LINE, end - len(b"\r\n"))) >= 0:
                # most heads come in one piece, which the parser reads faster than two
                whole += len(_EMPTY_LINE)
                return data[start:whole], whole
        encoded = part if part.isascii() else _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], part)
        return encoded, start + len(part)

    def _fields_follow(self) -> None:
        self._within, self._tail = _Within.FIELDS, b"\r\n"

    def _end_of_fields(self, data: bytes, start: int) -> int:
        """Return the position after the empty line that ends the header fields; the end of ``data`` if there is no such
        line yet. The empty line may begin in earlier data.
        """
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
        """Return the position after the line of the last chunk, where the trailers begin; the end of ``data`` if the
        last chunk is not in it.
        """
        at, self._left = at + self._left, 0
        while at < len(data):
            end = data.find(b"\n", at) + 1
            if not end or self._size:
                self._size = (self._size + data[at : end or len(data)]).lstrip(b"0")[:KEPT_BYTES]
                if not end:
                    return len(data)
            found = _SIZE.match(self._size or data, 0 if self._size else at)
            # a chunk size that is not a number counts as 0 here, since the parser refuses it
            size = int(found[1], 16) if found is not None else 0
            self._size = b""
            if not size:
                self._fields_follow()
                return end
            at = end + size + len(b"\r\n")
        self._left = at - len(data)
        return len(data)


class Framing:
    """The header fields of one request that determine where its body ends and which host it is for.

    If this server and a proxy in front of it read one of these fields differently, a part of one client's request could
    pass for another client's request (request smuggling). So the server refuses every ambiguous head.
    """

    FIELDS: ClassVar = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})
    NO_TRAILERS: ClassVar = frozenset(
        {b"connection", b"proxy-connection", b"content-length", b"transfer-encoding", b"upgrade"}
    )

    __slots__ = ("_asked_to_wait", "_codings", "_hosts", "_length")

    def __init__(self) -> None:
        self._hosts: list[bytes] = []
        self._codings: list[bytes] | None = None
        self._asked_to_wait = False
        self._length = 0

    @property
    def length(self) -> int | None:
        """The number of bytes of the body, once `fault` has accepted the head; None if the body comes in chunks."""
        return self._length if self._codings is None else None

    def note(self, name: bytes, value: bytes) -> None:
        """Note the value of a header field whose name is in `FIELDS`. ``name`` is in lower case."""
        if name == b"host":
            self._hosts.append(value)
        elif name == b"content-length":
            self._length = int(value)  # the parser has checked that the value is a number
        elif name == b"expect":
            self._asked_to_wait = self._asked_to_wait or value.lower() == b"100-continue"
        else:
            given = [coding.strip(b" \t").lower() for coding in value.split(b",")]
            self._codings = [*(self._codings or ()), *given]

    def expects_continue(self, parser: Any) -> bool:
        """Return whether the client waits for ``100 Continue`` before it sends the body; never true for HTTP/1.0."""
        return self._asked_to_wait and parser.get_http_version() == "1.1"

    def fault(self, parser: Any, target: bytes) -> Problem | None:
        """Return the problem for which the server must refuse a request with this head; None if it may serve the
        request. Call this once the head is complete.
        """
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return problem(Code.INVALID_REQUEST, f"this server speaks HTTP/1.1, not HTTP/{version}")
        if parser.get_method() == b"CONNECT":
            return problem(Code.INVALID_REQUEST, "this server is not a proxy")
        if len(target) > _MOST_TARGET_BYTES:
            return problem(Code.TOO_LARGE, f"a target may have at most {_MOST_TARGET_BYTES} bytes")
        if len(self._hosts) != 1 and not (not self._hosts and version == "1.0"):
            return problem(Code.INVALID_REQUEST, f"the header Host appears {len(self._hosts)} times, not once")
        if self._hosts and (named := _host_in(target)) is not None and named != self._hosts[0].lower():
            return problem(Code.INVALID_REQUEST, "the target names another host than the header Host")
        if self._codings is None:
            return None
        if unknown := [coding for coding in self._codings if coding != b"chunked"]:
            shown = unknown[0][:60].decode("latin-1")
            return problem(Code.NOT_SUPPORTED, f"the transfer coding {shown!r} is not supported, only chunked is")
        if len(self._codings) > 1 or version == "1.0":
            return problem(Code.INVALID_REQUEST, "chunked may appear only once, and only in HTTP/1.1")
        return None

    def without_offer(self, parser: Any, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the bytes of a request's head without its Upgrade field, the offer to switch to another protocol."""
        lines = [parser.get_method() + b" " + url + b" HTTP/" + parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in fields if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])


def _host_in(target: bytes) -> bytes | None:
    """Return the host in a target of absolute form, in lower case; None if the target is a path."""
    scheme, mark, rest = target.partition(b"://")
    return rest.partition(b"/")[0].partition(b"?")[0].lower() if mark and b"/" not in scheme else None
