"""The server's connection handling: a body that is cut short gets an answer where the sender still listens."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_CUT = "milepost.body_cut"


class AnsweringProtocol(HttpToolsProtocol):
    """Keeps a half-closed connection open for the answer when the end of file came inside a body.

    The stock protocol lets the transport close itself, and a sender that shut down only its writing side would
    never learn that its body arrived incomplete.
    """

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Tell the application that no more will come, and keep the writing side."""
        cycle = self.cycle
        if not self._mid_body(cycle):
            return None
        cycle.scope.setdefault("extensions", {})[_CUT] = {}  # the one place of the scope that is free for marks
        cycle.more_body = False
        cycle.keep_alive = False
        cycle.message_event.set()
        return True

    @staticmethod
    def _mid_body(cycle: RequestResponseCycle | None) -> bool:
        return cycle is not None and cycle.more_body and not cycle.response_complete


def was_cut(scope: MutableMapping[str, Any]) -> bool:
    """Whether the body of this request ended before its end."""
    return _CUT in (scope.get("extensions") or {})
