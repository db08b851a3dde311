"""What a request's head says of where its body ends, and of whom it is meant for, beyond what the parser looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from milepost.errors import Problem
from milepost.wire import Code
from service.problems import problem


class Framing:
    """Gathers from the fields of one head. A server and a proxy before it that read one of these in two ways would take
    a part of one client's request for another's, so what could be is refused.
    """

    FIELDS: ClassVar = frozenset({b"host", b"transfer-encoding", b"expect"})
    NO_TRAILERS: ClassVar = frozenset(
        {b"connection", b"proxy-connection", b"content-length", b"transfer-encoding", b"upgrade"}
    )

    __slots__ = ("_codings", "_hosts", "expects_continue")

    def __init__(self) -> None:
        self._hosts = 0
        self._codings: list[bytes] | None = None
        self.expects_continue = False

    def note(self, name: bytes, value: bytes) -> None:
        """One of `FIELDS`, its name in lower case."""
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            self.expects_continue = self.expects_continue or value.lower() == b"100-continue"
        else:
            given = [coding.strip(b" \t").lower() for coding in value.split(b",")]
            self._codings = [*(self._codings or ()), *given]

    def fault(self, parser: Any) -> Problem | None:
        """What is wrong with the whole head; None if it may be served."""
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return problem(Code.INVALID_REQUEST, f"this server speaks HTTP/1.1, not HTTP/{version}")
        if parser.get_method() == b"CONNECT":
            return problem(Code.INVALID_REQUEST, "this server is no proxy")
        if self._hosts != 1 and not (self._hosts == 0 and version == "1.0"):
            return problem(Code.INVALID_REQUEST, f"the header Host stands {self._hosts} times, not once")
        if self._codings is None:
            return None
        if unknown := [coding for coding in self._codings if coding != b"chunked"]:
            told = unknown[0][:60].decode("latin-1")
            return problem(Code.NOT_SUPPORTED, f"the transfer coding {told!r} is not understood here, only chunked is")
        if len(self._codings) > 1 or version == "1.0":
            return problem(Code.INVALID_REQUEST, "chunked stands once, and in HTTP/1.1, or not at all")
        return None

    def without_offer(self, parser: Any, url: bytes, fields: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The bytes of the same head without its offer to speak another protocol."""
        lines = [parser.get_method() + b" " + url + b" HTTP/" + parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in fields if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])
