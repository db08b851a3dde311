"""Check what the head of a request says of where its body ends and which host it is meant for.

These are checks that the parser does not make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from milepost.errors import Problem
from milepost.wire import Code
from milepost_server.basics.problems import problem

MOST_TARGET_BYTES: Final = 65_535
"""The longest target of a request: the parser of targets cannot count further."""


class Framing:
    """The fields of one head that say where the body ends and which host is meant.

    If this server and a proxy in front of it understood one of these fields differently, they would take a part of one
    client's request for another client's request. So whatever can be understood differently is refused.
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
        """The number of bytes of the body, once the head was found right; None if it comes in chunks."""
        return self._length if self._codings is None else None

    def note(self, name: bytes, value: bytes) -> None:
        """Note one of the `FIELDS` of the head. Its name is in lower case."""
        if name == b"host":
            self._hosts.append(value)
        elif name == b"content-length":
            self._length = int(value)  # the parser passes no other value
        elif name == b"expect":
            self._asked_to_wait = self._asked_to_wait or value.lower() == b"100-continue"
        else:
            given = [coding.strip(b" \t").lower() for coding in value.split(b",")]
            self._codings = [*(self._codings or ()), *given]

    def expects_continue(self, parser: Any) -> bool:
        """Return whether the client waits for ``100 Continue`` before it sends the body; HTTP/1.0 has no such wait."""
        return self._asked_to_wait and parser.get_http_version() == "1.1"

    def fault(self, parser: Any, target: bytes) -> Problem | None:
        """Return the problem with the complete head; None if the request may be served."""
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return problem(Code.INVALID_REQUEST, f"this server speaks HTTP/1.1, not HTTP/{version}")
        if parser.get_method() == b"CONNECT":
            return problem(Code.INVALID_REQUEST, "this server is not a proxy")
        if len(target) > MOST_TARGET_BYTES:
            return problem(Code.TOO_LARGE, f"a target may have at most {MOST_TARGET_BYTES} bytes")
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
        """Return the bytes of the same head without its offer to switch to another protocol."""
        lines = [parser.get_method() + b" " + url + b" HTTP/" + parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in fields if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])


def _host_in(target: bytes) -> bytes | None:
    """Return the host that a target in absolute form names; None for a path."""
    scheme, mark, rest = target.partition(b"://")
    return rest.partition(b"/")[0].partition(b"?")[0].lower() if mark and b"/" not in scheme else None
